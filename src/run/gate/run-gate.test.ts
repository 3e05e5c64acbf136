/** The whole course of a comparison in virtual time: probes, warm-up, pairs, claims, table. */
import { describe, expect, test } from "vitest";
import type { Side } from "../../gate/block-plan.ts";
import { claimOf } from "../../history/claim.fixture.ts";
import type { CallLine } from "../../history/line.ts";
import type { Claim } from "../../history/run-document.ts";
import { openVirtualDeployment, type VirtualDeployment } from "../../simulation/virtual-deployment.fixture.ts";
import type { Target } from "../../target/target.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { arrivalTimesUs } from "../../workload/load-profiles.ts";
import type { Story } from "../../workload/story.ts";
import { bareDeployment } from "./bare-deployment.fixture.ts";
import { alikeViews, type GateRoom, type GateSide, nothingSeen, type playBlock, runGate } from "./run-gate.ts";

const STORY = STORIES.get("chat-beside-noisy") as Story;
const SLOTS = 24;
const SERVICE_MS = 300;
const LIMITS = { slots: SLOTS, service_ms: SERVICE_MS, global_in_flight: SLOTS, org_in_flight: SLOTS };

const sideOf = (side: Side, more: Partial<Target>): GateSide => {
  const target: Target = {
    schema: "floodgate/target@1",
    name: side,
    base_url: `http://127.0.0.1:1/${side}`,
    ...more,
    credentials: { server: { key: "env:NOBODY", org: "org_a" } },
  };
  return {
    side,
    view: viewOf(target),
    tenants: {},
    noisy: new Set(),
    deployment: bareDeployment(target),
    seen: nothingSeen(side),
  };
};

type Wish = {
  pairs?: number;
  base?: Partial<VirtualDeployment>;
  head?: Partial<VirtualDeployment>;
  target?: Partial<Target>;
  claims?(side: Side, name: string): Claim[];
  /** What becomes of a call of the head. */
  spoilt?(line: CallLine): CallLine;
  isDead?: Side;
  /** What comes of every call to the dead side. */
  instead?: Pick<CallLine, "outcome" | "error">;
};

const REFUSED = { outcome: "indeterminate", error: "connection_refused" };

const run = async (wish: Wish) => {
  const { pairs = 12, head = {}, target = { limits: LIMITS }, claims = () => [], isDead, instead = REFUSED } = wish;
  const { base = {}, spoilt = (line: CallLine) => line } = wish;
  const said: string[] = [];
  const played: string[] = [];
  let atUs = 0;
  const deployment = { slots: SLOTS, serviceMs: () => SERVICE_MS };
  const sides = {
    base: openVirtualDeployment({ name: "base", ...deployment, ...base }),
    head: openVirtualDeployment({ name: "head", ...deployment, ...head }),
  };
  const play: typeof playBlock = async ({ side }, _story, profile, name) => {
    atUs += 60e6;
    played.push(name);
    const arrivals = arrivalTimesUs(profile, "uniform", 1).map((us) => us + atUs);
    const lines = sides[side](arrivals, played.length).map((line) =>
      side === isDead ? { ...line, ...instead } : side === "head" ? spoilt(line) : line,
    );
    return { lines, startUs: atUs, claims: claims(side, name), isPlayed: true, problems: [] };
  };
  const room = {
    run: "abc",
    seed: 1,
    epochUs: 0,
    replay: "again",
    signal: new AbortController().signal,
    supervisor: {},
    line: () => undefined,
  } as unknown as GateRoom;
  const say = (text: string): void => void said.push(text);
  const plan = { scenario: "chat-past-capacity", story: STORY, pairs };
  const targets = { base: sideOf("base", target), head: sideOf("head", target) };
  const result = await runGate(plan, targets, room, { step: say, progress: say, note: say }, play);
  const verdicts = Object.fromEntries(result.claims.map(({ id, verdict }) => [id, verdict]));
  return { ...result, verdicts, said: said.join("\n"), played };
};

describe("two target files", () => {
  const targetOf = (tenants: number, more: Partial<Target> = {}): Target => ({
    ...{ schema: "floodgate/target@1", name: "some", base_url: "http://127.0.0.1:1/some", credentials: {} },
    tenants: Array.from({ length: tenants }, (_, n) => ({ org: `org_t${n + 1}`, server: { key: "env:NOBODY" } })),
    ...more,
  });
  const callers = (view: TargetView): unknown[] =>
    Array.from({ length: 400 }, (_, i) => STORY.plan(1, i, view).map(({ org }) => org));
  const stated = { limits: { org_in_flight: 3 } };

  test.each<[string, Target, Target]>([
    ["other limits", targetOf(12, stated), targetOf(12)],
    ["no limits on the base", targetOf(12), targetOf(12, stated)],
    ["a tenant less", targetOf(12), targetOf(11)],
    ["a tenant more", targetOf(4), targetOf(12)],
    ["tenants on one side", targetOf(0, { credentials: { server: { key: "env:NOBODY" } } }), targetOf(12)],
  ])("make the same calls with %s", (_, base, head) => {
    const views = alikeViews({ base, head: { ...head, credentials: base.credentials } });
    expect(callers(views.head)).toEqual(callers(views.base));
    expect(callers(views.head)[0]).toHaveLength(1);
  });

  test("of equal content are played as they are", () => {
    const target = targetOf(12, stated);
    expect(alikeViews({ base: target, head: target })).toEqual({ base: viewOf(target), head: viewOf(target) });
  });
});

const held = (side: Side, name: string, verdict: Claim["verdict"] = "pass"): Claim =>
  claimOf(`streams-end-once/gate.${side}`, { verdict, reason: name });

describe("a comparison of two targets", () => {
  test("of one thing with itself passes, with a table and measurements", async () => {
    const { verdicts, table, measurements, played } = await run({
      claims: (side, name) => [held(side, name)],
    });
    expect(Object.entries(verdicts).filter(([, verdict]) => verdict !== "pass" && verdict !== "skipped")).toEqual([]);
    expect(verdicts).toMatchObject({ "gate/invariants": "pass", "gate/goodput": "pass", "gate/goodput_kept": "pass" });
    expect(table[0]).toMatch(/^measurement/);
    expect(measurements.map(({ name, stage }) => `${stage} ${name}`)).toContain("gate latency_ms_p50_worse_by");
    expect(played.slice(0, 2)).toEqual(["warm.base", "warm.head"]);
    expect(new Set(played).size).toBe(played.length);
  });

  test("fails a slower head, and one whose slots leak", async () => {
    const slow = await run({ head: { serviceMs: () => 1.1 * SERVICE_MS } });
    expect(slow.verdicts).toMatchObject({ "gate/latency_ms_p50": "fail", "gate/goodput": "fail" });
    const leaky = await run({ head: { leaksEvery: 400 } });
    expect(leaky.verdicts).toMatchObject({ "gate/goodput": "fail", "gate/goodput_kept": "fail" });
  });

  test("fails what breaks an invariant on the head alone, without measuring on", async () => {
    const { verdicts, played } = await run({
      claims: (side, name) => [held(side, name, side === "head" && name === "p03.head" ? "fail" : "pass")],
    });
    expect(verdicts["gate/invariants"]).toBe("fail");
    expect(played.at(-1)).toMatch(/^p12\./);
  });

  test("says that figures are compared from twelve pairs on, and fails a broken invariant before", async () => {
    const slow = { head: { serviceMs: () => 1.3 * SERVICE_MS } };
    for (const pairs of [3, 11]) {
      const { said, verdicts, played } = await run({ ...slow, pairs });
      expect(said).toMatch(RegExp(`${pairs} pairs of blocks, about \\d+ min; figures are compared from 12 on`));
      expect([verdicts["gate/goodput"], played.at(-1)?.slice(0, 3)]).toEqual(["fail", "p12"]);
    }
    const broken = await run({
      ...{ ...slow, pairs: 3 },
      claims: (side, name) => [held(side, name, side === "head" ? "fail" : "pass")],
    });
    expect([broken.verdicts["gate/invariants"], broken.played.at(-1)?.slice(0, 3)]).toEqual(["fail", "p03"]);
  });

  test("fails a head that sheds in another's name, whose figures are those of the base", async () => {
    const renamed = (line: CallLine): CallLine =>
      line.outcome === "429 b2b_overloaded" ? { ...line, outcome: "429 org_overloaded" } : line;
    const { verdicts, claims } = await run({ spoilt: renamed, claims: (side, name) => [held(side, name)] });
    expect(Object.entries(verdicts).filter(([, verdict]) => verdict === "fail")).toEqual([["gate/answers", "fail"]]);
    expect(claims.find(({ id }) => id === "gate/answers")?.reason).toBe(
      "the head refuses with 429 org_overloaded in place of 429 b2b_overloaded: every block of the base has what is lost",
    );
  });

  test("passes a head that carries more and meets another cap", async () => {
    const renamed = (line: CallLine): CallLine =>
      line.outcome === "429 b2b_overloaded" ? { ...line, outcome: "429 org_overloaded" } : line;
    const head = { slots: 1.5 * SLOTS };
    const { verdicts, claims } = await run({ spoilt: renamed, head, claims: (side, name) => [held(side, name)] });
    expect(verdicts).toMatchObject({ "gate/answers": "pass", "gate/goodput": "pass" });
    expect(claims.find(({ id }) => id === "gate/answers")?.reason).toMatch(
      /the head refuses with 429 org_overloaded in place of 429 b2b_overloaded, and carries more$/,
    );
  });

  test("is open where the base was probed while it warmed up, so that no block is past its capacity", async () => {
    let cold = 150;
    const base = {
      serviceMs: () => {
        cold -= 1;
        return (cold > 0 ? 4 : 1) * SERVICE_MS;
      },
    };
    const { claims, verdicts } = await run({ base, target: {} });
    expect(verdicts["gate/pairs"]).toBe("inconclusive");
    expect(claims.find(({ id }) => id === "gate/pairs")?.reason).toMatch(
      /^the base serves [\d.]+ calls\/s of [\d.]+ calls\/s, so no block was past its capacity/,
    );
  });

  test("probes what the target file does not state, within what it permits", async () => {
    const { said, played } = await run({ target: { permits: { load_max_rps: 1_000 } } });
    expect(played.filter((name) => name.startsWith("probe")).length).toBeGreaterThan(2);
    expect(said).toMatch(/capacity is taken as (7\d|8\d) calls\/s/);
    expect(said).toContain("no organization is noisy");
    const bounded = await run({ target: { permits: { load_max_rps: 50 } } });
    expect(bounded.said).toMatch(/no limit of the base was reached at 50 calls\/s/);
  });

  test("a permit below the base's capacity hides what a head loses there, so it is no pass", async () => {
    const permitting = (perS: number) =>
      run({ target: { permits: { load_max_rps: perS } }, head: { slots: SLOTS * 0.7 } });
    const claims = (await permitting(50)).verdicts;
    expect(claims).toMatchObject({ "gate/pairs": "inconclusive", "gate/goodput": "pass" });
    // The base carries 80 calls/s.
    expect((await permitting(110)).verdicts).toMatchObject({ "gate/pairs": "pass", "gate/goodput": "fail" });
  });

  test.each(["base", "head"] as const)("says at once that the %s does not answer", async (isDead) => {
    await expect(run({ isDead })).rejects.toThrow(
      `the ${isDead} answers no call at http://127.0.0.1:1/${isDead} (connection_refused)`,
    );
    await expect(run({ isDead, instead: { outcome: "edge 403" } })).rejects.toThrow(
      `the ${isDead} answers no call at http://127.0.0.1:1/${isDead} (only a gateway does: edge 403)`,
    );
  });
});
