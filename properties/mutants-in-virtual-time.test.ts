/** Mutants of shedding and of speed, each on its stage in virtual time. */
import { describe, expect, test, vi } from "vitest";
import { comparePairs, verdictOf } from "../src/gate/paired-comparison.ts";
import { MUTANTS } from "../src/mutants/catalogue.ts";
import { type MutantStage, nobody } from "../src/mutants/mutant.ts";
import { HEALTHY, type Parts } from "../src/platform/parts.ts";
import { healthyShedding } from "../src/trials/stages/curve.ts";
import { MINI_STAGE_NAMES, MINI_STAGES, tryOn } from "../src/trials/trials.ts";
import { virtualPairs } from "../src/trials/virtual-pairs.fixture.ts";

// Each play has a thread of its own, and the longest file of all is sooner done by several.
vi.setConfig({ maxConcurrency: 3 });

const isVirtual = (stage: MutantStage): boolean => "inVirtualTime" in MINI_STAGES[stage];

describe.concurrent("in virtual time", () => {
  test.each(MINI_STAGE_NAMES.filter(isVirtual))("the healthy platform passes %s", async (stage) => {
    const trial = await tryOn(nobody, stage);
    if (trial.verdict !== "acquitted") throw new Error(trial.reasons.join("\n"));
  });

  test.each(
    MUTANTS.filter(({ stage }) => isVirtual(stage)).map((mutant) => [mutant.name, mutant.stage, mutant] as const),
  )("%s is killed on %s by every judge that was meant to", async (_, stage, mutant) => {
    const trial = await tryOn(mutant, stage);
    if (trial.verdict !== "killed") throw new Error(trial.reasons.join("\n"));
  });

  test.each(["curve", "storm"] as const)(
    "the healthy platform with adaptive shedding fails no claim of a %s",
    async (of) => {
      const claims = await healthyShedding(of, "adaptive", 1);
      expect(claims.filter(({ verdict }) => verdict === "fail")).toEqual([]);
      expect(claims.filter(({ verdict }) => verdict === "pass").length).toBeGreaterThan(of === "curve" ? 8 : 1);
    },
  );
});

describe("the gate, in virtual time", () => {
  const SEEDS = Array.from({ length: 40 }, (_, seed) => seed);
  const judged = (head: Parts, seed: number) => comparePairs(virtualPairs(head, seed));

  /** Noise changes no form of an answer, so mutants of those are left out. */
  const slow = MUTANTS.filter(({ stage, kills }) => stage === "gate" && !kills.includes("gate/answers"));

  test.each(slow.map((mutant) => [mutant.name, mutant] as const))(
    "kills %s by the measurement that was meant to, whatever the noise",
    (_, mutant) => {
      for (const seed of SEEDS) {
        const worse = judged(mutant.spoil(HEALTHY), seed).filter(({ verdict }) => verdict === "regression");
        expect(worse.map(({ measurement }) => `gate/${measurement}`)).toEqual(
          expect.arrayContaining([...mutant.kills]),
        );
      }
    },
  );

  test("acquits the healthy platform beside itself, whatever the noise", () => {
    const verdicts = SEEDS.map((seed) => verdictOf(judged(HEALTHY, seed)));
    expect(new Set(verdicts)).toEqual(new Set(["no-regression"]));
  });
});
