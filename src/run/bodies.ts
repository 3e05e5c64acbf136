/**
 * What the commands do inside a recorded run: `run`, `load` and `chaos` play stages, `load --script` plays a k6 script
 * without a history, `verify` tries rules, `report --merge` joins parts.
 */

import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { parseJson } from "../contract/refusals.ts";
import { type Deployment, type EmbeddedOptions, openDeployment, type RunContext } from "../deployments/deployment.ts";
import type { Driver, Problem } from "../drivers/driver.ts";
import { createReader } from "../drivers/k6/k6-process.ts";
import * as userScript from "../drivers/k6/user-script.ts";
import { inconclusive } from "../faults/disturbance.ts";
import { HELD, openBy, rulingOf } from "../history/reason-codes.ts";
import { bareFacts, claimOf, countedSummary, groupOf, stageOutcome } from "../history/run-document.ts";
import { duration } from "../report/figures.ts";
import { playLoadStage } from "../stages/play.ts";
import { playRules, playStages } from "../stages/play-stages.ts";
import * as planning from "../stages/stage-plan.ts";
import { UsageError, UserFileError } from "../supervision/user-file.ts";
import { createSecrets } from "../target/secrets.ts";
import { credentialsOf, nameOfKey, readStated } from "../target/stated-credentials.ts";
import type { Target } from "../target/target.ts";
import { chosenRules } from "../verify/catalogue.ts";
import { planVerify, type VerifyProgress, type VerifyResult } from "../verify/run-verify.ts";
import { RATE_PER_S } from "../verify/sending/throttle.ts";
import { guardBudget, NOTHING_SPENT } from "../workload/budget.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES, storyCalled } from "../workload/catalogue.ts";
import { type Printed, type PrintedPart, planMark } from "../workload/handover.ts";
import { arrivalTimesUs, profileDurationS } from "../workload/load-profiles.ts";
import type { Story } from "../workload/story.ts";
import { calibrateRun, calibrationPlanOf } from "./calibration/calibrate.ts";
import { misfitAt, textBlocks } from "./read-run.ts";
import { type Asked, type RunRequest, type RunResult, recordRun } from "./recorded-run.ts";
import { scenarioStage } from "./suites/suites.ts";

type StagesRun = Omit<RunRequest, "targets"> &
  planning.DeploymentWish &
  Partial<EmbeddedOptions> & {
    stages: planning.StagesWish;
    prepared?: planning.PreparedTarget;
    uncalibrated?: true;
    isEnough?(context: RunContext, deployment: Deployment): Parameters<typeof playStages>[3];
  };

/** Without k6 the open-loop driver plays its stages, unless the user named k6. */
export const withDriversThere = async (
  context: Pick<RunContext, "toolOrStandIn">,
  plans: readonly planning.StagePlan[],
) => {
  const isForK6 = (plan: planning.StagePlan): plan is planning.LoadStage =>
    plan.kind === "load" && plan.driver === "k6" && plan.driverNamed === undefined;
  if (!plans.some(isForK6) || (await context.toolOrStandIn("k6", "the open-loop driver")) !== null) return plans;
  return plans.map((plan): planning.StagePlan => (isForK6(plan) ? { ...plan, driver: "open-loop" } : plan));
};

/** How many calls of a story are searched for keys: enough for each of a few dozen callers to have its turn. */
const CALLS_LOOKED_AT = 50;

const keysUsed = (plan: planning.StagePlan, deployment: Deployment, view: TargetView): string[] => {
  if (plan.kind === "verify") return ["role:server", "role:publishable"];
  if (planning.stageMissing(plan, deployment, view).length > 0) return [];
  const story = storyCalled(plan.story);
  const steps = Array.from({ length: CALLS_LOOKED_AT }, (_, i) => story.plan(1, i, view)).flat();
  return steps.flatMap(({ credential: one }) =>
    "of" in one ? [nameOfKey(one.of, one.as === "session" ? "publishable" : one.as)] : [],
  );
};

/** Reads the keys of the stages' callers, so that one that is not set is reported before the calibration. */
const readKeys = async (deployment: Deployment, plans: readonly planning.StagePlan[]): Promise<void> => {
  const { target, secrets } = deployment;
  const view = viewOf(target);
  const used = new Set(plans.flatMap((plan) => keysUsed(plan, deployment, view)));
  for (const key of credentialsOf(target)) if (used.has(nameOfKey(key.of, key.kind))) await readStated(key, secrets);
};

/** Throws `TargetFileError`, `GuardError` and `TargetBusyError` before anything is sent. */
export const runStages = async (request: StagesRun): Promise<RunResult> => {
  const { targetFile, owned, stages: wish, limiter = "sqlite", serve } = request;
  const { prepared = targetFile && (await planning.prepareTarget(targetFile, owned, planning.intentOf(wish))) } =
    request;
  return recordRun({ ...request, targets: prepared ? [prepared] : [] }, async (context) => {
    const deployment = await openDeployment(context, { limiter, serve });
    const plans = await withDriversThere(context, planning.stagesFor({ ...deployment, limiter }, wish));
    if (prepared) await readKeys(deployment, plans);
    if (request.uncalibrated !== true) await calibrateRun(context, calibrationPlanOf(deployment, plans));
    await playStages(context, deployment, plans, request.isEnough?.(context, deployment));
  });
};

/** The time after a stop to remove created objects at the permitted rate. */
const STOP_MS = 60_000;

export type VerifyWishes = Record<"only" | "skip", readonly string[] | undefined> &
  Record<"allowWrites" | "allowQuotaBurn" | "allowLoad", boolean> & { ratePerS: number | undefined };

type VerifyRun = Asked &
  VerifyWishes &
  Required<planning.DeploymentWish> & {
    requireAll: boolean;
    keepsAnswers: boolean;
    onProgress(progress: VerifyProgress): void;
  };

const intent = (allowLoad: boolean) => ({ load: allowLoad, faults: false, requests: planning.VERIFY_CALLS });

/** Plans from the target file alone: reads no secret, locks nothing, sends nothing. */
export const planOfTarget = async (wishes: VerifyWishes & Required<planning.DeploymentWish>) => {
  const { only, skip, owned, ratePerS = RATE_PER_S, allowLoad } = wishes;
  const rules = chosenRules(only, skip);
  const { target, refusals, warnings } = await planning.readTarget(wishes.targetFile, owned, intent(allowLoad));
  return { plan: planVerify(target, rules, { ...wishes, ratePerS }), refusedByGuard: refusals, warnings };
};

/** Throws for a user's mistake before anything is sent: target file, guard, lock, an unknown rule. */
export const verifyTarget = async (request: VerifyRun): Promise<RunResult> => {
  const { targetFile, owned, only, skip, requireAll, allowLoad } = request;
  chosenRules(only, skip);
  const targets = [await planning.prepareTarget(targetFile, owned, intent(allowLoad))];
  let result: VerifyResult | null = null;
  const required = (): string[] => {
    // Rules about what no client can cause (an error event, a lost key service) are not required.
    const idle = new Set(result?.idle);
    return requireAll ? (result?.claims ?? []).map(({ id }) => id).filter((id) => !idle.has(id)) : [];
  };
  const about = { profile: "verify", stopMs: STOP_MS, canJudge: (name: string) => groupOf(name) === "verify" };
  return recordRun({ ...request, ...about, targets, required }, async (context) => {
    const played = await playRules(context, await openDeployment(context), request);
    result = played.result;
    await context.addStage(played.outcome);
  });
};

type ScriptRun = Omit<RunRequest, "targets"> & planning.DeploymentWish & { script: string; args: readonly string[] };

const STAGE = "script";

const notEnforced = ({ target }: Deployment): string[] => {
  const ofBudget = Object.keys(target.budget ?? {}).map((unit) => `budget.${unit}`);
  const stated = [...ofBudget, ...(target.stop_when?.error_rate === undefined ? [] : ["stop_when.error_rate"])];
  return stated.length === 0 ? [] : [`inside a script of your own these are not enforced: ${stated.join(", ")}`];
};

const problemsOf = (exit: readonly Problem[], account: userScript.ScriptAccount | null, { target }: Deployment) => {
  if (account !== null) {
    const [crossed, isWhole] = [userScript.crossedIn(account), exit.length === 0];
    const said = exit.map((one) => (crossed === "" ? one : { ...one, reason: `${one.reason} (crossed: ${crossed})` }));
    return [...said, ...userScript.doubtsOf(account, { isWhole, unansweredShare: target.limits?.unanswered_share })];
  }
  if (exit.length > 0) return [...exit];
  const cure = "a k6 that FLOODGATE_K6 names needs what `floodgate dev tools` builds in";
  return [{ ...openBy("not-recorded"), reason: `k6 left no account of what it did: ${cure}` }];
};

const parsed = async <T>(path: string, parse: (text: string) => T | null): Promise<T | null> => {
  const text = await readFile(path, "utf8").catch(() => null);
  return text === null ? null : parse(text);
};

/** k6's exit code shows whether a threshold was crossed; its account whether the script ran as it asks. */
const playScript = async (context: RunContext, deployment: Deployment, request: ScriptRun): Promise<void> => {
  const { supervisor, events, replay } = context;
  const { target, budget } = deployment;
  const binary = await context.tool("k6");
  using atEnd = new DisposableStack();
  await using folder = await mkdtempDisposable(join(tmpdir(), "floodgate-script-"));
  atEnd.defer(supervisor.ownFolder("the script's summary", folder.path));
  const [file, accountFile] = [join(folder.path, "summary.json"), join(folder.path, "account.json")];
  const most = target.permits?.load_max_rps;
  for (const sentence of notEnforced(deployment)) events.warning(sentence);
  events.step(`stage 1 of 1: ${request.script} (k6)`);
  const began = performance.now();
  const exit = await userScript.runK6Script({
    ...{ binary, script: resolve(request.script), account: accountFile, onSaid: events.result },
    args: [
      ...["--new-machine-readable-summary", `--summary-export=${file}`],
      ...(most === undefined ? [] : ["--rps", `${Math.floor(most)}`]),
      ...request.args,
    ],
    environment: {
      FLOODGATE_BASE_URL: target.base_url,
      // The names that Go reads, because the script may do without our extension, which has its own.
      ...(target.transport?.proxy && { HTTP_PROXY: target.transport.proxy, HTTPS_PROXY: target.transport.proxy }),
      ...(request.targetFile && { FLOODGATE_TARGET: resolve(request.targetFile) }),
    },
    onSpawn: ({ pid }) => void (pid !== undefined && atEnd.defer(supervisor.adopt("k6", pid))),
  });
  const summary = await parsed(file, userScript.readSummary);
  const account = await parsed(accountFile, userScript.readAccount);
  if (summary !== null) await context.folder.writeJson("k6/script.json", summary.kept);
  const made = account === null ? 0 : userScript.callsOf(account).made;
  budget.absorb({ ...NOTHING_SPENT, requests: made }, null);
  const problems = problemsOf(exit, account, deployment);
  const reasons = problems.map(({ reason }) => reason);
  const byStatus = Object.entries(account?.calls.by_status ?? {});
  const outcomes = Object.fromEntries(byStatus.map(([status, n]) => [status === "0" ? "indeterminate" : status, n]));
  const thresholds = claimOf({
    ...{ id: `thresholds/${STAGE}`, stage: STAGE, replay },
    ...rulingOf(problems.find(({ verdict }) => verdict === "fail") ?? problems[0] ?? HELD),
    reason: reasons.join("; ") || userScript.inWords(account as userScript.ScriptAccount),
    expected: "every iteration that is asked for ends, its calls are answered, and every threshold holds over samples",
    got: reasons[0] ?? "as expected",
  });
  await context.addStage(
    stageOutcome({
      summary: countedSummary(STAGE, "k6 (own script)", Math.round(performance.now() - began), outcomes),
      facts: bareFacts(STAGE),
      claims: [thresholds],
      measurements: summary === null ? [] : userScript.measurementsOf(summary, STAGE, made),
    }),
  );
};

export const runScript = async (request: ScriptRun): Promise<RunResult> => {
  const { targetFile, owned } = request;
  const intent = { load: true, faults: false, requests: 0 };
  const targets = targetFile === undefined ? [] : [await planning.prepareTarget(targetFile, owned, intent)];
  return recordRun({ ...request, targets, canJudge: () => false }, async (context) =>
    playScript(context, await openDeployment(context), request),
  );
};

// Judges as one stage the parts that several k6 processes played (`-e PART=`, `load --operator`). Sends nothing.

/** How a scenario's lines begin; a part may be a container's log, which has other lines too. */
const PRINTED = '{"type":"';

const printedLines = (path: string) =>
  textBlocks(path).flatMap((block) => block.split("\n").filter((line) => line.startsWith(PRINTED)));

const EXPECTED =
  'expected a part of a distributed run, which begins with a line of type "part"; k6 writes one with -e PART=FILE. Run folders are compared without --merge';

const PART = {
  ...{ type: "part", story: "", seed: 0, idPrefix: "", profile: { pieces: [{}] }, arrivals: "", target: {}, atUs: 0 },
  view: { tenants: [{}], roles: {}, limits: {}, permits: {} },
};

const headOf = (path: string): PrintedPart => {
  try {
    // Destructuring also closes the file.
    const [line = ""] = printedLines(path);
    const head = JSON.parse(line) as PrintedPart;
    if (misfitAt(PART, head, "") === null && STORIES.has(head.story) && head.profile.pieces.length > 0) return head;
  } catch (error) {
    if (error instanceof UserFileError) throw new UsageError(`${error.message}; ${EXPECTED}`);
  }
  throw new UsageError(`${path}: ${EXPECTED}`);
};

const COMMON = ["story", "seed", "profile", "arrivals", "view", "target", "plan"] as const;

type Parts = { paths: readonly string[]; heads: readonly PrintedPart[]; seed: number };

/** Throws `UsageError` where a file is no part, or files are parts of different runs, or of a version with other calls. */
export const readParts = (paths: readonly string[]): Parts => {
  const heads = paths.map(headOf);
  const [first] = heads as [PrintedPart];
  for (const [at, head] of heads.entries()) {
    const other = COMMON.find((name) => !isDeepStrictEqual(head[name], first[name]));
    if (other === undefined) continue;
    throw new UsageError(`${paths[at]} and ${paths[0]} are parts of different runs: their ${other} differs`);
  }
  const { story, seed, view, plan } = first;
  if (plan !== planMark(storyCalled(story), seed, view)) {
    throw new UsageError(
      `${paths[0]} was played by another version of Floodgate, whose ${story} makes other calls: merge it with that version`,
    );
  }
  return { paths, heads, seed: first.seed };
};

/** If the parts' schedules began further apart than this, levels of the load overlap. */
const APART_MOST_US = 1_000_000;

/** When a part's schedule began by its machine's clock, in microseconds since 1970; none without a call of it. */
const beginOf = (path: string, momentsUs: readonly number[]): number[] => {
  for (const line of printedLines(path)) {
    const printed = parseJson(line) as Printed | PrintedPart | undefined;
    if (printed?.type !== "call" || printed.step !== 0 || printed.attempt !== 0) continue;
    const afterUs = momentsUs[printed.i];
    if (afterUs !== undefined) return [printed.intendedUs - afterUs];
  }
  return [];
};

const driveParts =
  ({ paths, heads }: Parts, story: Story): Driver =>
  async ({ job, onLine }) => {
    const calls = new Map<number, number>();
    const momentsUs = arrivalTimesUs(job.profile, job.arrivals, job.seed);
    const starts = paths.flatMap((path) => beginOf(path, momentsUs));
    const apartUs = starts.length === 0 ? 0 : Math.max(...starts) - Math.min(...starts);
    const reasons: (string | false)[] = [];
    for (const [at, path] of paths.entries()) {
      const { idPrefix } = heads[at] as PrintedPart;
      // Parts that seem to begin apart may have begun together, on machines whose clocks differ. So the order of calls
      // of two parts is known no better than that.
      const { seen, take } = createReader({ ...job, story, idPrefix, clocksApartUs: apartUs }, onLine);
      for (const line of printedLines(path).drop(1)) take(line);
      for (const i of seen.calls) calls.set(i, (calls.get(i) ?? 0) + 1);
      const { faults, strangers, end } = seen;
      reasons.push(
        end === null && `${path} breaks off: its k6 did not come to its end`,
        end?.stopped != null && `${path} was stopped early: ${end.stopped.reason}`,
        faults.length > 0 && `${path}: the scenario threw in ${faults.length} iterations: ${faults[0]?.message}`,
        strangers > 0 && `${path}: ${strangers} lines could not be read`,
      );
    }
    const twice = [...calls.values()].filter((times) => times > 1).length;
    const [scheduled, missing] = [momentsUs.length, momentsUs.length - calls.size];
    reasons.push(
      missing > 0 &&
        `${missing} of the ${scheduled} calls of the schedule are in none of the ${paths.length} parts: one is missing, or ended early`,
      twice > 0 && `${twice} calls are in two parts: is one file given twice?`,
      apartUs > APART_MOST_US &&
        `the parts began ${duration(apartUs / 1000)} apart by their clocks, so levels of the load overlap, unless the clocks of their machines differ by that; are all of one run?`,
    );
    const doubts = reasons.flatMap((why) => why || []);
    return {
      problems: [
        {
          ...inconclusive("generator-was-the-limit", "the parts were played on machines that nobody calibrated"),
          about: "time",
        },
        ...doubts.map((why) => inconclusive("not-recorded", why)),
      ],
      isCutOff: doubts.length > 0,
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
  const plan = { ...(scenarioStage(name, { arrivals }) as planning.LoadStage), driver: "k6" as const, profile };
  const driver = driveParts(parts, storyCalled(name));
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
