/**
 * The shell of every command that judges a deployment: lock, folder, journal, supervision, history, claims about the run
 * itself, reports, exit code. The body does the rest. It reports through `events` and prints nothing.
 */

import { randomBytes } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { wallUs } from "../client/clock.ts";
import type { Deployment } from "../deployments/deployment.ts";
import { fromTarget } from "../deployments/from-target.ts";
import { type RunContext, type RunEvents, type RunFolder, stoppedBy } from "../deployments/run-context.ts";
import { WATCHDOG_PROCESS } from "../faults/watchdog-process.ts";
import { failedChecks } from "../history/calibration-checks.ts";
import { doubt } from "../history/claim.ts";
import { decidedByBoth } from "../history/played-again.ts";
import type { Calibration, Claim, Measurement, RunDocument, StandIn } from "../history/run-document.ts";
import type { PreparedTarget } from "../stages/prepare-target.ts";
import { Journal } from "../supervision/journal.ts";
import { redactor } from "../supervision/redaction.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import { listenForStop, type StopSignals } from "../supervision/stop-signals.ts";
import { Supervisor } from "../supervision/supervisor.ts";
import { fileProblem } from "../supervision/user-file.ts";
import { type Lock, lockTarget } from "../target/lock.ts";
import { findTool } from "../tools/find-tool.ts";
import { ToolMissing, type ToolName } from "../tools/tool-recipe.ts";
import { composeDocument } from "./compose-document.ts";
import { commitOf, describeEnvironment } from "./environment.ts";
import { EXIT, EXIT_OF_SIGNAL, exitCodeOf, worstExit } from "./exit-codes.ts";
import { healBeforehand } from "./experiments/heal-left-open.ts";
import { requireNothingLeft } from "./experiments/left-open.ts";
import { prepareFixtures } from "./fixtures.ts";
import { judgeSecrets } from "./judge-again.ts";
import { lookFirst } from "./look-first.ts";
import { watchMemory } from "./memory-watch.ts";
import { startOtlpExport } from "./otlp-export.ts";
import { createRecorder, type Recorder } from "./recorder.ts";
import { makeRunFolder } from "./run-folder.ts";
import { writeReports, writeWhatCanBe } from "./write-reports.ts";

export type RunRequest = {
  /** The word in the folder's name and in `run.json`: a suite or a command. */
  profile: string;
  seed: number;
  reports: string;
  out?: string;
  replay: string;
  /** None for the embedded deployment, which the body opens itself. */
  targets: readonly PreparedTarget[];
  /** Which names of the target files' `required` this command can judge; all where absent. */
  canJudge?: (required: string) => boolean;
  /** Claims or groups that must be judged, beside those of the target files; known only at the end for some. */
  required?: () => readonly string[];
  /** First heals what earlier runs left broken; otherwise a target with such a fault is refused. */
  healFirst?: boolean;
  /** How long the body may take to end after a stop signal, in milliseconds. */
  stopMs?: number;
  events: RunEvents;
};

export type RunResult = { document: RunDocument; folder: RunFolder };

/** What the report says, whatever ends the run. */
type Progress = {
  doubts: Claim[];
  claims: Claim[];
  measurements: Measurement[];
  calibration: Calibration[];
  deployments: Deployment[];
  tools: { k6: string | null; toxiproxy: string | null };
  standIns: StandIn[];
  exitCode: number | null;
  /** Why not everything stands in the run folder, as clauses. */
  unwritten: string[];
};

const WHOLE = "the run comes to its end";
const WRITTEN = "every line and every report stands in the run folder";

const wordsOf = (error: unknown): string =>
  fileProblem(error)?.sentence ?? (error instanceof Error ? error.message : String(error));

const unwrittenDoubt = (reasons: readonly string[], replay: string): Claim[] =>
  reasons.length === 0
    ? []
    : [doubt("run/reported", `not everything could be written: ${[...new Set(reasons)].join("; ")}`, WRITTEN, replay)];

const ROOM = ".room";
/** What `run.json` and the summary of a run of a few stages need. */
const ROOM_BYTES = 64 << 10;

/** Kept free from the beginning, so that a run that fills its disk can say so. */
const keepRoom = (folder: RunFolder): void => {
  try {
    // Random, because some file systems compress equal bytes away.
    writeFileSync(folder.pathOf(ROOM), randomBytes(ROOM_BYTES), { mode: 0o600 });
  } catch {}
};

const secretsJudged = (folder: string, replay: string): Claim[] => {
  try {
    return judgeSecrets(folder, replay);
  } catch (error) {
    return [doubt("run/searched", `what was written could not be searched: ${wordsOf(error)}`, WRITTEN, replay)];
  }
};

/** Rejects on an uncaught exception, so that the run heals and reports. */
const listenForUncaught = (): { thrown: Promise<never>; release: () => void } => {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => undefined);
  process.on("uncaughtException", reject);
  return { thrown: promise, release: () => process.off("uncaughtException", reject) };
};

const makeContext = (
  request: RunRequest,
  parts: { folder: RunFolder; supervisor: Supervisor; journal: Journal; recorder: Recorder; signal: AbortSignal },
  progress: Progress,
): RunContext => {
  const { seed, replay, events } = request;
  const { supervisor, signal, recorder } = parts;
  const epochUs = wallUs();
  const found = new Map<ToolName, Promise<string>>();
  const find = async (name: ToolName): Promise<string> => {
    const onSpawn = (pid: number) => supervisor.adopt("the Go compiler", pid);
    const { path, version } = await findTool(name, { progress: events.progress, signal, onSpawn });
    progress.tools[name] = version;
    return path;
  };
  const context: RunContext = {
    seed,
    replay,
    events,
    epochUs,
    signal,
    supervisor,
    folder: parts.folder,
    journal: parts.journal,
    run: randomBytes(3).toString("hex"),
    nowUs: () => wallUs() - epochUs,
    deployments: progress.deployments,
    opened: (deployment) => void progress.deployments.push(deployment),
    tool: (name) => {
      const known = found.get(name) ?? find(name);
      found.set(name, known);
      return known;
    },
    toolOrStandIn: async (name, by) => {
      try {
        return await context.tool(name);
      } catch (error) {
        if (!(error instanceof ToolMissing)) throw error;
        if (!progress.standIns.some(({ tool }) => tool === name)) {
          progress.standIns.push({ tool: name, by });
          events.warning(`${error.message} Until then ${by} stands in for it.`);
        }
        return null;
      }
    },
    line: (line) => {
      recorder.line(line);
      events.line?.(line);
    },
    sample: recorder.sample,
    record: recorder.record,
    addStage: async (outcome) => {
      await recorder.addStage(outcome);
      events.stage(outcome);
    },
    addClaims: (claims) => void progress.claims.push(...claims),
    addMeasurements: (measurements) => void progress.measurements.push(...measurements),
    addCalibration: (checks) => void progress.calibration.push(...checks),
    failedChecks: (driver) => failedChecks(progress.calibration, driver),
  };
  return context;
};

const namedIn = ({ targets }: RunRequest) => targets.map(({ target, budget }) => ({ target, budget, embedded: false }));

type Recorded = { folder: RunFolder; recorder: Recorder; started: Date };

const factsSoFar = ({ profile, seed }: RunRequest, { folder, recorder, started }: Recorded, progress: Progress) => {
  const { measurements, calibration, standIns } = progress;
  return {
    ...{ id: folder.id, profile, seed, started, finished: new Date(), measurements, calibration, standIns },
    stages: recorder.stages,
    outcomesSeen: recorder.outcomesSeen(),
  };
};

const finish = async (
  request: RunRequest,
  parts: Recorded & { stop: StopSignals },
  progress: Progress,
): Promise<RunDocument> => {
  const { folder, recorder, stop } = parts;
  const { replay } = request;
  const by = stop.stoppedBy();
  const endedBy = by === null ? stoppedBy(progress) : `stopped by ${by}`;
  const isSaid = progress.doubts.some(({ id }) => id === "run/completed");
  if (endedBy !== null && !isSaid) progress.doubts.push(doubt("run/completed", endedBy, WHOLE, replay));
  const claims = decidedByBoth([
    ...progress.doubts,
    ...recorder.stages.flatMap((stage) => stage.claims),
    ...progress.claims,
    ...secretsJudged(folder.path, replay),
  ]);
  const targets = progress.deployments.map(({ target }) => target);
  const facts = {
    ...factsSoFar(request, parts, progress),
    commit: await commitOf(REPOSITORY),
    deployments: progress.deployments.length > 0 ? progress.deployments : namedIn(request),
    required: [
      ...new Set([
        ...targets.flatMap(({ required = [] }) => required.filter(request.canJudge ?? (() => true))),
        ...(request.required?.() ?? []),
      ]),
    ],
    environment: describeEnvironment(
      progress.tools,
      recorder.stages.flatMap(({ notes }) => notes),
    ),
    exitCode: by === null ? progress.exitCode : (EXIT_OF_SIGNAL[by] ?? EXIT_OF_SIGNAL.SIGTERM ?? null),
  };
  const document = composeDocument({ ...facts, claims });
  const series = recorder.series();
  try {
    await writeReports(folder, document, series);
    return document;
  } catch (error) {
    const unwritten = unwrittenDoubt([...progress.unwritten, wordsOf(error)], replay);
    const others = claims.filter(({ id }) => id !== "run/reported");
    const exitCode = by === null ? worstExit(facts.exitCode ?? EXIT.pass, EXIT.inconclusive) : facts.exitCode;
    const open = composeDocument({ ...facts, exitCode, claims: [...unwritten, ...others] });
    await writeWhatCanBe(folder, open, series);
    return open;
  }
};

/** Throws what a user has to mend before anything begins (a busy target, an unusable folder); else there is a document. */
export const recordRun = async (
  request: RunRequest,
  body: (context: RunContext) => Promise<void>,
): Promise<RunResult> => {
  const { profile, events, replay, targets } = request;
  const started = new Date();
  let supervisor: Supervisor | null = null;
  // Before the folder's path is printed: its reader may press Ctrl-C at once.
  const stop = listenForStop((signal, times) => events.signalled(signal, times, supervisor?.pending() ?? []));
  const uncaught = listenForUncaught();
  const memory = watchMemory();
  const locks: Lock[] = [];
  try {
    for (const { target } of targets) locks.push(lockTarget(target.base_url));
    const { reports, out } = request;
    if (request.healFirst === true) await healBeforehand(reports, targets, events.warning);
    await requireNothingLeft(targets, reports);
    const folder = makeRunFolder({ profile, now: started, reports, out });
    events.folder(folder.path);
    keepRoom(folder);
    for (const warning of targets.flatMap(({ warnings }) => warnings)) events.warning(warning);
    const progress: Progress = {
      doubts: [],
      claims: [],
      measurements: [],
      calibration: [],
      deployments: [],
      exitCode: null,
      unwritten: [],
      tools: { k6: null, toxiproxy: null },
      standIns: [],
    };
    const note = (id: string, reason: string): void => {
      progress.doubts.push(doubt(id, redactor.redact(reason), WHOLE, replay));
    };
    const journal = new Journal(folder.pathOf("journal.ndjson"));
    const watcher = startOtlpExport({
      env: process.env,
      resource: { "floodgate.run": folder.id, "floodgate.profile": profile, "floodgate.seed": `${request.seed}` },
      startMs: started.getTime(),
      onWarning: events.warning,
    });
    // For the watchdog: a killed run leaves no lock behind.
    const locked = locks.map(({ path }) =>
      journal.about({ kind: "folder", name: "the target's lock", undo: { how: "remove-lock", path } }),
    );
    const recorder = createRecorder(folder, watcher);
    await recorder.begin(() => draftOf(request, { folder, recorder, started }, progress));
    try {
      const open = await Supervisor.open({ journal, watchdog: WATCHDOG_PROCESS, stopMs: request.stopMs });
      supervisor = open;
      if (!stop.signal.aborted) {
        await open.within(async (signal) => {
          const context = makeContext(request, { folder, supervisor: open, journal, recorder, signal }, progress);
          for (const target of targets) {
            await prepareFixtures(context, target);
            // After the fixtures, which may start the deployment.
            await lookFirst(target);
            context.opened(await fromTarget(context, target));
          }
          await Promise.race([body(context), uncaught.thrown, memory.exhausted]);
        }, stop.signal);
      }
    } catch (error) {
      progress.exitCode = exitCodeOf(error);
      if (stop.stoppedBy() === null) note("run/completed", wordsOf(error));
    }
    for (const trouble of (await supervisor?.close()) ?? []) note("run/cleaned-up", trouble);
    // From here on the run touches no target.
    for (const lock of locks) lock.release();
    for (const id of locked) journal.undone(id, "released");
    journal.close();
    progress.unwritten.push(...(journal.trouble === null ? [] : [journal.trouble]), ...(await recorder.close()));
    progress.doubts.push(...unwrittenDoubt(progress.unwritten, replay));
    rmSync(folder.pathOf(ROOM), { force: true });
    const document = await finish(request, { folder, recorder, started, stop }, progress);
    return { document, folder };
  } finally {
    stop.release();
    uncaught.release();
    memory.release();
    for (const lock of locks) lock.release();
  }
};

/** `run.json` of a run that has not ended: what a killed run leaves. */
const draftOf = (request: RunRequest, recorded: Recorded, progress: Progress): RunDocument => {
  const unfinished = doubt("run/completed", "the run was ended from outside", WHOLE, request.replay);
  const claims = [...recorded.recorder.stages.flatMap((stage) => stage.claims), ...progress.claims];
  return composeDocument({
    ...factsSoFar(request, recorded, progress),
    ...{ commit: null, deployments: namedIn(request), claims: [unfinished, ...claims], required: [], exitCode: null },
    environment: describeEnvironment(progress.tools, []),
  });
};
