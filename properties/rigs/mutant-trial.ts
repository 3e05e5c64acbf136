/**
 * Tries one law on one mutant. A broken law kills the mutant only if the same case breaks it again in a new deployment and
 * holds with the healthy parts: otherwise the machine or the law is at fault. After a few attempts without a result the trial
 * is undecided.
 */
import { maskSecrets } from "../../src/contract/credentials.ts";
import type { Mutant } from "../../src/mutants/mutant.ts";
import type { Parts } from "../../src/platform/parts.ts";
import { type Draw, examine, type Finding, NotJudged } from "../laws/examine.ts";
import type { PartLaw } from "../laws/part-laws.ts";
import { seedOfLaw } from "../laws/seed.ts";
import { FORGETFUL } from "./real-api.ts";

export type LawTrial = {
  mutant: string;
  law: string;
  verdict: "killed" | "survived" | "undecided";
  /** What was expected and what came, in one line. */
  reason: string;
  /** The law's seed, and the path of the case that broke it. */
  seed: number;
  path: string | null;
};

/** The healthy platform of a trial: it caches no key records, so that a change shows at once. */
const HEALTHY_PARTS = FORGETFUL;

const spoiltPartsOf = (mutant: Mutant): (keyof Parts)[] => {
  const spoilt = mutant.spoil(HEALTHY_PARTS);
  return (Object.keys(HEALTHY_PARTS) as (keyof Parts)[]).filter((part) => spoilt[part] !== HEALTHY_PARTS[part]);
};

/** The laws that look at what this mutant spoils; all of them for the healthy platform. */
export const lawsFor = (mutant: Mutant, laws: readonly PartLaw[]): PartLaw[] => {
  const spoilt = spoiltPartsOf(mutant);
  if (spoilt.length === 0) return [...laws];
  return laws.filter(({ looksAt }) => looksAt.some((part) => spoilt.includes(part)));
};

const ATTEMPTS_MAX = 3;
/** How often one case is asked again that was set aside: the machine's stalls pass, and the case is a second's work. */
const SET_ASIDE_MAX = 8;

const oneLine = (text: string): string => maskSecrets(text).replaceAll(/\s+/g, " ").trim().slice(0, 400);

const examineWith = async (law: PartLaw, parts: Parts, draw: Draw, left = SET_ASIDE_MAX): Promise<Finding | null> => {
  const { property, close } = await law.open(parts);
  try {
    return await examine(property, draw);
  } catch (error) {
    if (!(error instanceof NotJudged) || left === 0) throw error;
  } finally {
    await close();
  }
  return examineWith(law, parts, draw, left - 1);
};

/** `path`: tries only the case that a line of output reported, with the seed of that line. */
export type TrialOptions = { seed: number; runs: number | null; path?: string | undefined };

type Again = { killed: string } | { doubt: string };

/** Tries the same case once more, in new deployments. */
const breaksAgain = async (
  law: PartLaw,
  mutant: Mutant,
  { seed, path, why }: Finding,
  alone: boolean,
): Promise<Again> => {
  const judge = (parts: Parts, draw: Draw): Promise<Finding | null> => examineWith(law, parts, draw);
  let same: Draw = { seed, runs: 1, path };
  let again = await judge(mutant.spoil(HEALTHY_PARTS), same);
  if (again === null && !alone) {
    // State from earlier cases may break this one, so all cases up to it are played again.
    same = { seed, runs: Number.parseInt(path, 10) + 1, shrinks: false };
    again = await judge(mutant.spoil(HEALTHY_PARTS), same);
  }
  if (again?.path !== path) return { doubt: `${why}; but the same case held when it was tried again` };
  const healthy = spoiltPartsOf(mutant).length === 0 ? null : await judge(HEALTHY_PARTS, same);
  return healthy === null
    ? { killed: again.why }
    : { doubt: `${why}; but the healthy platform fails the same case: ${healthy.why}` };
};

export const tryLaw = async (law: PartLaw, mutant: Mutant, options: TrialOptions): Promise<LawTrial> => {
  const { seed } = options;
  const drawn = seedOfLaw(seed, law.name);
  const runs = options.path === undefined ? (options.runs ?? law.runs) : 1;
  const about = { mutant: mutant.name, law: law.name };
  const undecided = (why: string, path: string | null): LawTrial => {
    return { ...about, verdict: "undecided", reason: oneLine(why), seed, path };
  };
  let doubt = "";
  let path: string | null = null;
  try {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
      const found = await examineWith(law, mutant.spoil(HEALTHY_PARTS), {
        seed: drawn,
        runs,
        shrinks: false,
        path: options.path,
      });
      if (found === null) {
        const held = runs === 1 ? "held in this case" : `held in all of ${runs} cases`;
        const reason = attempt === 1 ? held : `${held} at attempt ${attempt}; before that, ${doubt}`;
        return { ...about, verdict: "survived", reason: oneLine(reason), seed, path: null };
      }
      path = found.path;
      const again = await breaksAgain(law, mutant, found, options.path !== undefined).catch((error: unknown): Again => {
        if (error instanceof NotJudged) return { doubt: `${found.why}; but ${error.message}` };
        throw error;
      });
      if ("killed" in again) return { ...about, verdict: "killed", reason: oneLine(again.killed), seed, path };
      doubt = again.doubt;
    }
    return undecided(doubt, path);
  } catch (error) {
    return undecided(`the law could not be asked: ${(error as Error).message}`, path);
  }
};
