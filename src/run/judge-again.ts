/** Judges a recorded run again from its files alone: the same history gets the same verdict to the byte. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { seriesFold } from "../history/fold-series.ts";
import type { LedgerLine, Line } from "../history/line.ts";
import { decidedByBoth } from "../history/played-again.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import type { Sample } from "../history/series.ts";
import { bareFacts, type StageFacts } from "../history/stage-facts.ts";
import { inTimeOrder, Lateness } from "../history/time-order.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { judgeStage, openJudges } from "../invariants/invariant.ts";
import { openStageCurve } from "../shedding/stage-curve.ts";
import { RECORDED_BOUNDS, readUserJson, UserFileError } from "../supervision/user-file.ts";
import { EXIT, UsageError } from "./exit-codes.ts";
import { historyLines, jsonLines, outcomesSeen, textBlocks } from "./read-lines.ts";
import { type StageRecord, shown, verdictOf } from "./run-reports.ts";

/** The files that a run records; its reports are rendered from them. */
const CAPTURED = ["journal.ndjson", "history.ndjson", "ledger.ndjson", "stages.json"];

/** Yields text in blocks, since a history may exceed the longest string; no credential spans two lines. */
function* textsOf(folder: string, names: readonly string[]): Generator<{ name: string; text: string }> {
  for (const name of names) for (const text of textBlocks(join(folder, name))) yield { name, text };
}

export const judgeSecrets = (folder: string, replay: string): Claim[] => {
  const below = ["logs", "k6"].flatMap((name) =>
    existsSync(join(folder, name)) ? readdirSync(join(folder, name)).map((file) => `${name}/${file}`) : [],
  );
  const names = [...CAPTURED, ...below.sort()].filter((name) => existsSync(join(folder, name)));
  const facts: StageFacts = { ...bareFacts("run"), faults: true, texts: textsOf(folder, names) };
  const secrets = INVARIANTS.filter(({ id }) => id === "secrets-stay-secret");
  return judgeStage(secrets, facts, [], replay);
};

export const recordedJson = (path: string): unknown => {
  try {
    return readUserJson(path, RECORDED_BOUNDS);
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    throw new UsageError(`${path} is no file of a run: ${error.message}; name a folder under reports/runs`);
  }
};

/** `changed`: claims that differ from what the run itself wrote. */
export const judgeAgain = (folder: string) => {
  const files = ["run.json", "history.ndjson", "ledger.ndjson", "stages.json"];
  const missing = files.filter((name) => !existsSync(join(folder, name)));
  if (missing.length > 0) {
    throw new UsageError(
      `${folder} is not a complete run folder; missing ${missing.join(", ")}. Name one under reports/runs`,
    );
  }
  const history = join(folder, "history.ndjson");
  const recorded = recordedJson(join(folder, "run.json")) as RunDocument;
  const stages = recordedJson(join(folder, "stages.json")) as StageRecord[];
  if (recorded?.schema !== "floodgate/run@1" || !Array.isArray(recorded.claims) || !Array.isArray(stages)) {
    throw new UsageError(`${folder} holds no run of this version: its run.json or stages.json has another shape`);
  }
  const lateness = new Lateness();
  const fold = seriesFold();
  // The history is read twice: the first reading measures how late lines came.
  const heard = function* (): Generator<Line> {
    for (const line of historyLines(history)) {
      lateness.see(line);
      fold.see(line);
      yield line;
    }
  };
  const totals = new Set(stages.flatMap(({ facts }) => (facts.totals_only === true ? [facts.stage] : [])));
  const counted = recorded.stages.filter(({ name }) => totals.has(name));
  const seen = outcomesSeen(heard(), counted);
  const charges = Map.groupBy(
    jsonLines<LedgerLine & { stage: string }>(join(folder, "ledger.ndjson")),
    ({ stage }) => stage,
  );
  const judged = stages.flatMap(({ facts: { stage, ...others }, hasLedger }) => {
    if (totals.has(stage)) return [];
    const ledger = hasLedger ? (charges.get(stage) ?? []).map(({ stage: _, ...charge }) => charge) : undefined;
    const facts: StageFacts = { stage, ...others, ...(ledger && { ledger }) };
    const own = recorded.claims.filter((claim) => claim.stage === stage);
    const invariants = INVARIANTS.filter(({ id }) => own.some((claim) => claim.id === `${id}/${stage}`));
    const replay = own[0]?.replay ?? "";
    return { stage, judges: openJudges(invariants, facts), curve: openStageCurve(facts), replay };
  });
  const judgesOf = Map.groupBy(judged, ({ stage }) => stage);
  for (const line of inTimeOrder(historyLines(history), lateness.us)) {
    for (const { judges, curve } of judgesOf.get(line.stage) ?? []) {
      judges.see(line);
      curve?.see(line);
    }
  }
  const again = new Map(
    judged
      .flatMap(({ judges, curve, replay }) => [...judges.claims(replay), ...(curve?.end(replay).claims ?? [])])
      .map((claim): [string, Claim] => [claim.id, claim]),
  );
  const secrets = recorded.claims.find(({ id }) => id === "secrets-stay-secret/run");
  if (secrets !== undefined) for (const claim of judgeSecrets(folder, secrets.replay)) again.set(claim.id, claim);

  // Claims about the run itself, such as that a stage was reached, stay as they were written.
  const claims = shown(decidedByBoth(recorded.claims.map((claim) => again.get(claim.id) ?? claim)));
  const changed = claims.flatMap((is, at) => {
    const was = recorded.claims[at] ?? null;
    return JSON.stringify(was) === JSON.stringify(is) ? [] : [{ id: is.id, was, is }];
  });
  const follows = verdictOf(claims, seen, recorded.required ?? []);
  const isStopped = recorded.exit_code > EXIT.inconclusive;
  const exit_code = isStopped ? recorded.exit_code : follows.exit_code;
  const document: RunDocument = shown({ ...recorded, ...follows, claims, exit_code });
  // Gauges and CPU are in a file of their own, which older runs do not have.
  const samples = join(folder, "samples.ndjson");
  if (existsSync(samples)) for (const sample of jsonLines<Sample>(samples)) fold.see(sample);
  for (const { facts } of stages) fold.limits(facts.stage, facts.limits);
  return { document, series: fold.end(), changed };
};
