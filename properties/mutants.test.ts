/**
 * The proof that a verdict means something: every mutant is condemned on its stage by a judge that was meant to, and the
 * healthy platform is condemned by none and acquitted by those that each stage exists for.
 */
import { describe, expect, test, vi } from "vitest";
import { GATE_MEASUREMENTS } from "../src/gate/block.ts";
import { INVARIANTS } from "../src/invariants/catalogue.ts";
import { MUTANTS } from "../src/mutants/catalogue.ts";
import { type Mutant, type MutantStage, nobody } from "../src/mutants/mutant.ts";
import { HEALTHY } from "../src/platform/parts.ts";
import { CURVE_CLAIMS } from "../src/shedding/curve-claims.ts";
import { SETTLING_CLAIMS } from "../src/shedding/settling-claims.ts";
import { blockThread, pause } from "../src/supervision/waiting.ts";
import { type Bench, openBench } from "../src/trials/stage-bench.ts";
import { callsOf, deploy } from "../src/trials/stages/calls.ts";
import { poolAfterFault } from "../src/trials/stages/faults.ts";
import {
  CHEAPEST,
  COLUMNS,
  columnOf,
  healthyParts,
  MINI_STAGE_NAMES,
  MINI_STAGES,
  planTrials,
  playMiniStage,
  type Trial,
  tryOn,
} from "../src/trials/trials.ts";
import { RULES } from "../src/verify/catalogue.ts";

// All stages share the event loop of this process: more of them at once, and each call waits for many turns of it.
vi.setConfig({ maxConcurrency: 3 });

const IDS = INVARIANTS.map(({ id }) => id);
const CURVE_IDS = [...CURVE_CLAIMS, ...SETTLING_CLAIMS, { measure: "isolation" }].map(
  ({ measure }) => `curve/${measure}`,
);
const JUDGES = new Set([
  ...IDS,
  ...CURVE_IDS,
  ...RULES.map(({ id }) => `verify/${id}`),
  ...["gate/answers", ...GATE_MEASUREMENTS.map((name) => `gate/${name}`)],
]);
/** Tried in mutants-in-virtual-time.test.ts: each takes a core for some seconds. */
const isVirtual = (stage: MutantStage): boolean => "inVirtualTime" in MINI_STAGES[stage];
/** Tried here on real sockets. `verify-load` is nobody's own stage. */
const STAGES = MINI_STAGE_NAMES.filter((stage) => stage !== "verify-load" && !isVirtual(stage));

const textOf = ({ mutant, stage, verdict, intended, reasons }: Trial): string =>
  `${mutant} on ${stage}: ${verdict}. Meant to judge: ${intended.join(", ")}.\n${reasons.join("\n")}`;

describe("the catalogue of mutants", () => {
  test("names each mutant once", () => {
    const names = MUTANTS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  test("has a mutant for every invariant and for every claim of the curve, on a stage that shows it", () => {
    const covered = new Set(MUTANTS.flatMap(({ kills }) => kills));
    expect([...IDS, ...CURVE_IDS].filter((id) => !covered.has(id))).toEqual([]);
  });

  test("says of every mutant who must kill it, in names that exist", () => {
    const unknown = MUTANTS.flatMap(({ name, kills }) =>
      kills.filter((id) => !JUDGES.has(id)).map((id) => `${name}: ${id}`),
    );
    expect(unknown).toEqual([]);
    expect(MUTANTS.filter(({ kills }) => kills.length === 0)).toEqual([]);
  });

  test("spoils something in every mutant, and leaves the healthy parts as they were", () => {
    const before = { ...HEALTHY };
    for (const mutant of MUTANTS) {
      const spoilt = mutant.spoil(HEALTHY);
      const touched = (Object.keys(HEALTHY) as (keyof typeof HEALTHY)[]).filter(
        (part) => spoilt[part] !== HEALTHY[part],
      );
      expect(touched.length, mutant.name).toBeGreaterThan(0);
    }
    expect(HEALTHY).toEqual(before);
  });

  test("lets no stage prove what its judges are not asked", () => {
    const proved = new Set(MINI_STAGE_NAMES.flatMap((stage) => MINI_STAGES[stage].proves));
    expect([...proved].filter((id) => !JUDGES.has(id))).toEqual([]);
    expect(IDS.filter((id) => !proved.has(id))).toEqual([]);
  });
});

describe("a trial", () => {
  test("tells a mutant that nobody condemns, with its stage and the judge that missed it", async () => {
    const harmless: Mutant = {
      ...nobody,
      name: "spoils-nothing",
      stage: "month-edge",
      kills: ["admits-what-is-allowed"],
    };
    const trial = await tryOn(harmless, "month-edge");
    expect(trial.verdict).toBe("survived");
    expect(textOf(trial)).toMatch(/^spoils-nothing on month-edge: survived.*admits-what-is-allowed/);
  });

  test("does not take one judge's word for another's", async () => {
    const spoilt = MUTANTS.find(({ name }) => name === "forgets-the-new-month") as Mutant;
    const kills = ["admits-what-is-allowed", "envelope-fits-subcode"];
    const trial = await tryOn({ ...spoilt, kills }, "month-edge");
    expect(trial).toMatchObject({ verdict: "wrong-judge", by: ["admits-what-is-allowed"] });
  });

  test("stands a machine that keeps everything waiting for seconds, on the stages whose calls come at a moment", async () => {
    const early = MUTANTS.find(({ name }) => name === "retry-after-too-early") as Mutant;
    const trials = [tryOn(early, early.stage), tryOn(nobody, "restart-unsettled")];
    await pause(1_000);
    blockThread(4_500);
    expect((await Promise.all(trials)).map(({ verdict }) => verdict)).toEqual(["killed", "acquitted"]);
  });

  test("accuses nobody of the time that a stall took from all calls under way", async () => {
    const press =
      ({ press: sent }: Bench): Bench["press"] =>
      async (...steps) => {
        const answers = sent(...steps);
        await pause(1_050);
        blockThread(2_000);
        return answers;
      };
    const stalled = {
      ...poolAfterFault,
      play: (bench: Bench) => poolAfterFault.play({ ...bench, press: press(bench) }),
    };
    const { claims } = await playMiniStage("pool-after-fault", stalled, healthyParts());
    expect(claims.filter(({ verdict }) => verdict === "fail")).toEqual([]);
  });

  test("waits for calls in flight by looking at them, however long the machine stalls", async () => {
    const bench = await openBench("deploy", healthyParts(), deploy.options);
    const open = bench.sendAll(callsOf(bench.view, "chat.control", 8));
    const inFlight = bench.untilInFlight(8);
    blockThread(1_500);
    await inFlight;
    expect(bench.running.gauges()?.in_flight).toBe(8);
    await open;
    await bench.close();
  });

  test("elsewhere than where a mutant must be caught tells only who saw it", async () => {
    const spoilt = MUTANTS.find(({ name }) => name === "forgets-the-new-month") as Mutant;
    const elsewhere: Mutant = { ...spoilt, stage: "answers" };
    expect(await tryOn(elsewhere, "month-edge")).toMatchObject({ verdict: "seen", by: ["admits-what-is-allowed"] });
    expect(await tryOn(elsewhere, "edge-of-quota")).toMatchObject({ verdict: "not-seen", by: [] });
  });

  test("tells a healthy platform that is condemned as a false positive", async () => {
    const spoilt = MUTANTS.find(({ name }) => name === "admits-one-too-many") as Mutant;
    const trial = await tryOn({ ...nobody, spoil: spoilt.spoil }, "edge-of-quota");
    expect(trial).toMatchObject({ verdict: "false-positive", by: ["admits-at-most-the-allowance"], attempts: 1 });
  });
});

describe("the healthy platform", { concurrent: true }, () => {
  test.each(STAGES)("is condemned by nobody on %s, and acquitted by those who judge it there", async (stage) => {
    const trial = await tryOn(nobody, stage);
    if (trial.verdict !== "acquitted") throw new Error(textOf(trial));
  });
});

describe("a mutant is killed by every judge that was meant to", { concurrent: true }, () => {
  const tried = MUTANTS.map((mutant) => [mutant.name, mutant.stage, mutant] as const).filter(
    ([, stage]) => !isVirtual(stage),
  );
  test.each(tried)("%s, on %s", async (_, stage, mutant) => {
    const trial = await tryOn(mutant, stage);
    if (trial.verdict !== "killed") throw new Error(textOf(trial));
  });
});

describe("the plan of dev mutants", () => {
  test("tries every mutant where it must be caught, and on the cheapest stage of every other column but the gate", () => {
    const attempts = planTrials(MUTANTS);
    for (const mutant of MUTANTS) {
      const mine = attempts.filter((attempt) => attempt.mutant === mutant);
      expect(mine.filter(({ stage }) => stage === mutant.stage)).toHaveLength(1);
      const others = COLUMNS.filter((column) => column in CHEAPEST);
      expect(mine.map(({ stage }) => columnOf(stage))).toEqual(expect.arrayContaining(others));
    }
  });

  test("tries the healthy platform on every stage that any mutant visits, and everywhere means all of them", () => {
    const healthy = (everywhere: boolean) =>
      planTrials(MUTANTS, { everywhere }).flatMap(({ mutant, stage }) => (mutant === nobody ? [stage] : []));
    expect(healthy(false)).toEqual(MINI_STAGE_NAMES);
    expect(healthy(true)).toEqual(MINI_STAGE_NAMES);
    const everywhere = planTrials(MUTANTS, { everywhere: true });
    expect(everywhere.length).toBe((MUTANTS.length + 1) * MINI_STAGE_NAMES.length);
  });
});
