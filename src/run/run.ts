/**
 * One run from start to end: folder, tools, watchdog, deployment, stages, verdict, reports. It prints nothing; it tells
 * what happens through `events`, and returns the run document with the exit code in it.
 */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { OUTCOMES } from "../contract/subcodes.ts";
import { wallUs } from "../drivers/run-clock.ts";
import { createSecrets } from "../drivers/secrets.ts";
import type { Target } from "../drivers/target.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { mergeClaims } from "../report/verdict.ts";
import { type Embedded, type EmbeddedSettings, startEmbedded } from "./embedded.ts";
import { loadTenants, quotaTenants } from "./embedded-tenants.ts";
import { commitOf, describeEnvironment, REPOSITORY } from "./environment.ts";
import { Journal } from "./journal.ts";
import { judgeStage } from "./judge-stage.ts";
import { redactor } from "./redaction.ts";
import { makeRunFolder, type RunFolder } from "./run-folder.ts";
import { runStage, type StageContext, type StageOutcome } from "./stage.ts";
import { PROFILES, type StagePlan } from "./stages.ts";
import { Supervisor } from "./supervision.ts";
import { findTool, type Tool } from "./tools.ts";
import { writeReports } from "./write-reports.ts";

export type RunEvents = {
  /** The folder is made; nothing else is started yet. */
  folder(path: string): void;
  step(text: string): void;
  progress(text: string): void;
  stage(outcome: StageOutcome, at: number, of: number): void;
  signalled(signal: NodeJS.Signals, times: number, pending: string[]): void;
};

export type RunOptions = {
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

type Progressed = { outcomes: StageOutcome[]; doubts: Claim[]; embedded: Embedded | null; notes: string[] };

const runClaim = (id: string, verdict: Claim["verdict"], reason: string, expected: string, replay: string): Claim => ({
  ...{ id, stage: "run", level: "must", verdict, reason, expected, got: reason, spec: [], evidence: [], replay },
});

const runStages = async (
  context: StageContext,
  plans: readonly StagePlan[],
  progressed: Progressed,
  events: RunEvents,
): Promise<void> => {
  for (const [at, plan] of plans.entries()) {
    if (context.signal.aborted) return;
    events.step(`stage ${at + 1} of ${plans.length}: ${plan.name} (${plan.driver})`);
    const outcome = await runStage(context, plan);
    if (context.signal.aborted) {
      for (const claim of outcome.claims) {
        if (claim.verdict === "pass" || claim.verdict === "fail") continue;
        claim.reason = `the run was stopped: ${claim.reason}`;
      }
    }
    progressed.outcomes.push(outcome);
    events.stage(outcome, at, plans.length);
  }
};

/** Everything that was captured or written, searched for credentials once more: the last claim of a run. */
const judgeSecrets = (texts: { name: string; path: string }[], replay: string): Claim[] => {
  const read = texts.map(({ name, path }) => {
    try {
      return { name, text: readFileSync(path, "utf8") };
    } catch {
      return { name, text: "" };
    }
  });
  const facts = { stage: "run", limits: {}, shedding: "unknown", tenants: {}, faults: true, drained: false } as const;
  return judgeStage(
    INVARIANTS.filter(({ id }) => id === "secrets-stay-secret"),
    { ...facts, texts: read },
    [],
    replay,
  );
};

/** Both failures that travel under 200 are counted as `200 error`; how the stream ended tells them apart. */
const seenOutcomes = (outcomes: readonly StageOutcome[]): number => {
  const seen = new Set<string>();
  for (const { lines } of outcomes) {
    for (const line of lines) {
      if (line.type === "call") seen.add(line.ended === "error_event" ? "200 error event" : line.outcome);
    }
  }
  return OUTCOMES.filter((outcome) => seen.has(outcome)).length;
};

export const runProfile = async (options: RunOptions): Promise<RunResult> => {
  const { profile, seed, events } = options;
  const plans = PROFILES[profile];
  if (plans === undefined)
    throw new Error(`there is no profile "${profile}"; there are ${Object.keys(PROFILES).join(", ")}`);
  const started = new Date();
  const folder = makeRunFolder({
    ...{ profile, now: started, reports: options.reports },
    ...(options.out === undefined ? {} : { out: options.out }),
  });
  events.folder(folder.path);
  const replay = `npx floodgate run ${profile} --seed ${seed}`;

  const toolbox: { k6: Tool; toxiproxy: Tool } = {
    toxiproxy: await findTool("toxiproxy", { progress: events.progress }),
    k6: await findTool("k6", { progress: events.progress }),
  };
  const journal = new Journal(folder.pathOf("journal.ndjson"));
  const supervisor = await Supervisor.open({ journal });
  const epochUs = wallUs();
  const progressed: Progressed = { outcomes: [], doubts: [], embedded: null, notes: [] };
  let stoppedBy: NodeJS.Signals | null = null;
  const stopListening = supervisor.onSignal((signal, times, pending) => {
    stoppedBy ??= signal;
    events.signalled(signal, times, pending);
  });
  try {
    await supervisor.within(async (signal) => {
      events.step("starting the embedded deployment: key service, limiter, toxiproxy, API");
      const tenants = [...loadTenants(LOAD_TENANTS), ...quotaTenants()];
      const embedded = await startEmbedded({
        ...{ supervisor, redactor, folder, toxiproxyPath: toolbox.toxiproxy.path, settings: SETTINGS, tenants, seed },
      });
      progressed.embedded = embedded;
      const context: StageContext = {
        ...{
          target: embedded.target,
          secrets: createSecrets(process.cwd()),
          seed,
          epochUs,
          supervisor,
          journal,
          folder,
        },
        ...{ run: randomBytes(3).toString("hex"), replay },
        nowUs: () => wallUs() - epochUs,
        k6Path: toolbox.k6.path,
        toxiproxy: { server: embedded.toxiproxy, links: embedded.links },
        onProgress: events.progress,
        signal,
      };
      await runStages(context, plans, progressed, events);
    });
  } catch (error) {
    const reason = redactor.redact(error instanceof Error ? error.message : String(error));
    progressed.doubts.push(runClaim("run/completed", "inconclusive", reason, "every stage runs to its end", replay));
  }
  const troubles = await supervisor.close();
  for (const trouble of troubles) {
    progressed.doubts.push(runClaim("run/cleaned-up", "inconclusive", trouble, "everything started is ended", replay));
  }
  if (stoppedBy !== null) {
    const reason = `stopped by ${stoppedBy} after ${progressed.outcomes.length} of ${plans.length} stages`;
    progressed.doubts.push(runClaim("run/completed", "inconclusive", reason, "every stage runs to its end", replay));
  }
  journal.close();

  const document = await finish(options, folder, started, progressed, toolbox, stoppedBy, replay);
  stopListening();
  return { document, folder };
};

const finish = async (
  { profile, seed }: RunOptions,
  folder: RunFolder,
  started: Date,
  { outcomes, doubts, embedded, notes }: Progressed,
  tools: { k6: Tool; toxiproxy: Tool },
  stoppedBy: NodeJS.Signals | null,
  replay: string,
): Promise<RunDocument> => {
  const lines = await writeReports.history(folder, outcomes);
  const logs = (embedded?.logs ?? []).map((path) => ({ name: path, path }));
  const claims = [
    ...doubts,
    ...outcomes.flatMap((outcome) => outcome.claims),
    ...judgeSecrets([...logs, { name: "journal.ndjson", path: join(folder.path, "journal.ndjson") }, ...lines], replay),
  ];
  const merged = mergeClaims(claims, []);
  const finished = new Date();
  const stages = outcomes.map(({ summary }) => summary);
  const target: Target | undefined = embedded?.target;
  const exitOf = { SIGINT: 130, SIGTERM: 143, SIGHUP: 143 } as Record<string, number>;
  const document: RunDocument = {
    schema: "floodgate/run@1",
    ...{ id: folder.id, profile, seed, commit: await commitOf(REPOSITORY) },
    started_at: started.toISOString(),
    finished_at: finished.toISOString(),
    duration_ms: finished.getTime() - started.getTime(),
    verdict: merged.verdict,
    exit_code: stoppedBy === null ? merged.exit_code : (exitOf[stoppedBy] ?? 143),
    coverage: {
      outcomes_seen: seenOutcomes(outcomes),
      outcomes_of: OUTCOMES.length,
      claims_judged: claims.filter(({ verdict }) => verdict === "pass" || verdict === "fail").length,
      claims_skipped: claims.filter(({ verdict }) => verdict === "skipped").length,
    },
    target: { name: target?.name ?? "embedded", base_url: target?.base_url ?? "", embedded: true },
    environment: describeEnvironment({ k6: tools.k6.version, toxiproxy: tools.toxiproxy.version }, [
      ...notes,
      ...outcomes.flatMap((outcome) => outcome.notes),
    ]),
    calibration: [],
    stages,
    claims,
    measurements: outcomes.flatMap(({ measurements }) => measurements),
    faults: outcomes.flatMap(({ faults }) => faults),
  };
  await writeReports.document(folder, document);
  return document;
};
