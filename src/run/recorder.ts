/**
 * What is on disk of a run while it goes on, so that a killed run leaves its lines and an inconclusive `run.json`; and what is
 * sent of it to a collector of metrics.
 */

import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { join, relative, resolve } from "node:path";
import { callControl } from "../client/control-call.ts";
import { clean } from "../contract/foreign-text.ts";
import { parseJson } from "../contract/refusals.ts";
import type { ReadBack, RecordingOptions } from "../deployments/deployment.ts";
import { callFold } from "../history/call-fold.ts";
import type { Line } from "../history/line.ts";
import type { RecordedStage, RunDocument, StageOutcome } from "../history/run-document.ts";
import { type Sample, seriesFold } from "../history/series.ts";
import { inTimeOrder, Lateness } from "../history/time-order.ts";
import { looksWrong } from "../invariants/evidence/legal-answers.ts";
import { otlpMetrics } from "../report/otlp-metrics.ts";
import { decoded, type Redactor, redactor } from "../supervision/redaction.ts";
import { openRunFolder, type RunFolder } from "../supervision/run-folder.ts";
import { atPlace, makeFolders, UsageError } from "../supervision/user-file.ts";
import { jsonLines, outcomeName } from "./read-run.ts";
import { type StageRecord, wordsOf } from "./run-reports.ts";

/** `20261121T083800Z-…`: sorts by time and is legal in a file name everywhere. */
const newId = (profile: string, now: Date): string => {
  const stamp = now.toISOString().slice(0, 19).replace(/[-:]/g, "");
  const plain = profile.replace(/[^A-Za-z0-9_-]+/g, "-").slice(0, 60);
  return `${stamp}Z-${plain}-${randomBytes(2).toString("hex")}`;
};

const statOf = (path: string) => fs.lstatSync(path, { throwIfNoEntry: false });

/** How many names are tried. Two runs of one profile in one second differ only in four hex digits, so a name may be taken. */
const NAMES_TRIED = 20;

const makeUnder = (runs: string, profile: string, now: Date): { id: string; path: string } => {
  makeFolders(runs);
  for (let left = NAMES_TRIED; ; left -= 1) {
    const id = newId(profile, now);
    const path = join(runs, id);
    try {
      fs.mkdirSync(path, { mode: 0o700 });
      return { id, path };
    } catch (error) {
      // Another run may make the same folder at this moment, so only `mkdir` itself tells whether a name is free.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST" || left === 1) throw error;
    }
  }
};

const makeAt = (out: string): string => {
  const path = resolve(out);
  const found = statOf(path);
  if (found !== undefined && (!found.isDirectory() || fs.readdirSync(path).length > 0))
    throw new UsageError(
      `--out ${out} is not an empty folder; name a new one, so that no earlier run is mixed with this one`,
    );
  makeFolders(path, 0o700);
  // Others may not write here, because healing trusts no journal that others could have written.
  try {
    fs.chmodSync(path, fs.lstatSync(path).mode & 0o7755);
  } catch {}
  // An unusable folder fails now, not when the first file is written.
  fs.accessSync(path, fs.constants.W_OK | fs.constants.X_OK);
  return path;
};

/** Makes `reports/latest` a link, or a file with the path if links cannot be made. Never replaces a folder. */
const pointLatestAt = (reports: string, path: string): void => {
  const latest = join(reports, "latest");
  const target = relative(reports, path);
  const draft = `${latest}.${randomBytes(4).toString("hex")}`;
  if (statOf(latest)?.isDirectory() === true) return;
  try {
    fs.symlinkSync(target, draft);
    fs.renameSync(draft, latest);
  } catch {
    fs.rmSync(draft, { force: true });
    try {
      fs.rmSync(latest, { force: true });
      fs.writeFileSync(latest, `${target}\n`);
    } catch {}
  }
};

type Where = { profile: string; now: Date; reports: string; out?: string; redactor?: Redactor };

/** `out`: the run folder, new or empty. Throws if it cannot be made: `UsageError` if another place would do. */
export const makeRunFolder = ({ profile, now, reports, out, redactor }: Where): RunFolder => {
  const runs = join(resolve(reports), "runs");
  const { id, path } =
    out === undefined
      ? atPlace(`no run folder can be made in ${runs}`, () => makeUnder(runs, profile, now), " with --out")
      : { id: newId(profile, now), path: atPlace(`--out ${out}`, () => makeAt(out)) };
  // With `--out` an existing link is moved too, so that it never names an earlier run.
  if (out === undefined || statOf(join(reports, "latest"))) pointLatestAt(resolve(reports), path);
  return openRunFolder(path, redactor, id);
};

const HISTORY = "history.ndjson";
/** From this size of the history on, admitted calls are folded into seconds (history/call-fold.ts), as by `--fold`. */
const FOLDS_FROM_BYTES = 500_000_000;

export type Recorder = ReturnType<typeof createRecorder>;

/** `watcher` gets every line and sample too, and is closed at the end. */
export const createRecorder = (
  folder: RunFolder,
  watcher: OtlpExport | null = null,
  foldsFromBytes = FOLDS_FROM_BYTES,
) => {
  const history = folder.openLines(HISTORY);
  const ledger = folder.openLines("ledger.ndjson");
  const samples = folder.openLines("samples.ndjson");
  const series = seriesFold();
  const records: StageRecord[] = [];
  const stages: RecordedStage[] = [];
  const seen = new Set<string>();
  /** The lateness of all lines so far, which is at least that of a stage's. */
  const lateness = new Lateness();
  let draft: (() => RunDocument) | null = null;
  /** Set at the end; later lines, by a body that did not stop in time, are dropped. */
  let isClosed = false;
  /** The chain of all writes; a failure shows when the recorder is closed. */
  let writing: Promise<void> = Promise.resolve();
  const write = (work: () => Promise<void>): Promise<void> => {
    if (isClosed) return Promise.resolve();
    writing = writing.then(work);
    writing.catch(() => undefined);
    return writing;
  };
  const wishes = new Map<string, RecordingOptions>();
  let historyChars = 0;
  const keep = (line: Line): void => {
    if (isClosed) return;
    lateness.see(line);
    series.see(line);
    const text = JSON.stringify(line);
    historyChars += text.length;
    void write(() => history.write(text));
  };
  const fold = callFold({
    emit: keep,
    looksWrong: (call) => looksWrong(call, wishes.get(call.stage)?.reference === true),
  });
  let grownIn: string | null = null;
  const isFolded = ({ stage }: Line): boolean => {
    if (historyChars >= foldsFromBytes) grownIn ??= stage;
    return grownIn !== null || wishes.get(stage)?.fold === true;
  };
  return {
    stages: stages as readonly RecordedStage[],
    /** Writes the first JSON files. `makeDraft`: the document of a killed run, written again after each stage. */
    begin: async (makeDraft: () => RunDocument): Promise<void> => {
      draft = makeDraft;
      await folder.writeJson("stages.json", records);
      await folder.writeJson("run.json", draft());
    },
    line: (line: Line): void => {
      if (isClosed) return;
      const name = outcomeName(line);
      if (name !== null) seen.add(name);
      watcher?.see(line);
      if (line.type === "call" && isFolded(line)) fold.see(line);
      else keep(line);
    },
    sample: (sample: Sample): void => {
      if (isClosed) return;
      series.see(sample);
      watcher?.see(sample);
      void write(() => samples.write(JSON.stringify(sample)));
    },
    record: async (stage: string, how?: RecordingOptions): Promise<ReadBack> => {
      if (how !== undefined) wishes.set(stage, how);
      await writing;
      const from = await history.flushed();
      return async () => {
        fold.end();
        await writing;
        const lines = jsonLines<Line>(folder.pathOf(HISTORY), from, await history.flushed());
        const own = lines.filter((line) => line.stage === stage);
        return inTimeOrder(own, lateness.us);
      };
    },
    addStage: ({ facts, ...stage }: StageOutcome): Promise<void> => {
      fold.end();
      // The stage counts even if the disk is full.
      const grown = `${grownIn}: the history has reached ${foldsFromBytes / 1e6} MB; admitted calls are folded from there on`;
      const isGrown = stage.summary.name === grownIn;
      if (!isClosed) stages.push({ ...stage, notes: isGrown ? [...stage.notes, grown] : stage.notes });
      return write(async () => {
        const { ledger: charges, ...others } = facts;
        for (const line of charges ?? []) await ledger.write(JSON.stringify({ stage: facts.stage, ...line }));
        series.limits(facts.stage, facts.limits);
        records.push({ facts: others, hasLedger: charges !== undefined, charges: charges?.length });
        // A killed run's files agree only if the lines of the stage are on disk before its record.
        for (const file of [history, ledger]) await file.flushed();
        await folder.writeJson("stages.json", records);
        if (draft !== null) await folder.writeJson("run.json", draft());
      });
    },
    outcomesSeen: () => seen.size,
    series: () => {
      fold.end();
      return series.end();
    },
    /** Never rejects; returns why lines are missing in the files, as clauses. */
    close: async (): Promise<string[]> => {
      fold.end();
      isClosed = true;
      const troubles = new Set<string>();
      const trouble = (error: unknown): void => void troubles.add(wordsOf(error));
      await writing.catch(trouble);
      for (const file of [history, ledger, samples]) await file.close().catch(trouble);
      await watcher?.close();
      return [...troubles];
    },
  };
};

// Sends a run's metrics to the OpenTelemetry collector that the environment names; failures are only warnings.

type Environment = Readonly<Record<string, string | undefined>>;
type Warn = (text: string) => void;

const DEADLINE_MS = 3_000;
/** The longest timeout: a longer one would let a slow collector delay the end of the run. */
const DEADLINE_MS_MAX = 10_000;

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** The value of an HTTP header (RFC 9110, field-value). */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Reads OpenTelemetry's environment variables; `null` if they name no usable collector. */
const otlpSettings = (env: Environment, warn: Warn) => {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true" || env.OTEL_METRICS_EXPORTER === "none") return null;
  /** Reads a setting: the variable for metrics comes first, and an empty value counts as absent. */
  const setting = (name: string): { variable: string; value: string } | null => {
    for (const variable of [`OTEL_EXPORTER_OTLP_METRICS_${name}`, `OTEL_EXPORTER_OTLP_${name}`]) {
      const value = env[variable]?.trim();
      if (value) return { variable, value };
    }
    return null;
  };
  const endpoint = (): string | null => {
    const { variable, value } = setting("ENDPOINT") ?? {};
    if (value === undefined) return null;
    redactor.registerUrl(value, variable);
    const url = URL.parse(value);
    if (url === null || !/^https?:$/.test(url.protocol)) {
      warn(`${variable} is no address that begins with http:// or https://; no metrics are sent`);
      return null;
    }
    if (url.username !== "" || url.password !== "") {
      warn(`${variable} has a user or a password in it, which is not sent; put it into OTEL_EXPORTER_OTLP_HEADERS`);
      url.username = "";
      url.password = "";
    }
    if (!variable?.includes("_METRICS_")) url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/metrics`;
    return url.href;
  };
  /** Parses `name=value,name=value`, each percent-encoded. */
  const headers = (): Record<string, string> => {
    const { variable, value: all = "" } = setting("HEADERS") ?? {};
    const found: Record<string, string> = {};
    for (const [at, pair] of all.split(",").entries()) {
      if (pair.trim() === "") continue;
      const cut = pair.indexOf("=");
      const name = decoded(pair.slice(0, Math.max(cut, 0)).trim()).toLowerCase();
      const written = pair.slice(cut + 1).trim();
      const value = decoded(written);
      redactor.register(value, variable);
      const which = `header ${at + 1} of ${variable}`;
      if (cut < 0 || !NAME.test(name) || !VALUE.test(value)) {
        warn(`${which} is no name=value that HTTP can carry; it is left out`);
        continue;
      }
      if (value === written && written.includes("%")) {
        warn(`${which} is not percent-encoded (a % is written %25); it is sent as it stands there`);
      }
      found[name] = value;
    }
    return found;
  };
  const deadlineMs = (): number => {
    const { variable, value } = setting("TIMEOUT") ?? {};
    const ms = Number(value ?? DEADLINE_MS);
    if (Number.isFinite(ms) && ms > 0) return Math.min(ms, DEADLINE_MS_MAX);
    warn(`${variable} is no number of milliseconds above 0; ${DEADLINE_MS} is used`);
    return DEADLINE_MS;
  };
  const url = endpoint();
  if (url === null) return null;
  const { variable, value } = setting("PROTOCOL") ?? {};
  // Most exporters default to http/protobuf; a collector takes both at the same address.
  if (value !== undefined && !/^http\/(?:json|protobuf)$/.test(value)) {
    const is = value === "grpc" ? "grpc" : "not a known protocol";
    warn(`${variable} is ${is}; Floodgate sends http/json, which a collector takes on port 4318`);
  }
  return { url, headers: headers(), withinMs: deadlineMs() };
};

const EVERY_MS = 5_000;
const MESSAGE_CHARS_MAX = 200;

type OtlpExport = NonNullable<ReturnType<typeof startOtlpExport>>;

const plain = (text: string) => clean(redactor.redact(text)).replace(/\s+/g, " ").trim().slice(0, MESSAGE_CHARS_MAX);

/** Says what the collector rejected (opentelemetry-proto, `ExportMetricsPartialSuccess`); `null` if nothing. */
const partialOf = (text: string): string | null => {
  type Answer = { partialSuccess?: { rejectedDataPoints?: unknown; errorMessage?: unknown } };
  const { rejectedDataPoints = 0, errorMessage } = (parseJson(text) as Answer | null | undefined)?.partialSuccess ?? {};
  const why = typeof errorMessage === "string" ? plain(errorMessage) : "";
  if (Number(rejectedDataPoints) > 0)
    return `the collector rejected ${Number(rejectedDataPoints)} data points${why === "" ? "" : `: ${why}`}`;
  return why === "" ? null : `the collector took all metrics, and says: ${why}`;
};

type About = { env: Environment; resource: Record<string, string>; startMs: number; onWarning: Warn };

/** Starts the export; `null` if the environment names no usable collector. */
export const startOtlpExport = ({ env, resource, startMs, onWarning }: About) => {
  const said = new Set<string>();
  const warn = (text: string): void => {
    if (!said.has(text)) onWarning(text);
    said.add(text);
  };
  const settings = otlpSettings(env, warn);
  if (settings === null) return null;
  const { url, headers, withinMs } = settings;
  const metrics = otlpMetrics({ "service.name": env.OTEL_SERVICE_NAME ?? "floodgate", ...resource }, startMs);
  const failed = ({ message, code = message }: Error & { code?: string }): void =>
    warn(`metrics could not be sent to the collector of OTEL_EXPORTER_OTLP_ENDPOINT: ${plain(code)}`);
  const send = async (): Promise<void> => {
    try {
      const body = redactor.redactValue(metrics.toOtlp(Date.now()));
      const { status, text } = await callControl(url, { method: "POST", headers, body, withinMs });
      const moved = status < 400 ? ", a redirect, which is not followed" : "";
      if (status >= 300) throw new Error(`status ${status}${moved}`);
      const partial = partialOf(text);
      if (partial !== null) warn(partial);
    } catch (error) {
      failed(error as Error);
    }
  };
  let sending: Promise<void> | null = null;
  const timer = setInterval(() => {
    // While an export is under way no other begins, so that none queue up for a slow collector.
    sending ??= send().finally(() => {
      sending = null;
    });
  }, EVERY_MS);
  timer.unref();
  return {
    see: (line: Line | Sample): void => {
      try {
        metrics.see(line);
      } catch (error) {
        failed(error as Error);
      }
    },
    /** Sends once more, and ends. Never rejects, and ends within its deadlines. */
    close: async (): Promise<void> => {
      clearInterval(timer);
      await sending;
      await send();
    },
  };
};
