/**
 * The shell of every command that judges a deployment, with its looks at each target before and after the body, which does the
 * rest, and a watch of this process's memory. Reports through `events` alone.
 */

import { randomBytes } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";
import { toldOf } from "../client/network-errors.ts";
import { certificateText, lookAtTcp, lookAtTls, placeOf, speaksPlainHttp, speaksTls } from "../client/tls-look.ts";
import { tlsFiles, wrongTlsFile } from "../client/transport.ts";
import { type Deployment, fromTarget, type RunContext, type RunEvents, stoppedBy } from "../deployments/deployment.ts";
import { WATCHDOG_PROCESS } from "../faults/watchdog-process.ts";
import { failedChecks } from "../history/calibration-checks.ts";
import { showsApi } from "../history/line.ts";
import type { OpenCode } from "../history/reason-codes.ts";
import * as doc from "../history/run-document.ts";
import { known } from "../history/statistics/statistics.ts";
import type { PreparedTarget } from "../stages/stage-plan.ts";
import { runShellCommand } from "../supervision/child.ts";
import { openJournal } from "../supervision/journal.ts";
import { redactor } from "../supervision/redaction.ts";
import { REPOSITORY, type RunFolder } from "../supervision/run-folder.ts";
import { listenForStop } from "../supervision/stop-signals.ts";
import { openSupervisor, type Supervisor } from "../supervision/supervisor.ts";
import { fileProblem, UsageError } from "../supervision/user-file.ts";
import { wallUs } from "../supervision/waiting.ts";
import { lockTarget } from "../target/target-file.ts";
import { findTool } from "../tools/find-tool.ts";
import { ToolMissing, type ToolName } from "../tools/tool-recipe.ts";
import { serverOfEverything } from "../verify/doctor/find-base-url.ts";
import { createBudget } from "../verify/planning/needs.ts";
import { TargetUnreachableError } from "../verify/reach.ts";
import { NOTHING_SPENT } from "../workload/budget.ts";
import { EXIT, EXIT_OF_SIGNAL, exitCodeOf } from "./exit-codes.ts";
import { healBeforehand, requireNothingLeft } from "./experiments/left-open.ts";
import { judgeSecrets } from "./read-run.ts";
import { createRecorder, makeRunFolder, type Recorder, startOtlpExport } from "./recorder.ts";
import * as reporting from "./run-reports.ts";

export type RunRequest = {
  /** The suite or command, for the folder's name and `run.json`. */
  profile: string;
  seed: number;
  reports: string;
  out?: string;
  replay: string;
  /** Empty for the embedded deployment, which the body opens itself. */
  targets: readonly PreparedTarget[];
  /** Reports whether this command can judge a name of a target file's `required`; it can judge all if absent. */
  canJudge?: (required: string) => boolean;
  /** Claims or groups that must be judged, beside those of the target files; called at the end of the run. */
  required?: () => readonly string[];
  /** First heals what earlier runs left broken; otherwise a target with such a fault is refused. */
  healFirst?: boolean;
  /** Checks the targets once they are locked and healed; throws what refuses the run. */
  checkTargets?: () => Promise<void>;
  /** How long the body may take to end after a stop signal, in milliseconds. */
  stopMs?: number;
  events: RunEvents;
};

/** The fields that commands pass on as they get them. */
export type Asked = Omit<RunRequest, "profile" | "targets" | "canJudge" | "required" | "stopMs" | "checkTargets">;

export type RunResult = { document: doc.RunDocument; folder: RunFolder };

const noProgress = () => ({
  doubts: [] as doc.Claim[],
  claims: [] as doc.Claim[],
  measurements: [] as doc.Measurement[],
  calibration: [] as doc.Calibration[],
  deployments: [] as Deployment[],
  tools: { k6: null, toxiproxy: null } as Record<"k6" | "toxiproxy", string | null>,
  standIns: [] as doc.StandIn[],
  exitCode: null as number | null,
  /** Whether the API itself answered a call, as far as a call alone shows it; `null` before the first line. */
  sawApi: null as boolean | null,
  /** Why the run folder is incomplete, as clauses. */
  unwritten: [] as string[],
});

type Recorded = { folder: RunFolder; recorder: Recorder; started: Date; progress: ReturnType<typeof noProgress> };

/** By the clock that has no steps: a wall clock that is set ahead or back meanwhile changes no duration. */
const now = (): Date => new Date(wallUs() / 1000);

const WHOLE = "the run comes to its end";
const WRITTEN = "every line and every report stands in the run folder";

const ROOM = ".room";
/** Enough for `run.json` and the summary of a run of a few stages. */
const ROOM_BYTES = 64 << 10;

/** Reserves disk space until the end, so that a run that fills its disk can still report. Throws if the disk is full. */
const keepRoom = (folder: RunFolder): void => {
  const room = folder.pathOf(ROOM);
  try {
    // Random, because some file systems compress equal bytes away.
    writeFileSync(room, randomBytes(ROOM_BYTES), { mode: 0o600 });
  } catch (error) {
    const problem = fileProblem(error);
    if (problem === null || !/^(?:ENOSPC|EDQUOT)$/.test(problem.code)) return;
    rmSync(room, { force: true });
    const needed = `the run folder ${folder.path} takes ${ROOM_BYTES >> 10} KiB at least`;
    throw new Error(`${needed}, and ${problem.sentence}; make room, or name another place with --out`);
  }
};

type Parts = Pick<RunContext, "supervisor" | "journal" | "signal">;

const makeContext = ({ seed, replay, events }: RunRequest, recorded: Recorded, parts: Parts): RunContext => {
  const { folder, recorder, progress } = recorded;
  const epochUs = wallUs();
  const found = new Map<ToolName, Promise<string>>();
  const find = async (name: ToolName): Promise<string> => {
    const onSpawn = (pid: number) => parts.supervisor.adopt("the Go compiler", pid);
    const { path, version } = await findTool(name, { progress: events.progress, signal: parts.signal, onSpawn });
    progress.tools[name] = version;
    return path;
  };
  const context: RunContext = {
    ...{ seed, replay, events, epochUs, folder, ...parts },
    run: randomBytes(3).toString("hex"),
    nowUs: () => wallUs() - epochUs,
    deployments: progress.deployments,
    opened: (deployment) => void progress.deployments.push(deployment),
    tool: (name) => known(found, name, () => find(name)),
    toolOrStandIn: async (name, by) => {
      try {
        return await context.tool(name);
      } catch (error) {
        if (!(error instanceof ToolMissing)) throw error;
        progress.standIns.push({ tool: name, by });
        events.warning(`${error.message} Until then ${by} stands in for it.`);
        return null;
      }
    },
    line: (line) => {
      recorder.line(line);
      progress.sawApi ||= showsApi(line);
      events.line?.(line);
    },
    sample: recorder.sample,
    record: recorder.record,
    addStage: async (outcome) => {
      await recorder.addStage(outcome);
      events.stage(outcome);
    },
    add: ({ claims = [], measurements = [] }) => {
      progress.claims.push(...claims);
      progress.measurements.push(...measurements);
    },
    addCalibration: (checks) => void progress.calibration.push(...checks),
    failedChecks: (driver) => failedChecks(progress.calibration, driver),
  };
  return context;
};

/** Composes the document of the run so far; `claims` about the run come before those of its stages. */
const documentOf = (
  { profile, seed, targets }: RunRequest,
  { folder, recorder, started, progress }: Recorded,
  claims: readonly doc.Claim[],
  end: Partial<reporting.RunFacts> = {},
): doc.RunDocument => {
  const { stages } = recorder;
  const named = targets.map(({ target, budget }) => ({ target, budget, embedded: false }));
  const found = [...claims, ...stages.flatMap((stage) => stage.claims), ...progress.claims];
  return reporting.composeDocument({
    ...{ ...progress, deployments: progress.deployments.length > 0 ? progress.deployments : named },
    ...{ id: folder.id, profile, seed, started, stages },
    ...{ finished: now(), outcomesSeen: recorder.outcomesSeen() },
    ...{ ...end, claims: [...found, ...(end.claims ?? [])] },
  });
};

const secretsJudged = (folder: string, replay: string): doc.Claim[] => {
  try {
    return judgeSecrets(folder, replay);
  } catch (error) {
    const why = `what was written could not be searched: ${reporting.wordsOf(error)}`;
    return [doc.doubt("run/searched", "program-failed", why, WRITTEN, replay)];
  }
};

/** Why a run could not be finished, by the exit code of the error that ended it. */
const CODE_OF_EXIT: Readonly<Record<number, OpenCode>> = {
  [EXIT.usage]: "not-stated",
  [EXIT.unreachable]: "not-answered",
  [EXIT.guarded]: "not-permitted",
};

/** `by`: the signal that stopped the run. */
const finish = async (request: RunRequest, recorded: Recorded, by: NodeJS.Signals | null): Promise<doc.RunDocument> => {
  const { folder, recorder, progress } = recorded;
  const { replay, canJudge = () => true } = request;
  const ended = by === null ? stoppedBy(progress) : ({ by: "asked", reason: `stopped by ${by}` } as const);
  const code = ended?.by === "spent" ? "budget-spent" : "stopped";
  const isSaid = progress.doubts.some(({ id }) => id === "run/completed");
  if (ended !== null && !isSaid) progress.doubts.push(doc.doubt("run/completed", code, ended.reason, WHOLE, replay));
  const ofTargets = progress.deployments.flatMap(({ target }) => (target.required ?? []).filter(canJudge));
  const end = {
    claims: secretsJudged(folder.path, replay),
    commit: await reporting.commitOf(REPOSITORY),
    required: [...new Set([...ofTargets, ...(request.required?.() ?? [])])],
    exitCode: by === null ? progress.exitCode : (EXIT_OF_SIGNAL[by] ?? EXIT_OF_SIGNAL.SIGTERM),
  };
  const composed = (unwritten: readonly string[]): doc.RunDocument => {
    const said = `not everything could be written: ${[...new Set(unwritten)].join("; ")}`;
    const open = unwritten.length === 0 ? [] : [doc.doubt("run/reported", "program-failed", said, WRITTEN, replay)];
    return documentOf(request, recorded, [...progress.doubts, ...open], end);
  };
  return reporting.writeWhatCanBe(folder, recorder.series(), progress.unwritten, composed);
};

/**
 * Records a run. Throws only before anything begins, for what a user has to mend (a busy target, an unusable folder).
 * `came`: what the body returned, `null` if it did not end.
 */
export const recordRun = async <T>(
  request: RunRequest,
  body: (context: RunContext) => Promise<T>,
): Promise<RunResult & { came: T | null }> => {
  const { profile, events, replay, targets, reports, out } = request;
  const started = now();
  let supervisor: Supervisor | null = null;
  let came: T | null = null;
  using atEnd = new DisposableStack();
  // The listener comes before the folder's path is printed, because a user may then press Ctrl-C at once.
  const stop = listenForStop((signal, times) => events.signalled(signal, times, supervisor?.pending() ?? []));
  atEnd.defer(stop.release);
  // What is thrown uncaught, or a full heap, ends the body, so that the run heals and reports.
  const fatal = Promise.withResolvers<never>();
  fatal.promise.catch(() => undefined);
  process.on("uncaughtException", fatal.reject);
  atEnd.defer(() => process.off("uncaughtException", fatal.reject));
  atEnd.defer(watchMemory(fatal.reject));
  const locks = targets.map(({ target }) => atEnd.adopt(lockTarget(target.base_url), (lock) => lock.release()));
  if (request.healFirst === true) await healBeforehand(reports, targets, events.warning);
  await requireNothingLeft(targets, reports);
  await request.checkTargets?.();
  const folder = makeRunFolder({ profile, now: started, reports, out });
  events.folder(folder.path);
  keepRoom(folder);
  for (const warning of targets.flatMap(({ warnings }) => warnings)) events.warning(warning);
  const progress = noProgress();
  const note = (id: string, code: OpenCode, reason: string): void =>
    void progress.doubts.push(doc.doubt(id, code, redactor.redact(reason), WHOLE, replay));
  const journal = openJournal(folder.pathOf("journal.ndjson"));
  const watcher = startOtlpExport({
    ...{ env: process.env, startMs: started.getTime(), onWarning: events.warning },
    resource: { "floodgate.run": folder.id, "floodgate.profile": profile, "floodgate.seed": `${request.seed}` },
  });
  // Tells the watchdog to remove the lock of a killed run.
  const locked = locks.map(({ path }) =>
    journal.about({ kind: "folder", name: "the target's lock", undo: { how: "remove-lock", path } }),
  );
  const recorder = createRecorder(folder, watcher);
  const recorded: Recorded = { folder, recorder, started, progress };
  const unfinished = doc.doubt("run/completed", "stopped", "the run was ended from outside", WHOLE, replay);
  await recorder.begin(() => documentOf(request, recorded, [unfinished]));
  try {
    const open = await openSupervisor({ journal, watchdog: WATCHDOG_PROCESS, stopMs: request.stopMs });
    supervisor = open;
    if (!stop.signal.aborted) {
      came = await open.within(stop.signal, async (signal) => {
        const context = makeContext(request, recorded, { supervisor: open, journal, signal });
        for (const target of targets) {
          await prepareFixtures(context, target);
          // The look comes after the fixtures, which may start the deployment.
          await lookFirst(target);
          context.opened(await fromTarget(context, target));
        }
        const ended = await Promise.race([body(context), fatal.promise]);
        const outcomes = recorder.stages.flatMap(({ summary }) => Object.keys(summary.by_outcome));
        // No look after a stop, nor after a user's own script, which leaves no lines and may call any server.
        const mayLook = progress.sawApi === false && !signal.aborted;
        const isOpen = mayLook && outcomes.some((outcome) => outcome.startsWith("2"));
        // A merged run, which sends nothing, has a deployment but no target.
        for (const target of isOpen ? targets : []) {
          const said = await lookLast(target);
          if (said !== null)
            progress.doubts.push(
              doc.doubt(reporting.REACHED_API, "edge-answered", said, "the API answers at base_url", replay),
            );
        }
        return ended;
      });
    }
  } catch (error) {
    progress.exitCode = exitCodeOf(error);
    if (stop.stoppedBy() === null)
      note("run/completed", CODE_OF_EXIT[exitCodeOf(error)] ?? "program-failed", reporting.failureIn(folder, error));
  }
  for (const trouble of (await supervisor?.close()) ?? []) note("run/cleaned-up", "not-healed", trouble);
  // From here on the run touches no target.
  for (const lock of locks) lock.release();
  for (const id of locked) journal.undone(id, "released");
  journal.close();
  progress.unwritten.push(...[journal.trouble() ?? []].flat(), ...(await recorder.close()));
  rmSync(folder.pathOf(ROOM), { force: true });
  return { document: await finish(request, recorded, stop.stoppedBy()), folder, came };
};

// Prepares a deployment before a run sends anything: runs the commands of its `fixtures`, then looks once whether it
// accepts connections by the stated protocol and with a trusted certificate.

const refuse = ({ text, todo }: ReturnType<typeof toldOf>): never => {
  throw new TargetUnreachableError(`${text}; ${todo}`);
};

/** Throws `TargetUnreachableError`, or `SecretError` and `UsageError` for a file that is missing or wrong. */
export const lookFirst = async ({ target, secrets }: Pick<PreparedTarget, "target" | "secrets">): Promise<void> => {
  const { transport = {}, base_url: url } = target;
  const wrong = wrongTlsFile(await tlsFiles(transport, secrets));
  if (wrong !== null) throw new UsageError(wrong);
  for (const [name, ref] of Object.entries(transport.headers ?? {})) {
    await secrets.read(ref, `transport.headers.${name}`);
  }
  const proxy = typeof transport.proxy === "string" ? await secrets.read(transport.proxy, "transport.proxy") : url;
  const code = URL.canParse(proxy) ? await lookAtTcp(placeOf(proxy)) : null;
  if (code !== null && proxy === url) refuse(toldOf(`${url} does not answer`, code));
  if (code !== null) {
    const { text } = toldOf("the proxy of transport.proxy does not answer", code);
    refuse({ text, todo: "start the proxy, or correct its address in transport.proxy" });
  }
  if (proxy !== url) return;
  const seen = await lookAtTls(target, secrets);
  if (seen === null) {
    const isTlsAlone = (await speaksTls(placeOf(url))) && !(await speaksPlainHttp(url));
    if (isTlsAlone) refuse(toldOf(`${url} does not answer`, "tls_expected"));
  } else if ("error" in seen) refuse(toldOf(`${url}: the handshake failed`, seen.error));
  else if (transport.protocol === "h2" && seen.alpn !== "h2") {
    const todo = 'write "h1" there, or turn HTTP/2 on at the gateway';
    refuse({ text: `${url}: offers HTTP/1.1 alone, and transport.protocol says h2`, todo });
  } else if (seen.distrust !== null) refuse(toldOf(`${url}: ${certificateText(seen)}; not trusted`, seen.distrust));
};

const LAST_CALLS = 2;

/**
 * Says that a deployment which showed nothing of the API in a run is a server that serves everything, such as a static site;
 * `null` if it is not, or if its budget allows no further call.
 */
export const lookLast = async ({ target, secrets, budget }: Pick<Deployment, "target" | "secrets" | "budget">) => {
  if (budget.stopped !== null || (budget.left().requests ?? LAST_CALLS) < LAST_CALLS) return null;
  const calls = createBudget(target, false);
  const said = await serverOfEverything({ target, secrets, budget: calls }).catch(() => null);
  budget.absorb({ ...NOTHING_SPENT, requests: calls.spent.requests }, null);
  return said;
};

const LIMIT_MS = 300_000;

/** Runs `fixtures.reset`, then `fixtures.provision`; their output goes to `logs/`. */
const prepareFixtures = async (context: RunContext, { file, target }: PreparedTarget): Promise<void> => {
  for (const name of ["reset", "provision"] as const) {
    const command = target.fixtures?.[name];
    if (command === undefined || command === null) continue;
    context.events.step(`fixtures.${name} of ${file}`);
    const id = context.journal.about({ kind: "fixture", name: `fixtures.${name}`, detail: command });
    try {
      const said: string[] = [];
      const signal = AbortSignal.any([context.signal, AbortSignal.timeout(LIMIT_MS)]);
      const onOutput = (text: string): void => void said.push(text);
      await runShellCommand(command, { what: `command of fixtures.${name}`, cwd: dirname(file), signal, onOutput });
      await context.folder.writeText(`logs/fixtures-${name}.log`, said.join(""));
      context.journal.undone(id, "done");
    } catch (error) {
      const why = `expected the command to end with 0: ${(error as Error).message}`;
      throw new TargetUnreachableError(`fixtures.${name} of ${file}: ${why}`);
    }
  }
};

// Ends a run in order before its heap is full: V8 would abort without a report and with faults in place.

/** V8's limit includes the young generation (three half spaces of 32 MiB), but V8 aborts when the old one is full. */
const YOUNG_BYTES = 96 << 20;

const oldGeneration = (): { used: number; limit: number } => {
  const used = getHeapSpaceStatistics()
    .filter(({ space_name: name }) => !name.startsWith("new_") && !name.startsWith("read_only"))
    .reduce((sum, { space_used_size: size }) => sum + size, 0);
  return { used, limit: getHeapStatistics().heap_size_limit - YOUNG_BYTES };
};

const EVERY_MS = 250;
const FULL_SHARE = 0.9;
/** Looks in a row that find the heap full, so that garbage does not count: it is collected in between. */
const LOOKS = 3;

/** Calls `onFull` once when the heap is nearly full. Returns the function that ends the watch. */
export const watchMemory = (onFull: (error: Error) => void): (() => void) => {
  let full = 0;
  const timer = setInterval(() => {
    const { used, limit } = oldGeneration();
    full = used > limit * FULL_SHARE ? full + 1 : 0;
    if (full < LOOKS) return;
    clearInterval(timer);
    const why = `the memory of this process is full (${Math.round(limit / 1e6)} MB), so the run was ended before the system would have ended it`;
    onFull(
      new Error(
        `${why}; play it shorter or at a lower rate, or give it more by NODE_OPTIONS=--max-old-space-size=MEGABYTES`,
      ),
    );
  }, EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
};
