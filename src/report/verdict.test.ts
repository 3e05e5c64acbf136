import { describe, expect, test } from "vitest";
import { claimOf } from "../history/claim.fixture.ts";
import { madeRun } from "./made-run.fixture.ts";
import { claimsInOrder, mergeClaims, whyOf } from "./verdict.ts";

test("what a stage did not reach is said before its other open claims, and after what failed", () => {
  const open = [claimOf("curve/a", { verdict: "inconclusive" }), claimOf("reached/s", { verdict: "inconclusive" })];
  const order = claimsInOrder([...open, claimOf("reached/t"), claimOf("b/s"), claimOf("b/t", { verdict: "fail" })]);
  expect(order.map(({ id }) => id)).toEqual(["b/t", "reached/s", "curve/a", "b/s", "reached/t"]);
});

describe("mergeClaims", () => {
  test("a pass of every must is a pass", () => {
    expect(mergeClaims([claimOf("a/s"), claimOf("b/s")], [])).toMatchObject({ verdict: "pass", exit_code: 0 });
  });

  test("a failed must fails the run, also beside an inconclusive one and a missing requirement", () => {
    const merged = mergeClaims(
      [claimOf("a/s", { verdict: "inconclusive" }), claimOf("b/s", { verdict: "fail" })],
      ["verify"],
    );
    expect(merged).toMatchObject({ verdict: "fail", exit_code: 1 });
    expect(merged.reason).toContain("b/s");
  });

  test("an inconclusive must makes the run inconclusive", () => {
    expect(mergeClaims([claimOf("a/s"), claimOf("b/s", { verdict: "inconclusive" })], [])).toMatchObject({
      verdict: "inconclusive",
      exit_code: 4,
    });
  });

  test.each(["should", "info"] as const)("%s never fails a run nor holds it up", (level) => {
    for (const verdict of ["fail", "inconclusive", "skipped"] as const) {
      expect(mergeClaims([claimOf("a/s"), claimOf("b/s", { level, verdict })], []).verdict).toBe("pass");
    }
  });

  test("a run that judged nothing is inconclusive: no claims, all skipped, or only recorded", () => {
    expect(mergeClaims([], []).exit_code).toBe(4);
    expect(mergeClaims([claimOf("a/s", { verdict: "skipped" })], []).exit_code).toBe(4);
    expect(mergeClaims([claimOf("a/s", { level: "info" })], []).exit_code).toBe(4);
  });

  test("that no credential was written is not about the target: beside skipped claims alone it is no pass", () => {
    const ours = claimOf("secrets-stay-secret/run", { stage: "run" });
    const skipped = claimOf("a/s", { verdict: "skipped" });
    expect(mergeClaims([ours, skipped], [])).toMatchObject({ verdict: "inconclusive", exit_code: 4 });
    expect(mergeClaims([{ ...ours, verdict: "fail", code: "broken" }, skipped], []).verdict).toBe("fail");
    expect(mergeClaims([ours, skipped, claimOf("b/s")], []).verdict).toBe("pass");
  });

  test("a skipped must that nobody requires is told, but does not decide", () => {
    const merged = mergeClaims([claimOf("a/s"), claimOf("b/s", { verdict: "skipped" })], []);
    expect(merged.verdict).toBe("pass");
    expect(merged.reason).toBe("1 of 1 required claim holds; 1 not judged: 1 (no reason was given).");
  });

  test("what was not judged is grouped by what comes before the colon of its reason", () => {
    const skipped = (id: string, reason: string) => claimOf(id, { verdict: "skipped", reason: `skipped: ${reason}` });
    const unseen = [
      skipped("b/s", "not seen on this target: no refusal"),
      skipped("c/s", "not seen on this target: no charge"),
    ];
    expect(mergeClaims([claimOf("a/s"), ...unseen], []).reason).toBe(
      "1 of 1 required claim holds; 2 not judged: 2 (not seen on this target).",
    );
    const cut = skipped("d/s", "needs fixed shedding (the file says unknown: caps move)");
    expect(mergeClaims([claimOf("a/s"), cut], []).reason).toMatch(/1 \(needs fixed shedding\)\.$/);
  });

  test("a pass says what should hold and does not, and does not give reasons for what is only recorded", () => {
    const claims = [
      claimOf("a/s"),
      claimOf("b/s", { level: "should", verdict: "fail" }),
      claimOf("c/s", { level: "should", verdict: "inconclusive" }),
      claimOf("d/s", { level: "info", verdict: "skipped", reason: "skipped: no 503 came" }),
    ];
    expect(mergeClaims(claims, []).reason).toBe(
      "1 of 1 required claim holds; 1 that should hold does not; 1 that should hold could not be decided; 1 info claim not judged.",
    );
    const lacking = claimOf("e/s", { level: "should", verdict: "skipped", reason: "skipped: no ledger" });
    expect(mergeClaims([claims[0], claims[3], lacking] as typeof claims, []).reason).toBe(
      "1 of 1 required claim holds; 2 not judged: 1 (no ledger), 1 info claim.",
    );
  });

  test.each(["b/s", "b", "s2", "load/s2"])("required as %s, a skipped claim makes the run inconclusive", (name) => {
    const claims = [claimOf("a/s"), claimOf("b/s", { verdict: "skipped", stage: "s2", reason: "skipped: no ledger" })];
    const merged = mergeClaims(claims, [name]);
    expect(merged).toMatchObject({ verdict: "inconclusive", exit_code: 4 });
    expect(merged.reason).toContain(name);
    expect(mergeClaims([claimOf("a/s"), claimOf("b/s", { stage: "s2" })], [name]).verdict).toBe("pass");
  });

  test("a required stage has to be played; what its judges could not see there does not count against it", () => {
    const played = claimOf("reached/mix", { stage: "mix" });
    const unseen = claimOf("counts-agree/mix", { stage: "mix", verdict: "skipped" });
    expect(mergeClaims([played, unseen], ["load/mix"]).verdict).toBe("pass");
    const skipped = claimOf("reached/mix", { stage: "mix", verdict: "skipped", reason: "skipped: no tenants" });
    expect(mergeClaims([claimOf("a/s"), skipped], ["load/mix"]).reason).toContain("no tenants");
  });

  test("a stage that carries its command in its name is found by that name and by the command", () => {
    const claims = [claimOf("sheds-above-the-cap/load/chat-past-capacity")];
    expect(mergeClaims(claims, ["load/chat-past-capacity", "load"]).verdict).toBe("pass");
  });

  test("a requirement that is absent altogether makes the run inconclusive", () => {
    expect(mergeClaims([claimOf("a/s")], ["verify"])).toMatchObject({ verdict: "inconclusive", exit_code: 4 });
    expect(mergeClaims([claimOf("verified/s")], ["verify"]).verdict).toBe("inconclusive");
  });

  test("of a required group something has to be judged; what the target lacks for the rest does not decide", () => {
    const skipped = claimOf("verify/x", { verdict: "skipped", reason: "skipped: no revoked" });
    expect(mergeClaims([claimOf("verify/y"), skipped], ["verify"]).verdict).toBe("pass");
    expect(mergeClaims([claimOf("verify/y"), skipped], ["verify/x"])).toMatchObject({ exit_code: 4 });
    expect(mergeClaims([claimOf("verify/y"), skipped], ["verify/x"]).reason).toContain("no revoked");
  });

  test("a required group of which nothing is judged is missing: skipped, undecided or only recorded", () => {
    const others = [
      claimOf("verify/x", { verdict: "skipped" }),
      claimOf("verify/y", { level: "should", verdict: "inconclusive" }),
      claimOf("verify/z", { level: "info" }),
    ];
    const merged = mergeClaims([claimOf("a/s"), ...others], ["verify"]);
    expect(merged).toMatchObject({ verdict: "inconclusive", exit_code: 4 });
    expect(merged.reason).toContain("verify (nothing of it judged: verify/x, verify/y, verify/z)");
    expect(mergeClaims([claimOf("a/s"), others[0]!], ["verify"]).reason).toContain("verify (all of it skipped");
  });

  test("in a required group a skipped should does not decide, unless nothing else is there", () => {
    const skipped = claimOf("verify/x", { level: "should", verdict: "skipped" });
    expect(mergeClaims([claimOf("verify/y"), skipped], ["verify"]).verdict).toBe("pass");
    expect(mergeClaims([claimOf("a/s"), skipped], ["verify"]).verdict).toBe("inconclusive");
    expect(mergeClaims([claimOf("a/s"), skipped], ["verify/x"]).verdict).toBe("inconclusive");
  });

  test("many broken claims are counted, the first ones named", () => {
    const claims = Array.from({ length: 9 }, (_, i) => claimOf(`a${i}/s`, { verdict: "fail" }));
    expect(mergeClaims(claims, []).reason).toBe(
      "9 of 9 required claims are broken: a0/s, a1/s, a2/s, a3/s, a4/s and 4 more.",
    );
  });
});

test("a run held up by what its target file requires names it, and why it was not judged", () => {
  const required = ["reached/a", "reached/b", "reached/c", "reached/d"];
  const skipped = required.map((id) => claimOf(id, { verdict: "skipped", reason: "skipped: two tenants" }));
  const run = madeRun({ claims: [claimOf("a/s"), ...skipped], required: [...required, "e"], verdict: "inconclusive" });
  expect(whyOf(run)).toBe(
    "Required, but not judged: reached/a, reached/b, reached/c and 1 more (two tenants), e (absent: nothing of that name was judged).",
  );
});

test("of many reasons the first three are told, and how many are left", () => {
  const claims = ["a", "b", "c", "d", "e"].map((id) => claimOf(`${id}/s`, { verdict: "skipped", reason: `no ${id}` }));
  expect(
    mergeClaims(
      claims,
      claims.map(({ id }) => id),
    ).reason,
  ).toContain("Required, but not judged: a/s (no a), b/s (no b), c/s (no c) and 2 more reasons.");
});

test.each([
  [1, "(1 claim was skipped)"],
  [2, "(2 claims were skipped)"],
])("a run held up by what was required says that %d was skipped", (n, text) => {
  const skipped = Array.from({ length: n }, (_, i) => claimOf(`s${i}/s`, { verdict: "skipped" }));
  expect(whyOf(madeRun({ claims: [claimOf("a/s"), ...skipped], verdict: "inconclusive" }))).toContain(text);
});
