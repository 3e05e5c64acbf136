/**
 * One run from start to end: folder, watchdog, tools, deployment, stages, verdict, reports. It prints nothing; it tells
 * what happens through `events`, and returns the run document with the exit code in it.
 */
import { randomBytes } from "node:crypto";
import { WATCHDOG_PROCESS } from "../chaos/watchdog-process.ts";
import { wallUs } from "../client/clock.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import { Journal } from "../supervision/journal.ts";
import { redactor } from "../supervision/redaction.ts";
import { listenForStop, type StopSignals } from "../supervision/stop-signals.ts";
import { Supervisor } from "../supervision/supervisor.ts";
import { createSecrets } from "../target/secrets.ts";
import { findTool, ToolError } from "../tools/find-tool.ts";
import { composeDocument } from "./compose-document.ts";
import { type Embedded, type EmbeddedSettings, startEmbedded } from "./deployments/embedded.ts";
import { loadTenants, quotaTenants } from "./deployments/embedded-tenants.ts";
import { commitOf, describeEnvironment, REPOSITORY } from "./environment.ts";
import { doubt, judgeSecrets } from "./run-claims.ts";
import { makeRunFolder, type RunFolder } from "./run-folder.ts";
import { runStage, type StageContext, type StageOutcome } from "./stage.ts";
import { PROFILES } from "./suites/smoke.ts";
import { runVerifyStage } from "./verify-stage.ts";
import { writeHistory, writeReports } from "./write-reports.ts";

export type RunEvents = {
  /** The folder is made; nothing else is started yet. */
  folder(path: string): void;
  step(text: string): void;
  progress(text: string): void;
  stage(outcome: StageOutcome, at: number, of: number): void;
  signalled(signal: NodeJS.Signals, times: number, pending: string[]): void;
};

export type RunOptions = {
  /** A name of `PROFILES`. */
  profile: string;
  seed: number;
  reports: string;
  out?: string;
  events: RunEvents;
};

export type RunResult = { document: RunDocument; folder: RunFolder };

/** Of the embedded deployment: small enough for two cores to drive it to three times its capacity. */
const SETTINGS: EmbeddedSettings = {
  slots: 24,
  service_ms: 300,
  global_in_flight: 24,
  org_in_flight: 8,
  rate_per_s: 60,
  burst: 120,
};
const LOAD_TENANTS = 12;

/** Exit codes where not the claims decide (interface.md section 1). */
const EXIT_OF_SIGNAL: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 143 };
const EXIT_WITHOUT_TOOL = 3;

/** What a run has got so far; whatever ends it, this is what the report tells. */
type Progress = {
  outcomes: StageOutcome[];
  doubts: Claim[];
  embedded: Embedded | null;
  tools: { k6: string | null; toxiproxy: string | null };
  exitCode: number | null;
};

const playStages = async (context: StageContext, options: RunOptions, progress: Progress): Promise<void> => {
  const plans = PROFILES[options.profile] ?? [];
  for (const [at, plan] of plans.entries()) {
    if (context.signal.aborted) return;
    options.events.step(`stage ${at + 1} of ${plans.length}: ${plan.name} (${plan.driver})`);
    const outcome = plan.driver === "verify" ? await runVerifyStage(context) : await runStage(context, plan);
    progress.outcomes.push(outcome);
    options.events.stage(outcome, at, plans.length);
  }
};

const runWithin = async (
  options: RunOptions,
  folder: RunFolder,
  supervisor: Supervisor,
  journal: Journal,
  progress: Progress,
  replay: string,
): Promise<void> => {
  const { seed, events } = options;
  await supervisor.within(async (signal) => {
    events.step("looking for k6 and toxiproxy; building what is missing takes two minutes");
    const onSpawn = (pid: number) => supervisor.adopt("the Go compiler", pid);
    const toxiproxyTool = await findTool("toxiproxy", { progress: events.progress, signal, onSpawn });
    progress.tools.toxiproxy = toxiproxyTool.version;
    const k6 = await findTool("k6", { progress: events.progress, signal, onSpawn });
    progress.tools.k6 = k6.version;
    events.step("starting the embedded deployment: key service, limiter, toxiproxy, API");
    const tenants = [...loadTenants(LOAD_TENANTS), ...quotaTenants()];
    const { path: toxiproxyPath } = toxiproxyTool;
    const embedded = await startEmbedded({
      ...{ supervisor, redactor, folder, toxiproxyPath, settings: SETTINGS, tenants, seed },
    });
    progress.embedded = embedded;
    const epochUs = wallUs();
    const { target, links, toxiproxy: server } = embedded;
    const context: StageContext = {
      ...{ target, secrets: createSecrets(process.cwd()), seed, epochUs, supervisor, journal, folder, replay, signal },
      reference: true,
      run: randomBytes(3).toString("hex"),
      nowUs: () => wallUs() - epochUs,
      k6Path: k6.path,
      toxiproxy: { server, links },
      onProgress: events.progress,
    };
    await playStages(context, options, progress);
  });
};

export const runProfile = async (options: RunOptions): Promise<RunResult> => {
  const { profile, seed, events } = options;
  const started = new Date();
  const replay = `npx floodgate run ${profile} --seed ${seed}`;
  let supervisor: Supervisor | null = null;
  // Before the folder's path is told: whoever reads it may already press Ctrl-C.
  const stop = listenForStop((signal, times) => events.signalled(signal, times, supervisor?.pending() ?? []));
  try {
    const { reports, out } = options;
    const folder = makeRunFolder({ profile, now: started, reports, ...(out === undefined ? {} : { out }) });
    events.folder(folder.path);
    const progress: Progress = {
      ...{ outcomes: [], doubts: [], embedded: null, exitCode: null },
      tools: { k6: null, toxiproxy: null },
    };
    const note = (id: string, reason: string): void => {
      progress.doubts.push(doubt(id, redactor.redact(reason), "every stage runs to its end", replay));
    };
    const journal = new Journal(folder.pathOf("journal.ndjson"));
    try {
      supervisor = await Supervisor.open({ journal, watchdog: WATCHDOG_PROCESS });
      const unlisten = supervisor.onSignal(() => undefined);
      if (!stop.signal.aborted) await runWithin(options, folder, supervisor, journal, progress, replay);
      unlisten();
    } catch (error) {
      if (error instanceof ToolError) progress.exitCode = EXIT_WITHOUT_TOOL;
      if (stop.stoppedBy() === null) note("run/completed", error instanceof Error ? error.message : String(error));
    }
    for (const trouble of (await supervisor?.close()) ?? []) note("run/cleaned-up", trouble);
    journal.close();
    const document = await finish({ options, folder, started, progress, stop, replay });
    return { document, folder };
  } finally {
    stop.release();
  }
};

const finish = async (run: {
  options: RunOptions;
  folder: RunFolder;
  started: Date;
  progress: Progress;
  stop: StopSignals;
  replay: string;
}): Promise<RunDocument> => {
  const { options, folder, started, progress, stop, replay } = run;
  const { outcomes, doubts, embedded, tools } = progress;
  const planned = PROFILES[options.profile]?.length ?? 0;
  const by = stop.stoppedBy();
  if (by !== null) {
    const reason = `stopped by ${by} after ${outcomes.length} of ${planned} stages`;
    doubts.push(doubt("run/completed", reason, "every stage runs to its end", replay));
  }
  await writeHistory(folder, outcomes);
  const claims = [...doubts, ...outcomes.flatMap((outcome) => outcome.claims), ...judgeSecrets(folder.path, replay)];
  const document = composeDocument(
    {
      ...{ id: folder.id, profile: options.profile, seed: options.seed, commit: await commitOf(REPOSITORY) },
      ...{ started, finished: new Date(), target: embedded?.target, embedded: true, required: [] },
      environment: describeEnvironment(
        tools,
        outcomes.flatMap(({ notes }) => notes),
      ),
      exitCode: by === null ? progress.exitCode : (EXIT_OF_SIGNAL[by] ?? 143),
    },
    outcomes,
    claims,
  );
  await writeReports(folder, document);
  return document;
};
