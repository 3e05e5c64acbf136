/** Composes the document of a run from its stages and claims, and writes the masked reports rendered from it. */
import { execFile } from "node:child_process";
import { existsSync, readdirSync, rmSync, statfsSync } from "node:fs";
import { cpus, release, type } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { cleanValue } from "../contract/foreign-text.ts";
import { OUTCOMES } from "../contract/refusals.ts";
import type { Deployment } from "../deployments/deployment.ts";
import { isGatewayAlone } from "../history/line.ts";
import { openBy } from "../history/reason-codes.ts";
import * as doc from "../history/run-document.ts";
import type { Series } from "../history/series.ts";
import { ctrfJson, junitXml, nightJson, openMetrics } from "../report/formats.ts";
import { type Earlier, type Found, htmlReport } from "../report/page/html.ts";
import { summaryMarkdown } from "../report/summary-markdown.ts";
import { mergeClaims } from "../report/verdict.ts";
import { redactor } from "../supervision/redaction.ts";
import type { RunFolder } from "../supervision/run-folder.ts";
import { fileProblem, RECORDED_BOUNDS, readUserJson } from "../supervision/user-file.ts";
import { addSpent, NOTHING_SPENT } from "../workload/budget.ts";
import { EXIT, worstExit } from "./exit-codes.ts";

/** The time limit of git: a hanging disk must not keep a finished run from its report. */
const GIT_MS = 5_000;
/**
 * Without its optional locks git writes nothing: a lock that it left behind would stop the user's own git. A container's
 * job often runs as another user than its checkout belongs to, which git refuses unless `safe.directory` allows it.
 */
const GIT_OPTIONS = ["--no-optional-locks", "-c", "safe.directory=*"];
const git = async (folder: string, ...args: string[]): Promise<string> =>
  (await promisify(execFile)("git", [...GIT_OPTIONS, "-C", folder, ...args], { timeout: GIT_MS })).stdout.trim();

/** The commit of a checkout of Floodgate, with `+` when files differ from it; `null` outside a checkout or without git. */
export const commitOf = async (folder: string): Promise<string | null> => {
  try {
    const commit = await git(folder, "rev-parse", "--short=12", "HEAD");
    return commit + ((await git(folder, "status", "--porcelain", "--untracked-files=no")) === "" ? "" : "+");
  } catch {
    return null;
  }
};

/** Masks and cleans a value before rendering, which changes how a secret looks (`a<b` is `a&lt;b` in a page). */
export const shown = <T>(value: T): T => cleanValue(redactor.redactValue(value)) as T;

/** Derives verdict, exit code and coverage from the claims, also when they are judged again. */
export const verdictOf = (claims: readonly doc.Claim[], seen: number, required: readonly string[]) => {
  const { verdict, exit_code } = mergeClaims([...claims], required);
  const count = (...verdicts: readonly doc.Claim["verdict"][]): number =>
    claims.filter((claim) => verdicts.includes(claim.verdict)).length;
  return {
    ...{ verdict, exit_code },
    coverage: {
      ...{ outcomes_seen: seen, outcomes_of: OUTCOMES.length },
      ...{ claims_judged: count("pass", "fail"), claims_skipped: count("skipped") },
    },
  };
};

const KEYS_REFUSED =
  "all calls were answered 401: does the deployment know the keys? `doctor --target FILE` tries each";

/** The claim of a run that met a server of everything in the API's place (`lookLast` of run/recorded-run.ts). */
export const REACHED_API = "run/reached-the-api";

/**
 * A run in which nothing of the API was reached judges nothing of it, and has the exit code of `verify` there; claims that
 * stand alone keep their verdict.
 */
export const ifReached = (claims: readonly doc.Claim[], stages: readonly Pick<doc.StageSummary, "by_outcome">[]) => {
  const outcomes = [...new Set(stages.flatMap(({ by_outcome }) => Object.keys(by_outcome)))].sort();
  const areKeysRefused = outcomes.length === 1 && outcomes[0] === "401";
  const stranger = claims.find(({ id }) => id === REACHED_API);
  const isMet = stranger === undefined && !areKeysRefused && !isGatewayAlone(outcomes);
  if (isMet) return { claims: [...claims], exitCode: null };
  const byEdge = `only a gateway answered, to every call (${outcomes.join(", ")})`;
  const said = stranger?.reason ?? (areKeysRefused ? KEYS_REFUSED : byEdge);
  const code = areKeysRefused ? "key-refused" : "edge-answered";
  const open = claims.map((claim): doc.Claim => {
    const isJudged = claim.verdict === "fail" || (claim.verdict === "pass" && stranger !== undefined);
    return isJudged && claim.stands_alone !== true
      ? { ...claim, ...openBy(code), reason: `${said}; ${claim.reason}` }
      : claim;
  });
  if (stranger !== undefined) return { claims: open, exitCode: EXIT.unreachable };
  if (areKeysRefused) return { claims: open, exitCode: null };
  const todo =
    "is the API behind it running, and does it let these calls through? `doctor --target FILE` says what it met";
  const unreached = doc.doubt("run/completed", code, `${said}: ${todo}`, "the API answers", claims[0]?.replay ?? "");
  const isSaid = claims.some(({ id }) => id === unreached.id);
  return { claims: isSaid ? open : [unreached, ...open], exitCode: EXIT.unreachable };
};

/** What a document is composed of; `commit`, `required` and `exitCode` are set at the run's end. */
export type RunFacts = Pick<doc.RunDocument, "id" | "profile" | "seed" | "claims" | "measurements" | "calibration"> & {
  tools: Record<doc.StandIn["tool"], string | null>;
  started: Date;
  finished: Date;
  deployments: readonly Pick<Deployment, "target" | "budget" | "embedded">[];
  /** The target, in place of `deployments`; the document then has no `spent`. */
  target?: doc.RunDocument["target"];
  stages: readonly doc.RecordedStage[];
  standIns: readonly doc.StandIn[];
  outcomesSeen: number;
  commit?: string | null;
  /** Names of claims or groups that must have been judged (target file, `required`). */
  required?: readonly string[];
  /** The exit code of a signal, a missing tool or a run that did not end; `null` if only claims decide. */
  exitCode?: number | null;
};

/** Composes the document; the two claims of an experiment that was played twice become one. */
export const composeDocument = (facts: RunFacts): doc.RunDocument => {
  const { id, profile, seed, started, finished, deployments, stages, standIns, tools } = facts;
  const { commit = null, required = [] } = facts;
  const summaries = stages.map(({ summary }) => summary);
  const { claims, exitCode: unreached } = ifReached(doc.decidedByBoth(facts.claims), summaries);
  const exitCodes = [facts.exitCode ?? null, unreached].filter((code) => code !== null);
  const follows = verdictOf(claims, facts.outcomesSeen, required);
  const [first] = deployments;
  const budget = deployments.length === 1 ? first?.target.budget : undefined;
  const spent = deployments.reduce((sum, one) => addSpent(sum, one.budget.spent()), NOTHING_SPENT);
  return shown({
    schema: "floodgate/run@1",
    ...{ id, profile, seed, commit },
    started_at: started.toISOString(),
    finished_at: finished.toISOString(),
    duration_ms: finished.getTime() - started.getTime(),
    ...follows,
    exit_code: worstExit(...exitCodes, follows.exit_code),
    ...(required.length > 0 && { required: [...required] }),
    target: facts.target ?? {
      name: deployments.map(({ target }) => target.name ?? target.base_url).join(" and ") || "embedded",
      base_url: first?.target.base_url ?? "",
      embedded: first?.embedded ?? true,
    },
    environment: {
      ...{ node: process.versions.node, ...tools, os: `${type()} ${release()} ${process.arch}` },
      ...{ cores: cpus().length, cpu: cpus()[0]?.model ?? "unknown", host_notes: stages.flatMap(({ notes }) => notes) },
    },
    ...(standIns.length > 0 && { stand_ins: [...standIns] }),
    calibration: facts.calibration,
    ...(facts.target === undefined && {
      spent: { ...spent, stream_seconds: Math.round(spent.stream_seconds * 1000) / 1000 },
    }),
    ...(budget && { budget }),
    stages: summaries,
    claims,
    measurements: [...stages.flatMap(({ measurements }) => measurements), ...facts.measurements],
    faults: stages.flatMap(({ faults }) => faults),
  });
};

const FOLDER = /^\d{8}T\d{6}Z-(.+)-[0-9a-f]{4}$/;
const LOOKED_AT_MOST = 10;

const read = <T>(...path: string[]): T | undefined =>
  existsSync(join(...path)) ? (readUserJson(join(...path), RECORDED_BOUNDS) as T) : undefined;

type Run = Earlier & Pick<doc.RunDocument, "target">;

/** The previous run of the same profile on the same target, among the sibling folders; names sort by time. */
const readEarlier = (path: string): Earlier | undefined => {
  const [, profile] = FOLDER.exec(basename(path)) ?? [];
  const own = read<Run>(path, "run.json");
  if (profile === undefined || own === undefined) return undefined;
  const isEarlier = (name: string): boolean => FOLDER.exec(name)?.[1] === profile && name < basename(path);
  const names = readdirSync(dirname(path)).filter(isEarlier).sort().reverse();
  for (const name of names.slice(0, LOOKED_AT_MOST)) {
    try {
      const document = read<Run>(dirname(path), name, "run.json");
      if (document?.target.name === own.target.name) return document;
    } catch {
      // A killed run may have left half a document; the run before it is tried.
    }
  }
  return undefined;
};

/** `stages.json`: what judging again needs besides history and ledger. `charges`: lines in the ledger; older runs lack it. */
export type StageRecord = { facts: Omit<doc.StageFacts, "ledger">; hasLedger: boolean; charges?: number };

const REPORTS: Readonly<Record<string, (about: Rendered) => string>> = {
  "series.json": ({ series }) => `${JSON.stringify(series)}\n`,
  "report.html": ({ document, series, folder }) => {
    const { path } = folder;
    const found: Found & { earlier?: Earlier } = {
      earlier: readEarlier(path),
      ...{ gate: read(path, "gate.json"), capacity: read(path, "capacity.json"), curve: read(path, "curve.json") },
    };
    return htmlReport(document, series, folder.masked(found));
  },
  "summary.md": ({ document, folder }) =>
    summaryMarkdown(document, { curve: folder.masked(read(folder.path, "curve.json")) }),
  "junit.xml": ({ document }) => junitXml(document),
  "ctrf.json": ({ document }) => ctrfJson(document),
  "night.json": ({ document }) => nightJson(document),
  "metrics.prom": ({ document }) => openMetrics(document),
};

type ReportsIn = Pick<RunFolder, "writeJson" | "writeText" | "masked" | "path">;
type Rendered = { document: doc.RunDocument; series: Series; folder: ReportsIn };

export const wordsOf = (error: unknown): string =>
  fileProblem(error)?.sentence ?? (error instanceof Error ? error.message : String(error));

/** The reference platform's databases take this much of the disk, and are removed before the run asks. */
const FULL_BYTES = 1 << 20;

const hasRoom = (path: string): boolean => {
  try {
    const { blocks, bavail, bsize } = statfsSync(path);
    // Some file systems do not count.
    return blocks === 0 || bavail * bsize >= FULL_BYTES;
  } catch {
    return true;
  }
};

/** Adds the path that the error names, and that the disk of the run folder is full, which may be the cause of another error. */
export const failureIn = (folder: Pick<RunFolder, "path">, error: unknown): string => {
  const { path } = Object(error) as NodeJS.ErrnoException;
  const words = path !== undefined && fileProblem(error) !== null ? `${path}: ${wordsOf(error)}` : wordsOf(error);
  return hasRoom(folder.path) ? words : `${words}; the disk of the run folder is full`;
};

/** Writes each report, even if others fail; returns the reasons, each with the reports that failed for it. */
const writeEach = async (folder: ReportsIn, found: doc.RunDocument, ofRun: Series): Promise<string[]> => {
  // Masked before rendering, which changes how a secret looks.
  const document = folder.masked(found);
  const series = folder.masked(ofRun);
  const failed = new Map<string, string[]>();
  for (const [name, render] of Object.entries(REPORTS)) {
    try {
      await folder.writeText(name, render({ document, series, folder }));
    } catch (error) {
      const reason = wordsOf(error);
      failed.set(reason, [...(failed.get(reason) ?? []), name]);
    }
  }
  return [...failed].map(([reason, names]) => `${reason}: ${names.join(", ")}`);
};

/** Writes all reports, then `run.json`, which was a draft until then. Throws if any report could not be written. */
export const writeReports = async (folder: ReportsIn, document: doc.RunDocument, series: Series): Promise<void> => {
  const failed = await writeEach(folder, document, series);
  if (failed.length > 0) throw new Error(failed.join("; "));
  await folder.writeJson("run.json", folder.masked(document));
};

/** Writes all reports, or what can be written. `composed` makes the document, given why something is not written. */
export const writeWhatCanBe = async (
  folder: ReportsIn,
  series: Series,
  unwritten: readonly string[],
  composed: (unwritten: readonly string[]) => doc.RunDocument,
): Promise<doc.RunDocument> => {
  const whole = composed(unwritten);
  try {
    await writeReports(folder, whole, series);
    return whole;
  } catch (error) {
    const document = composed([...unwritten, wordsOf(error)]);
    // Reports written before contradict this document and take its room.
    for (const name of Object.keys(REPORTS)) rmSync(join(folder.path, name), { recursive: true, force: true });
    // If this fails too, the draft stays, whose verdict is inconclusive.
    await folder.writeJson("run.json", folder.masked(document)).catch(() => undefined);
    await writeEach(folder, document, series);
    return document;
  }
};
