/** Reads a recorded run and judges it again from its files alone: the same history gets the same verdict to the byte. */

import { closeSync, existsSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { ERROR_IN_STREAM, isObject, OUTCOMES, parseJson } from "../contract/refusals.ts";
import type { LedgerLine } from "../contract/routes.ts";
import { transportCode } from "../contract/transport-codes.ts";
import type { CallLine, Line } from "../history/line.ts";
import * as doc from "../history/run-document.ts";
import { type Sample, seriesFold } from "../history/series.ts";
import { inTimeOrder, Lateness } from "../history/time-order.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { judgeStage, ofCutOffStage, openJudges } from "../invariants/invariant.ts";
import { createIsolation, type IsolationPart } from "../shedding/isolation.ts";
import { openStageCurve } from "../shedding/stage-curve.ts";
import { openUserFile, RECORDED_BOUNDS, readUserJson, UsageError, UserFileError } from "../supervision/user-file.ts";
import { EXIT } from "./exit-codes.ts";
import { ifReached, type StageRecord, shown, verdictOf } from "./run-reports.ts";

type OlderCall = Omit<CallLine, "started_us" | "connect_us" | "attempt"> & { started_us?: number };

/** How calls' ids end; made by workload/step.ts, client/api-client.ts, scenarios/shared/sessions.ts. */
const MINTED = /-(?:s\d+|v\d+s\d+)$/;
const REPEATED = /r(\d+)$/;
const LATER_STEP = /-\d+_\d+(?:r\d+)?$/;

const made = (id: string): Pick<CallLine, "attempt" | "unscheduled"> => {
  if (MINTED.test(id)) return { attempt: 0, unscheduled: "mint" };
  const attempt = Number(REPEATED.exec(id)?.[1] ?? 0);
  return LATER_STEP.test(id) ? { attempt, unscheduled: "step" } : { attempt };
};

/** Gives a line of an older format the times and error names that current lines have. */
export const withAllTimes = (line: Line): Line => {
  if (line.type !== "call") return line;
  const named: CallLine = line.error === undefined ? line : { ...line, error: transportCode(line.error) };
  const older: OlderCall = named;
  if (older.started_us !== undefined) return named;
  const { first_us: firstUs, events = 0, ended } = older;
  const isStream = ended !== undefined && firstUs !== null && events > 0;
  return {
    ...older,
    started_us: older.sent_us,
    connect_us: 0,
    ...(isStream ? { first_event_us: firstUs } : {}),
    ...made(older.id),
  };
};

/** Every line of a recorded `history.ndjson`, in the order in which they were written. */
const historyLines = (path: string): Iterable<Line> => jsonLines<Line>(path).map(withAllTimes);

const KNOWN: ReadonlySet<string> = new Set(OUTCOMES);

export const outcomeName = (line: Line): string | null => {
  if (line.type === "fold") return line.offered > 0 && KNOWN.has(line.outcome) ? line.outcome : null;
  if (line.type !== "call") return null;
  const name = line.ended === "error_event" ? ERROR_IN_STREAM : line.outcome;
  return KNOWN.has(name) ? name : null;
};

export const outcomesSeen = (lines: Iterable<Line>, counted: readonly Pick<doc.StageSummary, "by_outcome">[]) => {
  const names = counted.flatMap(({ by_outcome }) => Object.keys(by_outcome)).filter((name) => KNOWN.has(name));
  const seen = new Set<string | null>(names);
  for (const line of lines) seen.add(outcomeName(line));
  seen.delete(null);
  return seen.size;
};

const BLOCK_BYTES = 1 << 20;
const LINE_END = 10;

const opened = (path: string): number => {
  try {
    return openUserFile(path).descriptor;
  } catch (error) {
    throw error instanceof UserFileError ? new UserFileError(`${path}: ${error.message}`, error.code) : error;
  }
};

/**
 * Yields whole lines, many at a time, between two byte offsets of a file; at last the rest without a line end. It reads
 * in blocks, because a soak's history exceeds the longest string.
 */
export function* textBlocks(path: string, from = 0, to = Number.POSITIVE_INFINITY): Generator<string> {
  using atEnd = new DisposableStack();
  const file = atEnd.adopt(opened(path), closeSync);
  const block = Buffer.alloc(BLOCK_BYTES);
  const held: Buffer[] = [];
  for (let at = from; ; ) {
    const bytes = readSync(file, block, 0, Math.min(BLOCK_BYTES, to - at), at);
    if (bytes === 0) break;
    at += bytes;
    const end = block.lastIndexOf(LINE_END, bytes - 1) + 1;
    if (end > 0) yield Buffer.concat([...held.splice(0), block.subarray(0, end)]).toString("utf8");
    held.push(Buffer.from(block.subarray(end, bytes)));
  }
  const rest = Buffer.concat(held).toString("utf8");
  if (rest !== "") yield rest;
}

/** Yields each line as JSON, without a last incomplete line, which a killed run may leave. */
export function* jsonLines<T>(path: string, from?: number, to?: number): Generator<T> {
  for (const text of textBlocks(path, from, to)) {
    for (const line of text.slice(0, text.lastIndexOf("\n") + 1).split("\n")) {
      if (line === "") continue;
      const json = parseJson(line);
      // The error quotes nothing of the line, which may hold a key.
      if (!isObject(json)) throw new UserFileError(`${path}: a line of it is no JSON object`);
      yield json as T;
    }
  }
}

/** The files that a run records; its reports are rendered from them. */
const CAPTURED = ["journal.ndjson", "history.ndjson", "ledger.ndjson", "stages.json"];

export const judgeSecrets = (folder: string, replay: string): doc.Claim[] => {
  const below = ["logs", "k6"].flatMap((name) =>
    existsSync(join(folder, name)) ? readdirSync(join(folder, name)).map((file) => `${name}/${file}`) : [],
  );
  const names = [...CAPTURED, ...below.sort()].filter((name) => existsSync(join(folder, name)));
  // No credential spans two lines, so blocks of whole lines are searched.
  const texts = names.values().flatMap((name) => textBlocks(join(folder, name)).map((text) => ({ name, text })));
  const facts: doc.StageFacts = { ...doc.bareFacts("run"), faults: true, texts };
  const secrets = INVARIANTS.filter(({ id }) => id === "secrets-stay-secret");
  return judgeStage(secrets, facts, [], replay);
};

export const recordedJson = (path: string, about = "file of a run", advice = "a folder under reports/runs") => {
  try {
    return readUserJson(path, RECORDED_BOUNDS);
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    throw new UsageError(`${path} is no ${about}: ${error.message}; name ${advice}`);
  }
};

/** An example of what judges and reports read of a recorded run; older runs have all of it too. */
const RUN = {
  ...{ schema: "floodgate/run@1", id: "", profile: "", seed: 0, started_at: "", finished_at: "", duration_ms: 0 },
  ...{
    verdict: "",
    exit_code: 0,
    coverage: { outcomes_seen: 0 },
    target: { name: "", base_url: "" },
    calibration: [{}],
  },
  environment: { node: "", os: "", cpu: "", cores: 0, host_notes: [""] },
  stages: [{ name: "", duration_ms: 0, calls: { sent: 0 }, by_outcome: {} }],
  claims: [{ id: "", stage: "", level: "", verdict: "", reason: "" }],
  measurements: [{ name: "", stage: "" }],
  faults: [{}],
};
const STAGES = [{ facts: { stage: "" } }];

/** Where a value first differs from an example in its members' types; `null` if it has them all. */
export const misfitAt = (example: unknown, value: unknown, at: string): string | null => {
  if (Array.isArray(example)) {
    if (!Array.isArray(value)) return at;
    return value.map((one, k) => misfitAt(example[0], one, `${at}[${k}]`)).find((found) => found !== null) ?? null;
  }
  if (typeof example !== "object" || example === null) return typeof value === typeof example ? null : at;
  if (!isObject(value)) return at;
  const within = Object.entries(example).map(([name, one]) => misfitAt(one, value[name], `${at}.${name}`));
  return within.find((found) => found !== null) ?? null;
};

const recordedAs = (path: string, example: unknown): unknown => {
  const value = recordedJson(path);
  const at = misfitAt(example, value, "");
  if (at === null) return value;
  throw new UsageError(
    `${path} is no file of a run of this version: ${at.replace(/^\./, "") || "the whole"} is absent or of another type; name a folder under reports/runs`,
  );
};

/** Reads a `run.json`. Throws `UsageError` for any other document. */
export const recordedRun = (path: string): doc.RunDocument => {
  const run = recordedAs(path, RUN) as doc.RunDocument;
  if (run.schema === RUN.schema) return run;
  throw new UsageError(
    `${path} is a run of another version: expected "schema": "${RUN.schema}"; judge it with that version`,
  );
};

/** Judges `curve/isolation` again from its two stages, if the run had it; no claim if one of them was not recorded. */
const isolationAgain = (ofPair: doc.Claim | undefined, stages: readonly StageRecord[]) => {
  const isolation = createIsolation();
  const takes = new Map<string, (line: Line) => void>();
  const follow = (part: IsolationPart, stage: string): void => {
    const facts = stages.find((one) => one.facts.stage === stage)?.facts;
    if (facts !== undefined) takes.set(stage, isolation.follow(part, facts));
  };
  if (ofPair !== undefined) {
    follow("beside", ofPair.stage);
    follow("alone", `${ofPair.stage}-alone`);
  }
  return {
    see: (line: Line): void => takes.get(line.stage)?.(line),
    claims: (): doc.Claim[] => isolation.judged(ofPair?.replay ?? "").claims,
  };
};

/** `changed`: claims that differ from what the run itself wrote. */
export const judgeAgain = (folder: string) => {
  const files = ["run.json", "history.ndjson", "ledger.ndjson", "stages.json"];
  const missing = files.filter((name) => !existsSync(join(folder, name)));
  if (missing.length > 0) {
    throw new UsageError(
      `${folder} is not a complete run folder: ${missing.join(", ")} missing, or in a folder that this user may not read. Name one under reports/runs`,
    );
  }
  const history = join(folder, "history.ndjson");
  const recorded = recordedRun(join(folder, "run.json"));
  const stages = recordedAs(join(folder, "stages.json"), STAGES) as StageRecord[];
  const lateness = new Lateness();
  const fold = seriesFold();
  const found = new Map<string, number>();
  // The history is read twice: the first reading measures how late lines came.
  const heard = function* (): Generator<Line> {
    for (const line of historyLines(history)) {
      lateness.see(line);
      fold.see(line);
      const calls = line.type === "call" ? 1 : line.type === "fold" ? line.offered : 0;
      found.set(line.stage, (found.get(line.stage) ?? 0) + calls);
      yield line;
    }
  };
  const totals = new Set(stages.flatMap(({ facts }) => (facts.totals_only === true ? [facts.stage] : [])));
  const counted = recorded.stages.filter(({ name }) => totals.has(name));
  const seen = outcomesSeen(heard(), counted);
  const ledgerLines = jsonLines<LedgerLine & { stage: string }>(join(folder, "ledger.ndjson"));
  const charges = Map.groupBy(ledgerLines, ({ stage }) => stage);
  const check = (file: string, has: number, written: number, what: string): void => {
    if (has >= written) return;
    throw new UsageError(
      `${folder} is not a complete run folder; its ${file} holds ${has} of the ${written} ${what}: a copy, an upload or a full disk cut it short. Copy it again; nothing was judged or written`,
    );
  };
  // Files that were cut short would accuse the target of what is missing.
  for (const { facts, charges: written = 0 } of stages) {
    check("ledger.ndjson", charges.get(facts.stage)?.length ?? 0, written, `lines of ${facts.stage}`);
  }
  const judged = stages.flatMap(({ facts: { stage, ...others }, hasLedger }) => {
    if (totals.has(stage)) return [];
    const ledger = hasLedger ? (charges.get(stage) ?? []).map(({ stage: _, ...charge }) => charge) : undefined;
    const facts: doc.StageFacts = { stage, ...others, ...(ledger && { ledger }) };
    const own = recorded.claims.filter((claim) => claim.stage === stage);
    const invariants = INVARIANTS.filter(({ id }) => own.some((claim) => claim.id === `${id}/${stage}`));
    // The sum of a search (`chaos --explore`) counts the calls of every schedule, and has no lines and no invariant.
    const sent = invariants.length === 0 ? 0 : (recorded.stages.find(({ name }) => name === stage)?.calls.sent ?? 0);
    check("history.ndjson", found.get(stage) ?? 0, sent, `calls of ${stage}`);
    const replay = own[0]?.replay ?? "";
    const asRecorded = facts.cut_off === true ? ofCutOffStage : (claim: doc.Claim): doc.Claim => claim;
    return { stage, judges: openJudges(invariants, facts), curve: openStageCurve(facts), replay, asRecorded };
  });
  const ofPair = recorded.claims.find(({ id }) => id === "curve/isolation");
  const isolation = isolationAgain(ofPair, stages);
  const judgesOf = Map.groupBy(judged, ({ stage }) => stage);
  for (const line of inTimeOrder(historyLines(history), lateness.us)) {
    for (const { judges, curve } of judgesOf.get(line.stage) ?? []) {
      judges.see(line);
      curve?.see(line);
    }
    isolation.see(line);
  }
  const again = new Map(
    judged
      .flatMap(({ judges, curve, replay, asRecorded }) =>
        [...judges.claims(replay), ...(curve?.end(replay).claims ?? [])].map(asRecorded),
      )
      .map((claim): [string, doc.Claim] => [claim.id, claim]),
  );
  for (const claim of isolation.claims()) again.set(claim.id, claim);
  const secrets = recorded.claims.find(({ id }) => id === "secrets-stay-secret/run");
  if (secrets !== undefined) for (const claim of judgeSecrets(folder, secrets.replay)) again.set(claim.id, claim);

  // Claims about the run itself, such as that a stage was reached, stay as they were written.
  const both = doc.decidedByBoth(recorded.claims.map((claim) => again.get(claim.id) ?? claim));
  const { claims: reached, exitCode: unreached } = ifReached(both, recorded.stages);
  const judgedAgain = shown(reached);
  // An older run has the same members in another order, or lacks `stands_alone`, and keeps its own.
  const written = ({ stands_alone: _, code, ...claim }: doc.Claim, has: doc.Claim): unknown =>
    JSON.parse(JSON.stringify(has.code === undefined ? claim : { code, ...claim }));
  const isSame = (is: doc.Claim, was?: doc.Claim) =>
    was !== undefined && isDeepStrictEqual(written(was, was), written(is, was));
  const claims = judgedAgain.map((is, at) =>
    isSame(is, recorded.claims[at]) ? ({ ...recorded.claims[at], code: is.code } as doc.Claim) : is,
  );
  const changed = claims.flatMap((is, at) => {
    const was = recorded.claims[at] ?? null;
    return was !== null && isSame(is, was) ? [] : [{ id: is.id, was, is }];
  });
  const follows = verdictOf(claims, seen, recorded.required ?? []);
  // Any other code says what stopped the run or kept it from the target, which is not judged again.
  const isOfClaims = [EXIT.pass, EXIT.fail, EXIT.inconclusive].some((code) => code === recorded.exit_code);
  const exit_code = isOfClaims ? (unreached ?? follows.exit_code) : recorded.exit_code;
  const document: doc.RunDocument = shown({ ...recorded, ...follows, claims, exit_code });
  // Gauges and CPU are in a file of their own, which older runs do not have.
  const samples = join(folder, "samples.ndjson");
  if (existsSync(samples)) for (const sample of jsonLines<Sample>(samples)) fold.see(sample);
  for (const { facts } of stages) fold.limits(facts.stage, facts.limits);
  return { document, series: fold.end(), changed };
};
