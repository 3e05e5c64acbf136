import { describe, expect, test } from "vitest";
import type { Claim } from "../history/run-document.ts";
import { mergeClaims } from "./verdict.ts";

const claim = (id: string, over: Partial<Claim> = {}): Claim => ({
  id,
  stage: id.split("/").slice(1).join("/"),
  level: "must",
  verdict: "pass",
  reason: "",
  expected: "",
  got: "",
  spec: [],
  evidence: [],
  replay: "",
  ...over,
});

describe("mergeClaims", () => {
  test("a pass of every must is a pass", () => {
    expect(mergeClaims([claim("a/s"), claim("b/s")], [])).toMatchObject({ verdict: "pass", exit_code: 0 });
  });

  test("a failed must fails the run, also beside an inconclusive one and a missing requirement", () => {
    const merged = mergeClaims(
      [claim("a/s", { verdict: "inconclusive" }), claim("b/s", { verdict: "fail" })],
      ["verify"],
    );
    expect(merged).toMatchObject({ verdict: "fail", exit_code: 1 });
    expect(merged.reason).toContain("b/s");
  });

  test("an inconclusive must makes the run inconclusive", () => {
    expect(mergeClaims([claim("a/s"), claim("b/s", { verdict: "inconclusive" })], [])).toMatchObject({
      verdict: "inconclusive",
      exit_code: 4,
    });
  });

  test.each(["should", "info"] as const)("%s never fails a run nor holds it up", (level) => {
    for (const verdict of ["fail", "inconclusive", "skipped"] as const) {
      expect(mergeClaims([claim("a/s"), claim("b/s", { level, verdict })], []).verdict).toBe("pass");
    }
  });

  test("a run that judged nothing is inconclusive: no claims, all skipped, or only recorded", () => {
    expect(mergeClaims([], []).exit_code).toBe(4);
    expect(mergeClaims([claim("a/s", { verdict: "skipped" })], []).exit_code).toBe(4);
    expect(mergeClaims([claim("a/s", { level: "info" })], []).exit_code).toBe(4);
  });

  test("a skipped must that nobody requires is told, but does not decide", () => {
    const merged = mergeClaims([claim("a/s"), claim("b/s", { verdict: "skipped" })], []);
    expect(merged.verdict).toBe("pass");
    expect(merged.reason).toContain("1 claim was skipped");
  });

  test.each(["b/s", "b", "s2", "load/s2"])("required as %s, a skipped claim makes the run inconclusive", (name) => {
    const claims = [claim("a/s"), claim("b/s", { verdict: "skipped", stage: "s2", reason: "skipped: no ledger" })];
    const merged = mergeClaims(claims, [name]);
    expect(merged).toMatchObject({ verdict: "inconclusive", exit_code: 4 });
    expect(merged.reason).toContain(name);
    expect(mergeClaims([claim("a/s"), claim("b/s", { stage: "s2" })], [name]).verdict).toBe("pass");
  });

  test("a required stage has to be played; what its judges could not see there does not count against it", () => {
    const played = claim("reached/mix", { stage: "mix" });
    const unseen = claim("counts-agree/mix", { stage: "mix", verdict: "skipped" });
    expect(mergeClaims([played, unseen], ["load/mix"]).verdict).toBe("pass");
    const skipped = claim("reached/mix", { stage: "mix", verdict: "skipped", reason: "skipped: no tenants" });
    expect(mergeClaims([claim("a/s"), skipped], ["load/mix"]).reason).toContain("no tenants");
  });

  test("a stage that carries its command in its name is found by that name and by the command", () => {
    const claims = [claim("sheds-above-the-cap/load/chat-past-capacity")];
    expect(mergeClaims(claims, ["load/chat-past-capacity", "load"]).verdict).toBe("pass");
  });

  test("a requirement that is absent altogether makes the run inconclusive", () => {
    expect(mergeClaims([claim("a/s")], ["verify"])).toMatchObject({ verdict: "inconclusive", exit_code: 4 });
    expect(mergeClaims([claim("verified/s")], ["verify"]).verdict).toBe("inconclusive");
  });

  test("of a required group something has to be judged; what the target lacks for the rest does not decide", () => {
    const skipped = claim("verify/x", { verdict: "skipped", reason: "skipped: no revoked" });
    expect(mergeClaims([claim("verify/y"), skipped], ["verify"]).verdict).toBe("pass");
    expect(mergeClaims([claim("verify/y"), skipped], ["verify/x"])).toMatchObject({ exit_code: 4 });
    expect(mergeClaims([claim("verify/y"), skipped], ["verify/x"]).reason).toContain("no revoked");
  });

  test("a required group of which nothing is judged is missing: skipped, undecided or only recorded", () => {
    const others = [
      claim("verify/x", { verdict: "skipped" }),
      claim("verify/y", { level: "should", verdict: "inconclusive" }),
      claim("verify/z", { level: "info" }),
    ];
    const merged = mergeClaims([claim("a/s"), ...others], ["verify"]);
    expect(merged).toMatchObject({ verdict: "inconclusive", exit_code: 4 });
    expect(merged.reason).toContain("verify (nothing of it judged: verify/x, verify/y, verify/z)");
    expect(mergeClaims([claim("a/s"), others[0]!], ["verify"]).reason).toContain("verify (all of it skipped");
  });

  test("in a required group a skipped should does not decide, unless nothing else is there", () => {
    const skipped = claim("verify/x", { level: "should", verdict: "skipped" });
    expect(mergeClaims([claim("verify/y"), skipped], ["verify"]).verdict).toBe("pass");
    expect(mergeClaims([claim("a/s"), skipped], ["verify"]).verdict).toBe("inconclusive");
    expect(mergeClaims([claim("a/s"), skipped], ["verify/x"]).verdict).toBe("inconclusive");
  });

  test("many broken claims are counted, the first ones named", () => {
    const claims = Array.from({ length: 9 }, (_, i) => claim(`a${i}/s`, { verdict: "fail" }));
    expect(mergeClaims(claims, []).reason).toBe(
      "9 claims that must hold are broken: a0/s, a1/s, a2/s, a3/s, a4/s and 4 more.",
    );
  });
});
