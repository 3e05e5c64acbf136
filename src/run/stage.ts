/**
 * One stage: a driver plays a story, meanwhile an experiment may break a link or an operator change the deployment, then
 * the stage is drained, the witnesses are read and the invariants are folded over its lines.
 */
import { dirname, join } from "node:path";
import { type Drive, type Driven, driveK6, driveOpenLoop } from "../drivers/driver.ts";
import type { OpenLoopJob, Problem } from "../drivers/open-loop/job.ts";
import type { Line } from "../history/line.ts";
import { measureStage } from "../history/measure.ts";
import type { Claim, FaultRecord, Measurement, StageSummary } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { inOrder, judgeStage, ofCutOffStage } from "../invariants/judge-stage.ts";
import type { Journal } from "../supervision/journal.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { pause } from "../supervision/waiting.ts";
import { controlSend } from "../target/control-planes.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { viewOf } from "../target/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { profileCalls, profileDurationS } from "../workload/load-profiles.ts";
import type { Embedded } from "./deployments/embedded.ts";
import {
  type ExperimentSeen,
  experimentBeside,
  faultRecords,
  RECOVERY_DEADLINE_MS,
} from "./disturbances/link-fault.ts";
import { REPOSITORY } from "./environment.ts";
import type { RunFolder } from "./run-folder.ts";
import type { StagePlan } from "./suites/smoke.ts";
import { readTenants, readWitnesses } from "./witnesses.ts";

export type StageContext = {
  target: Target;
  secrets: Secrets;
  seed: number;
  /** Hex digits that are new in each run: the first part of every call's id. */
  run: string;
  /** The command that shows a claim of this run again. */
  replay: string;
  /** When the run began, by `wallUs`. */
  epochUs: number;
  nowUs(): number;
  supervisor: Supervisor;
  journal: Journal;
  folder: RunFolder;
  k6Path: string | null;
  /** Of the embedded deployment; a fault on any other needs its own toxiproxy. */
  toxiproxy: { server: Embedded["toxiproxy"]; links: Embedded["links"] } | null;
  onProgress(text: string): void;
  signal: AbortSignal;
};

export type StageOutcome = {
  summary: StageSummary;
  /** In time order. */
  lines: Line[];
  facts: StageFacts;
  claims: Claim[];
  measurements: Measurement[];
  faults: FaultRecord[];
  notes: string[];
};

/** What the stage needed to see, and what it could not see because the driver, the fault or the host failed it. */
const reachedClaim = (
  plan: StagePlan,
  { by_outcome }: StageSummary,
  problems: readonly Problem[],
  seen: ExperimentSeen | null,
  replay: string,
): Claim => {
  const doubts = [...problems];
  const doubt = (reason: string): void => void doubts.push({ verdict: "inconclusive", reason });
  const missing = plan.reaches.filter((outcome) => (by_outcome[outcome] ?? 0) === 0);
  if (missing.length > 0) doubt(`never reached: ${missing.join(", ")}`);
  if (seen !== null) {
    const { steady, tookEffect, healed, recovered } = seen.outcome;
    if (!steady) doubt("no steady state before the fault");
    else if (!tookEffect) doubt("the fault took no effect");
    if (!healed) doubt("the fault could not be healed");
    if (recovered === false) doubts.push({ verdict: "fail", reason: "no recovery by the deadline" });
  }
  const isFailed = doubts.some(({ verdict }) => verdict === "fail");
  const verdict = isFailed ? "fail" : doubts.length > 0 ? "inconclusive" : "pass";
  const reasons = [...doubts.map(({ reason }) => reason), ...(verdict === "pass" ? [] : (seen?.outcome.notes ?? []))];
  return {
    id: `reached/${plan.name}`,
    stage: plan.name,
    level: "must",
    verdict,
    reason: reasons.length === 0 ? "the stage reached what it is about" : reasons.join("; "),
    expected: `the driver plays the whole schedule and sees ${plan.reaches.join(", ")}`,
    got: Object.entries(by_outcome)
      .map(([outcome, n]) => `${n} x ${outcome}`)
      .join(", "),
    spec: [],
    evidence: [],
    replay,
  };
};

const drivePlan = async (
  context: StageContext,
  plan: StagePlan,
  job: OpenLoopJob,
  lines: Line[],
): Promise<{ driven: Driven; seen: ExperimentSeen | null }> => {
  const forgets: (() => void)[] = [];
  const drive: Drive = {
    job,
    secrets: context.secrets,
    onLine: (line) => void lines.push(line),
    onProgress: (text) => context.onProgress(`${plan.name}: ${text}`),
    onSpawn: ({ pid }) => {
      // One that could not be spawned has no number; the driver tells of it.
      if (pid !== undefined) forgets.push(context.supervisor.adopt(`the ${plan.driver} driver`, pid));
    },
    onFolder: (path) => void forgets.push(context.supervisor.ownFolder(`${plan.name}: what k6 is handed`, path)),
    signal: context.signal,
  };
  try {
    if (plan.driver === "k6") {
      const scenario = join(REPOSITORY, "scenarios", `${plan.story}.ts`);
      const keepIn = dirname(context.folder.pathOf("k6/summary"));
      return { driven: await driveK6({ ...drive, k6Path: context.k6Path, scenario, keepIn }), seen: null };
    }
    const { experiment, states } = plan;
    if (experiment !== undefined) {
      let seen: ExperimentSeen | null = null;
      const driven = await driveOpenLoop(drive, async () => {
        seen = await experimentBeside(context, plan.name, experiment, lines);
      });
      return { driven, seen };
    }
    if (states === undefined) return { driven: await driveOpenLoop(drive), seen: null };
    const driven = await driveOpenLoop(drive, async () => {
      for (const { patch, holdMs } of states) {
        for (const api of job.target.control?.api ?? []) await controlSend("PATCH", `${api}/deployment`, patch);
        await pause(holdMs, context.signal);
      }
    });
    return { driven, seen: null };
  } finally {
    for (const forget of forgets) forget();
  }
};

export const runStage = async (context: StageContext, plan: StagePlan): Promise<StageOutcome> => {
  const { target, seed, replay } = context;
  const story = STORIES.get(plan.story);
  if (story === undefined) throw new Error(`stage ${plan.name}: there is no story "${plan.story}"`);
  const tenants = await readTenants(target);
  const readings = Object.fromEntries(
    Object.entries(tenants).map(([org, { used_at_start: used }]) => [org, used === undefined ? {} : { used }]),
  );
  const view = viewOf(target, readings);
  for (const org of story.noisy(view)) if (tenants[org] !== undefined) tenants[org].noisy = true;
  const { ratePerS, durationS } = plan;
  const profile = story.profile(view, {
    ...(ratePerS === undefined ? {} : { ratePerS }),
    ...(durationS === undefined ? {} : { durationS }),
  });
  if (profile === null) throw new Error(`stage ${plan.name}: no rate is known, and \`limits\` state none`);
  const idRun = `${context.run}.${plan.name}`;
  const job: OpenLoopJob = {
    ...{ stage: plan.name, idPrefix: `${idRun}.c`, story: plan.story, seed, profile, arrivals: "poisson" },
    ...{ target, view, epochUs: context.epochUs },
  };
  const began = performance.now();
  const lines: Line[] = [];
  const lacking = story.missing(view);
  const { driven, seen } =
    lacking.length === 0
      ? await drivePlan(context, plan, job, lines)
      : {
          driven: {
            problems: [{ verdict: "inconclusive" as const, reason: `the target lacks ${lacking.join("; ")}` }],
            notes: [],
            scheduledMs: 0,
          },
          seen: null,
        };
  const isCutOff = context.signal.aborted;
  const facts: StageFacts = {
    stage: plan.name,
    started_at_ms: context.epochUs / 1000,
    limits: target.limits ?? {},
    shedding: target.shedding ?? "unknown",
    tenants,
    faults: plan.experiment !== undefined,
    recovery_deadline_ms: RECOVERY_DEADLINE_MS,
    ...(await readWitnesses(target, idRun)),
  };
  const ordered = inOrder(lines);
  const isWhole = driven.scheduledMs > 0 && plan.experiment === undefined && plan.states === undefined;
  const { summary, measurements } = measureStage(ordered, {
    stage: plan.name,
    durationMs: performance.now() - began,
    ...(isWhole
      ? { offeredRatePerS: profileCalls(profile) / profileDurationS(profile), scheduledMs: driven.scheduledMs }
      : {}),
  });
  const judges = INVARIANTS.filter(({ id }) => plan.judges.includes(id));
  const reached = reachedClaim(plan, summary, driven.problems, seen, replay);
  const claims = [reached, ...judgeStage(judges, facts, ordered, replay)];
  return {
    summary: { ...summary, driver: plan.driver },
    lines: ordered,
    facts,
    claims: isCutOff ? claims.map(ofCutOffStage) : claims,
    measurements,
    faults: faultRecords(seen?.lines ?? []),
    notes: driven.notes,
  };
};
