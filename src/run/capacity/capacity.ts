/** The body of `capacity`: the highest rate at which a deployment keeps its objectives, and whether that meets a demand. */

import type { Found } from "../../capacity/capacity-claims.ts";
import { type Demand, demandOf } from "../../capacity/demand.ts";
import { POLICY, type SearchPolicy, SHORT_POLICY } from "../../capacity/search.ts";
import { type ShareObjective, shareObjective } from "../../capacity/tally-calls.ts";
import { parseObjectives } from "../../history/objectives.ts";
import { prepareTarget, readTarget } from "../../stages/prepare-target.ts";
import { type PlannedTarget, plannedTarget } from "../../stages/stages-for.ts";
import { readUserJson } from "../../supervision/user-file.ts";
import type { Target } from "../../target/target.ts";
import type { Arrivals } from "../../workload/arrivals.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { calibrateRun } from "../calibration/calibrate.ts";
import { UsageError } from "../exit-codes.ts";
import { type RunRequest, type RunResult, recordRun } from "../recorded-run.ts";
import type { PlayedProbe } from "./capacity-search.ts";
import { playCapacity } from "./capacity-search.ts";

export type CapacityWishes = {
  targetFile: string;
  owned: readonly string[];
  story: string;
  arrivals: Arrivals;
  /** `--slo`; without it, the target file's `slo` for the story. */
  slo: string | undefined;
  demandFile: string | undefined;
  short: boolean;
  policy?: Partial<SearchPolicy>;
};

export type CapacityRun = Omit<RunRequest, "targets" | "profile" | "required"> &
  CapacityWishes & {
    onObjectives(objectives: readonly ShareObjective[]): void;
    onProbe(probe: PlayedProbe): void;
  };

/** Random arrivals come in bursts, which a rate near the permit would hold back; uniform ones do not. */
const SHARE_OF_PERMIT: Record<Arrivals, number> = { poisson: 0.6, uniform: 0.9 };
/** The capacity is not known yet, so a common rate is calibrated; the search tries its generator at twice the answer. */
const RATE_CALIBRATED_PER_S = 200;
const NO_ERRORS = "errors<=1%";

/** A deployment that answers 503 refuses nothing and is fast, so errors are bounded even where nobody states a bound. */
const objectivesOf = (wishes: CapacityWishes, target: Target): ShareObjective[] => {
  const family = wishes.story.split("-")[0] as string;
  const stated = wishes.slo ?? target.slo?.[wishes.story] ?? target.slo?.[family];
  if (stated === undefined) {
    throw new UsageError(
      `capacity needs objectives: --slo 'refusals<=1%,p99<=300ms', or slo.${family} in the target file`,
    );
  }
  try {
    const objectives = parseObjectives(stated);
    const hasErrors = objectives.some(({ metric }) => metric === "errors");
    return [...objectives, ...(hasErrors ? [] : parseObjectives(NO_ERRORS))].map(shareObjective);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
};

const demandOfFile = (path: string | undefined): Demand | null => {
  if (path === undefined) return null;
  try {
    return demandOf(readUserJson(path));
  } catch (error) {
    throw new UsageError(`--demand ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
};

const policyOf = ({ short, arrivals, policy }: CapacityWishes, target: Target): SearchPolicy => {
  const permitted = target.permits?.load_max_rps;
  const maxPerS = permitted === undefined ? Number.POSITIVE_INFINITY : permitted * SHARE_OF_PERMIT[arrivals];
  return { ...(short ? SHORT_POLICY : POLICY), maxPerS, ...policy };
};

const missingOf = ({ story: name }: CapacityWishes, target: Target): string[] => {
  const story = STORIES.get(name);
  if (story === undefined) {
    throw new UsageError(`there is no scenario "${name}"; expected one of ${[...STORIES.keys()].join(", ")}`);
  }
  return story.missing(viewOf(target));
};

const INTENT = { load: true, faults: false, requests: 1 };

export type CapacityPlan = {
  schema: "floodgate/plan@1";
  target: PlannedTarget;
  story: string;
  arrivals: Arrivals;
  objectives: string[];
  /** Calls per second; null where the target file does not bound it. */
  max_per_s: number | null;
  /** The rates that are played until an objective is broken, as far as they are permitted. */
  rates: number[];
  seconds_at_most: number;
  lacks: string[];
  refused_by_guard: readonly string[];
};

const BRACKETS_SHOWN = 8;

/** Reads the target file and nothing else: no secret, no lock, no folder, no call. */
export const planCapacity = async (wishes: CapacityWishes): Promise<CapacityPlan> => {
  const { target, refusals } = await readTarget(wishes.targetFile, wishes.owned, INTENT);
  const objectives = objectivesOf(wishes, target);
  demandOfFile(wishes.demandFile);
  const { maxPerS, startPerS, playS, confirmS, warmUpS } = policyOf(wishes, target);
  const doubled = Array.from({ length: BRACKETS_SHOWN }, (_, i) => startPerS * 2 ** i);
  return {
    schema: "floodgate/plan@1",
    target: plannedTarget(target),
    story: wishes.story,
    arrivals: wishes.arrivals,
    objectives: objectives.map(({ text }) => text),
    max_per_s: Number.isFinite(maxPerS) ? maxPerS : null,
    rates: [
      ...doubled.filter((rate) => rate < maxPerS),
      ...(maxPerS < startPerS * 2 ** BRACKETS_SHOWN ? [maxPerS] : []),
    ],
    // A confirmation that fails prolongs the search by half, twice at the most.
    seconds_at_most: Math.ceil(2 * playS + 4 * (confirmS + warmUpS)),
    lacks: missingOf(wishes, target),
    refused_by_guard: refusals,
  };
};

type CapacityResult = RunResult & { found: Found | null };

/** Throws what a user has to mend before anything is sent. */
export const findCapacity = async (request: CapacityRun): Promise<CapacityResult> => {
  const { targetFile, owned, story, arrivals, onProbe } = request;
  const prepared = await prepareTarget(targetFile, owned, INTENT);
  const { target } = prepared;
  const objectives = objectivesOf(request, target);
  const demand = demandOfFile(request.demandFile);
  const lacks = missingOf(request, target);
  if (lacks.length > 0) throw new UsageError(`the target file lacks what ${story} needs: ${lacks.join("; ")}`);
  request.onObjectives(objectives);
  const policy = policyOf(request, target);
  let found: Found | null = null;
  const result = await recordRun(
    { ...request, profile: "capacity", targets: [prepared], canJudge: (name) => name.split("/")[0] === "capacity" },
    async (context) => {
      const [deployment] = context.deployments;
      if (deployment === undefined) throw new Error("no deployment was opened");
      if (objectives.some(({ isTime }) => isTime)) {
        await calibrateRun(context, new Map([["open-loop", Math.min(policy.maxPerS, RATE_CALIBRATED_PER_S)]]));
      }
      const wish = { story, arrivals, objectives, policy, demand, onProbe };
      found = (await playCapacity(context, deployment, wish)).found;
    },
  );
  return { ...result, found };
};
