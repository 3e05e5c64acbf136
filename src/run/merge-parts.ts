/** Judges as one stage the parts that several k6 processes played (`-e PART=`, `load --operator`). Sends nothing. */
import { isDeepStrictEqual } from "node:util";
import { parseJson } from "../contract/envelopes.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { Driver } from "../drivers/driver.ts";
import { createReader } from "../drivers/k6/k6-process.ts";
import { inconclusive } from "../faults/disturbance.ts";
import { playLoadStage } from "../stages/load-stage.ts";
import type { LoadStage } from "../stages/stage-plan.ts";
import { UserFileError } from "../supervision/user-file.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { arrivalTimesUs } from "../workload/arrivals.ts";
import { guardBudget } from "../workload/budget.ts";
import { STORIES } from "../workload/catalogue.ts";
import type { Printed, PrintedPart } from "../workload/handover.ts";
import { profileDurationS } from "../workload/load-profiles.ts";
import type { Story } from "../workload/story.ts";
import { UsageError } from "./exit-codes.ts";
import { textBlocks } from "./read-run.ts";
import { type Asked, type RunResult, recordRun } from "./recorded-run.ts";
import { scenarioStage } from "./suites/suites.ts";

/** How a scenario's lines begin; a part may be a container's log, which has other lines too. */
const PRINTED = '{"type":"';

const printedLines = (path: string) =>
  textBlocks(path).flatMap((block) => block.split("\n").filter((line) => line.startsWith(PRINTED)));

const EXPECTED =
  'expected a part of a distributed run, which begins with a line of type "part"; k6 writes one with -e PART=FILE. Run folders are compared without --merge';

const headOf = (path: string): PrintedPart => {
  try {
    // Destructuring also closes the file.
    const [line = ""] = printedLines(path);
    const head = JSON.parse(line) as PrintedPart;
    if (head.type === "part" && STORIES.has(head.story) && head.profile.pieces.length > 0) return head;
  } catch (error) {
    if (error instanceof UserFileError) throw new UsageError(`${path}: ${error.message}; ${EXPECTED}`);
  }
  throw new UsageError(`${path}: ${EXPECTED}`);
};

/** What all parts of a run have in common. */
const COMMON = ["story", "seed", "profile", "arrivals", "view", "target"] as const;

type Parts = { paths: readonly string[]; heads: readonly PrintedPart[]; seed: number };

/** Throws `UsageError` where a file is no part, or files are parts of different runs. */
export const readParts = (paths: readonly string[]): Parts => {
  const heads = paths.map(headOf);
  const [first] = heads as [PrintedPart];
  for (const [at, head] of heads.entries()) {
    const other = COMMON.find((name) => !isDeepStrictEqual(head[name], first[name]));
    if (other === undefined) continue;
    throw new UsageError(`${paths[at]} and ${paths[0]} are parts of different runs: their ${other} differs`);
  }
  return { paths, heads, seed: first.seed };
};

/** If the parts' schedules began further apart than this, levels of the load overlap. */
const APART_MOST_US = 1_000_000;

/** Computes from a line when its part's schedule began, in microseconds since 1970; `null` if it cannot. */
const beginBy = (line: string, momentsUs: readonly number[]): number | null => {
  const printed = parseJson(line) as Printed | PrintedPart | undefined;
  if (printed?.type !== "call") return null;
  const { i, step, attempt, intendedUs } = printed;
  const afterUs = momentsUs[i];
  return step === 0 && attempt === 0 && afterUs !== undefined ? intendedUs - afterUs : null;
};

const driveParts =
  ({ paths, heads }: Parts, story: Story): Driver =>
  async ({ job, onLine }) => {
    const calls = new Map<number, number>();
    const momentsUs = arrivalTimesUs(job.profile, job.arrivals, job.seed);
    const starts: number[] = [];
    const reasons: (string | false)[] = [];
    for (const [at, path] of paths.entries()) {
      const { idPrefix } = heads[at] as PrintedPart;
      const { seen, take } = createReader({ ...job, story, idPrefix }, onLine);
      let startUs: number | null = null;
      for (const line of printedLines(path).drop(1)) {
        take(line);
        startUs ??= beginBy(line, momentsUs);
      }
      if (startUs !== null) starts.push(startUs);
      for (const i of seen.calls) calls.set(i, (calls.get(i) ?? 0) + 1);
      const { faults, strangers, end } = seen;
      reasons.push(
        end === null && `${path} breaks off: its k6 did not come to its end`,
        end?.stopped != null && `${path} was stopped early: ${end.stopped.reason}`,
        faults.length > 0 && `${path}: the scenario threw in ${faults.length} iterations: ${faults[0]?.message}`,
        strangers > 0 && `${path}: ${strangers} lines could not be read`,
      );
    }
    const apartUs = Math.max(...starts) - Math.min(...starts);
    const twice = [...calls.values()].filter((times) => times > 1).length;
    const [scheduled, missing] = [momentsUs.length, momentsUs.length - calls.size];
    reasons.push(
      missing > 0 &&
        `${missing} of the ${scheduled} calls of the schedule are in none of the ${paths.length} parts: one is missing, or ended early`,
      twice > 0 && `${twice} calls are in two parts: is one file given twice?`,
      apartUs > APART_MOST_US && `the parts began ${(apartUs / 1e6).toFixed(1)} s apart, so levels of the load overlap`,
    );
    return {
      problems: [
        { ...inconclusive("the parts were played on machines that nobody calibrated"), about: "time" },
        ...reasons.flatMap((why) => why || []).map(inconclusive),
      ],
      notes: [],
      host: null,
      scheduledMs: profileDurationS(job.profile) * 1000,
      startUs: starts.length === 0 ? undefined : Math.min(...starts) - job.epochUs,
    };
  };

export const mergeParts = async (request: Asked, parts: Parts): Promise<RunResult> => {
  const { heads, seed } = parts;
  const { story: name, profile, arrivals, target: stated } = heads[0] as PrintedPart;
  const target = stated as Target;
  const plan = { ...(scenarioStage(name, { arrivals }) as LoadStage), driver: "k6" as const, profile };
  const driver = driveParts(parts, STORIES.get(name) as Story);
  return recordRun({ ...request, targets: [], profile: `load-${name}`, seed }, async (context) => {
    const deployment: Deployment = {
      ...{ target, secrets: createSecrets("."), folder: ".", budget: guardBudget({}), found: {} },
      ...{ embedded: false, reference: false, exclusive: target.exclusive === true },
      ...{ faults: null, faultsMissing: "a merged run sends nothing" },
    };
    context.opened(deployment);
    const merged = { ...context, seed, epochUs: Math.min(...heads.map(({ atUs }) => atUs)) };
    await context.addStage(await playLoadStage(merged, deployment, plan, { driver }));
  });
};
