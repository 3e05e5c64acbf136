/**
 * One stage: a driver plays a story, an experiment may break a link meanwhile, then the stage is drained, the witnesses
 * are read (counts, gauges, ledger) and the invariants are folded over its lines.
 */
import type { ChildProcess } from "node:child_process";
import { dirname, join } from "node:path";
import { makeFault } from "../chaos/catalogue.ts";
import { type Outcome, runExperiment } from "../chaos/experiment.ts";
import { httpProbe } from "../chaos/link-probe.ts";
import { linkSteps, undoOf } from "../chaos/link-steps.ts";
import type { ToxiproxyServer } from "../chaos/toxiproxy-server.ts";
import type { OpenLoopJob, Problem } from "../drivers/open-loop-job.ts";
import type { Secrets } from "../drivers/secrets.ts";
import type { Target } from "../drivers/target.ts";
import { worldOf } from "../drivers/world-of-target.ts";
import type { CallLine, FaultLine, LedgerLine, Line } from "../history/line.ts";
import { measureStage } from "../history/measure.ts";
import type { Claim, FaultRecord, Measurement, StageSummary } from "../history/run-document.ts";
import type { StageFacts, TenantFacts } from "../history/stage-facts.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { STORIES } from "../workload/catalogue.ts";
import { profileCalls, profileDurationS } from "../workload/profiles.ts";
import { ROLE_POWERS } from "../workload/world.ts";
import { readCounts, readGauges, readLedger, readUsed } from "./control.ts";
import { type Driven, driveK6, driveOpenLoop } from "./drive.ts";
import { REPOSITORY } from "./environment.ts";
import type { Journal } from "./journal.ts";
import { inOrder, judgeStage } from "./judge-stage.ts";
import type { RunFolder } from "./run-folder.ts";
import type { StageExperiment, StagePlan } from "./stages.ts";
import type { Supervisor } from "./supervision.ts";

export type StageContext = {
  target: Target;
  secrets: Secrets;
  seed: number;
  /** Four hex digits of the run, the first part of every call's id. */
  run: string;
  epochUs: number;
  nowUs(): number;
  supervisor: Supervisor;
  journal: Journal;
  folder: RunFolder;
  k6Path: string | null;
  /** Of the embedded deployment; a fault on any other needs its own toxiproxy. */
  toxiproxy: { server: ToxiproxyServer; links: { limiter: string; keys: string } } | null;
  onProgress(text: string): void;
  signal: AbortSignal;
};

export type StageOutcome = {
  summary: StageSummary;
  lines: Line[];
  ledger: LedgerLine[] | null;
  facts: StageFacts;
  claims: Claim[];
  measurements: Measurement[];
  faults: FaultRecord[];
  notes: string[];
};

const DRAIN_DEADLINE_MS = 15_000;
const RECOVERY_DEADLINE_MS = 3_000;
/** Load goes on this much longer than the deadline of recovery, so that "stays recovered" can be seen. */
const AFTER_MS = 1_500;

const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

/** Whether nothing was in flight and nothing unsettled before the deadline. */
const drain = async (apis: readonly string[]): Promise<boolean> => {
  const deadline = performance.now() + DRAIN_DEADLINE_MS;
  for (;;) {
    const gauges = await readGauges(apis).catch(() => null);
    if (gauges?.every(({ in_flight, unsettled }) => in_flight === 0 && (unsettled ?? 0) === 0)) return true;
    if (performance.now() > deadline) return false;
    await pause(50);
  }
};

const readTenants = async (target: Target): Promise<Record<string, TenantFacts>> => {
  const facts: Record<string, TenantFacts> = {};
  const read = async (org: string, tier: TenantFacts["tier"] | undefined, allowance: number | undefined) => {
    const keys = target.control?.keys;
    const used = keys ? await readUsed(keys, org).catch(() => undefined) : undefined;
    facts[org] = {
      tier: tier ?? null,
      ...(allowance === undefined ? {} : { allowance }),
      ...(used === undefined ? {} : { used_at_start: used }),
    };
  };
  for (const { org, tier, limit } of target.tenants ?? []) await read(org, tier, limit);
  for (const [role, credential] of Object.entries(target.credentials ?? {})) {
    if (credential.org === undefined || credential.org in facts || !("key" in credential)) continue;
    if (credential.limit === undefined) continue;
    await read(credential.org, credential.tier ?? ROLE_POWERS[role]?.tier, credential.limit);
  }
  return facts;
};

/** Answered calls among the last ones that ended: what "steady" and "recovered" are seen by. */
const allAnswered = (lines: readonly Line[], sinceUs: number, wanted: number): boolean => {
  const calls = lines.filter((line): line is CallLine => line.type === "call" && line.sent_us >= sinceUs);
  return calls.length >= wanted && calls.slice(-wanted).every(({ outcome }) => outcome.startsWith("2"));
};

const experimentBeside = async (
  context: StageContext,
  plan: StagePlan & { experiment: StageExperiment },
  lines: Line[],
): Promise<{ outcome: Outcome; lines: FaultLine[] }> => {
  const { experiment } = plan;
  const { toxiproxy, target } = context;
  if (toxiproxy === null) throw new Error(`${plan.name} needs a toxiproxy on the link to the ${experiment.link}`);
  const budgetMs =
    (experiment.link === "limiter" ? target.limits?.limiter_budget_ms : target.limits?.key_service_budget_ms) ?? 1_000;
  const broken = {
    toxiproxy: toxiproxy.server.toxiproxy,
    proxy: target.toxiproxy?.proxies[experiment.link] ?? experiment.link,
    fault: makeFault(experiment.fault, { budgetMs }),
    probe: httpProbe(toxiproxy.links[experiment.link], "/health", budgetMs + 500),
    mayReset: true,
    restart: () => toxiproxy.server.restart(),
  };
  let healedUs = Number.POSITIVE_INFINITY;
  const beganUs = context.nowUs();
  const result = await runExperiment(
    {
      stage: plan.name,
      experiment: experiment.name,
      link: experiment.link,
      fault: experiment.fault,
      stream: broken.fault.stream,
      undo: undoOf(broken),
      steps: {
        ...linkSteps(broken),
        isSteady: async () => allAnswered(lines, beganUs, 10),
        hasRecovered: async () => allAnswered(lines, healedUs, 5),
      },
      steadyMs: 10_000,
      injectMs: 5_000,
      effectMs: 5_000,
      holdMs: experiment.holdMs,
      healMs: 15_000,
      recoveryMs: RECOVERY_DEADLINE_MS,
    },
    {
      nowUs: context.nowUs,
      journal: context.journal,
      signal: context.signal,
      keepUndo: (name, undo) => context.supervisor.registerUndo(name, undo),
      onLine: (line) => {
        if (line.phase === "healed") healedUs = line.at_us;
        lines.push(line);
      },
    },
  );
  const leftUs = healedUs + (RECOVERY_DEADLINE_MS + AFTER_MS) * 1000 - context.nowUs();
  if (Number.isFinite(leftUs) && leftUs > 0) await pause(leftUs / 1000, context.signal);
  return result;
};

/** What the stage needed to see, and what it could not see because the driver, the fault or the host failed it. */
const stageClaim = (
  plan: StagePlan,
  summary: StageSummary,
  problems: readonly Problem[],
  experiment: Outcome | null,
): Claim => {
  const missing = plan.reaches.filter((outcome) => (summary.by_outcome[outcome] ?? 0) === 0);
  const doubts = [...problems];
  if (missing.length > 0) doubts.push({ verdict: "inconclusive", reason: `never reached: ${missing.join(", ")}` });
  if (experiment !== null) {
    if (!experiment.steady) doubts.push({ verdict: "inconclusive", reason: "no steady state before the fault" });
    else if (!experiment.tookEffect) doubts.push({ verdict: "inconclusive", reason: "the fault took no effect" });
    if (!experiment.healed) doubts.push({ verdict: "inconclusive", reason: "the fault could not be healed" });
    if (experiment.recovered === false) doubts.push({ verdict: "fail", reason: "no recovery by the deadline" });
  }
  const verdict = doubts.some((doubt) => doubt.verdict === "fail")
    ? "fail"
    : doubts.length > 0
      ? "inconclusive"
      : "pass";
  return {
    id: `reached/${plan.name}`,
    stage: plan.name,
    level: "must",
    verdict,
    reason:
      doubts.length === 0
        ? "the stage reached what it is about"
        : [...doubts.map(({ reason }) => reason), ...(experiment?.notes ?? [])].join("; "),
    expected: `the driver plays the whole schedule and sees ${plan.reaches.join(", ")}`,
    got: Object.entries(summary.by_outcome)
      .map(([outcome, n]) => `${n} x ${outcome}`)
      .join(", "),
    spec: [],
    evidence: [],
    replay: "",
  };
};

const faultRecords = (lines: readonly FaultLine[]): FaultRecord[] => {
  const records: FaultRecord[] = [];
  for (const line of lines) {
    const { experiment, link, fault, stream } = line;
    if (line.phase === "injecting") {
      const started_ms = line.at_us / 1000;
      records.push({ experiment, link, fault, stream, started_ms, ended_ms: started_ms, took_effect: false });
    }
    const last = records.at(-1);
    if (last === undefined) continue;
    if (line.phase === "injected") last.took_effect = line.took_effect === true;
    last.ended_ms = line.at_us / 1000;
  }
  return records;
};

export const runStage = async (context: StageContext, plan: StagePlan): Promise<StageOutcome> => {
  const { target, seed, run, signal } = context;
  const story = STORIES.get(plan.story);
  if (story === undefined) throw new Error(`stage ${plan.name}: there is no story "${plan.story}"`);
  const tenants = await readTenants(target);
  const readings = Object.fromEntries(
    Object.entries(tenants).map(([org, { used_at_start: used }]) => [org, used === undefined ? {} : { used }]),
  );
  const world = worldOf(target, readings);
  const lacking = story.missing(world);
  for (const org of story.noisy(world)) if (tenants[org] !== undefined) tenants[org].noisy = true;
  const profile = story.profile(world, {
    ...(plan.ratePerS === undefined ? {} : { ratePerS: plan.ratePerS }),
    ...(plan.durationS === undefined ? {} : { durationS: plan.durationS }),
  });
  const idRun = `${run}.${plan.name}`;
  const lines: Line[] = [];
  const job: OpenLoopJob = {
    ...{ stage: plan.name, idPrefix: `${idRun}.c`, story: plan.story, seed, profile, arrivals: "poisson" },
    ...{ target, world, epochUs: context.epochUs },
  };
  const beganMs = performance.now();
  const drive = {
    job,
    secrets: context.secrets,
    onLine: (line: CallLine) => void lines.push(line),
    onProgress: context.onProgress,
    onSpawn: (child: ChildProcess) =>
      context.supervisor.registerUndo(`end ${plan.driver} driver`, async () => void child.kill("SIGKILL")),
    signal,
  };

  let driven: Driven = { problems: [], notes: [], offered: 0, scheduledMs: 0 };
  let experiment: { outcome: Outcome; lines: FaultLine[] } | null = null;
  if (lacking.length > 0) {
    driven.problems.push({ verdict: "inconclusive", reason: `the target lacks ${lacking.join("; ")}` });
  } else if (plan.driver === "k6") {
    driven = await driveK6({
      ...drive,
      k6Path: context.k6Path,
      scenario: join(REPOSITORY, "scenarios", `${plan.story}.ts`),
      keepIn: dirname(context.folder.pathOf("k6/summary")),
    });
  } else if (plan.experiment !== undefined) {
    const withFault = { ...plan, experiment: plan.experiment };
    driven = await driveOpenLoop(drive, async () => {
      experiment = await experimentBeside(context, withFault, lines);
    });
  } else {
    driven = await driveOpenLoop(drive);
  }
  const seen = experiment as { outcome: Outcome; lines: FaultLine[] } | null;

  const apis = target.control?.api ?? [];
  const drained = apis.length > 0 && (await drain(apis));
  const counts = apis.length > 0 ? await readCounts(apis, idRun).catch(() => null) : null;
  const gauges = apis.length > 0 ? await readGauges(apis).catch(() => null) : null;
  const limiter = target.control?.limiter;
  const ledger = limiter ? await readLedger(limiter, `${idRun}.`).catch(() => null) : null;
  const facts: StageFacts = {
    stage: plan.name,
    started_at_ms: context.epochUs / 1000,
    limits: target.limits ?? {},
    shedding: target.shedding ?? "unknown",
    tenants,
    faults: plan.experiment !== undefined,
    drained,
    recovery_deadline_ms: RECOVERY_DEADLINE_MS,
    ...(counts === null ? {} : { counts }),
    ...(gauges === null ? {} : { gauges }),
    ...(ledger === null ? {} : { ledger }),
  };
  const ordered = inOrder(lines);
  const wanted = INVARIANTS.filter(({ id }) => plan.judges.includes(id));
  const replay = `npx floodgate run ${context.folder.id.includes("smoke") ? "smoke " : ""}--seed ${seed}`;
  const { summary, measurements } = measureStage(ordered, {
    stage: plan.name,
    ...(driven.scheduledMs > 0 && plan.experiment === undefined
      ? { offeredRatePerS: profileCalls(profile) / profileDurationS(profile), scheduledMs: driven.scheduledMs }
      : {}),
    durationMs: performance.now() - beganMs,
  });
  summary.driver = plan.driver;
  const reached = { ...stageClaim(plan, summary, driven.problems, seen?.outcome ?? null), replay };
  return {
    summary,
    lines: ordered,
    ledger,
    facts,
    claims: [reached, ...judgeStage(wanted, facts, ordered, replay)],
    measurements,
    faults: faultRecords(seen?.lines ?? []),
    notes: driven.notes,
  };
};
