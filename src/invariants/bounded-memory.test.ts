/**
 * Judges are folds with bounded state: of the lines that they have seen they may hold what is in flight, a few that prove
 * something, and no more. Counted are lines that the collector could not take away, so nothing depends on figures of a machine.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import type { StageFacts } from "../history/run-document.ts";
import { INVARIANTS } from "./catalogue.ts";
import { type Invariant, openJudges } from "./invariant.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const FACTS: StageFacts = {
  stage: "s",
  reference: true,
  exclusive: true,
  started_at_ms: Date.UTC(2026, 10, 21),
  limits: {
    replicas: 1,
    global_in_flight: 8,
    org_in_flight: 6,
    rate_per_s: 50,
    burst: 60,
    revocation_budget_ms: 1_000,
  },
  shedding: "fixed",
  tenants: {
    a: { tier: "Pro", allowance: 1e9, used_at_start: 0 },
    b: { tier: "Free", allowance: 1e9, used_at_start: 0 },
  },
  faults: false,
  drained: true,
};

const OUTCOMES = ["200", "200", "200", "429 rate_limited", "429 b2b_overloaded", "indeterminate", "200", "edge 502"];
const ROUTES = ["maps.loads", "design.styles", "chat.control"] as const;

const callOf = (n: number): CallLine => {
  const route = ROUTES[n % ROUTES.length] as CallLine["route"];
  const outcome = OUTCOMES[(n * 7) % OUTCOMES.length] as string;
  const org = n % 3 === 0 ? "b" : "a";
  const sentUs = n * 20_000;
  return {
    type: "call",
    id: `c-${n}`,
    stage: "s",
    driver: "open-loop",
    org,
    bucket: `${org}.key`,
    route,
    intended_us: sentUs,
    started_us: sentUs,
    connect_us: 0,
    sent_us: sentUs,
    first_us: outcome === "indeterminate" ? null : sentUs + 5_000,
    done_us: sentUs + 5_000 + ((n * 31) % 40) * 1_000,
    outcome,
    attempt: 0,
    clock_error_us: 500,
    envelope: "flat",
    retry_after: "1",
    ...(route === "chat.control" && outcome === "200"
      ? { events: 5, ended: "done", event_names: ["token", "done"], first_event_us: sentUs + 6_000 }
      : {}),
    facts: {
      credential: "server",
      origin: "none",
      tier: "Pro",
      scopes: ["ai", "design", "maps"],
      products: [],
      body: "ok",
    },
  };
};

/** Counts the lines that each judge still holds after having seen so many. One collection serves all, because it goes through the whole heap. */
const heldAfter = async (invariants: readonly Invariant[], calls: number): Promise<number[]> => {
  const opened = invariants.map((invariant) => {
    const judges = openJudges([invariant], FACTS);
    const lines = Array.from({ length: calls }, (_, n) => {
      const line = callOf(n);
      judges.see(line);
      return new WeakRef(line);
    });
    return { judges, lines };
  });
  // What a WeakRef was made of lives until the turn ends.
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  return opened.map(({ judges, lines }) => {
    const held = lines.filter((line) => line.deref() !== undefined).length;
    judges.claims("");
    return held;
  });
};

test("no judge holds more lines of a stage ten times as long", async () => {
  const short = await heldAfter(INVARIANTS, 500);
  const long = await heldAfter(INVARIANTS, 5_000);
  const hoarders = INVARIANTS.filter((_, at) => (long[at] as number) > (short[at] as number) + 20);
  expect(hoarders.map(({ id }) => id)).toEqual([]);
});

test("one that keeps its lines is found out", async () => {
  const hoarder: Invariant = {
    ...(INVARIANTS[0] as Invariant),
    judge: () => {
      const kept: unknown[] = [];
      return {
        see: (line) => void kept.push(line),
        end: () => ({
          verdict: "pass",
          code: "held",
          reason: `${kept.length} lines`,
          expected: "",
          got: "",
          evidence: [],
        }),
      };
    },
  };
  expect(await heldAfter([hoarder], 5_000)).toEqual([5_000]);
});
