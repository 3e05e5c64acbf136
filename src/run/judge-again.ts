/**
 * Judges a recorded run once more from its files alone. Run and judgement are separate: the same history must get the
 * same verdict to the byte, and a verdict that somebody doubts can be had again without the deployment.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { SeriesFold } from "../history/fold-series.ts";
import type { LedgerLine, Line } from "../history/line.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import type { Sample } from "../history/sample.ts";
import type { Series } from "../history/series.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { inOrder, judgeStage } from "../invariants/judge-stage.ts";
import { verdictOf } from "./compose-document.ts";
import { outcomesSeen } from "./outcomes-seen.ts";
import { judgeSecrets } from "./run-claims.ts";
import type { StageRecord } from "./write-reports.ts";

/** A folder that is no run's: what was expected, what is missing. */
export class NoRunError extends Error {
  override name = "NoRunError";
}

const FILES = ["run.json", "history.ndjson", "ledger.ndjson", "stages.json"] as const;

/** A run that was killed may have left half of a last line, which is left out. */
const linesOf = <T>(text: string): T[] => {
  const end = text.lastIndexOf("\n");
  return text
    .slice(0, end < 0 ? 0 : end)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as T);
};

type JudgedAgain = {
  document: RunDocument;
  series: Series;
  /** Claims whose verdict or wording is not what the run itself wrote. */
  changed: { id: string; was: Claim | null; is: Claim }[];
};

/** Of the same lines as those of the run. Gauges and CPU are in a file of their own, which older runs do not have. */
const seriesOf = (folder: string, history: readonly Line[], stages: readonly StageRecord[]): Series => {
  const fold = new SeriesFold();
  for (const line of history) fold.see(line);
  const samples = join(folder, "samples.ndjson");
  if (existsSync(samples)) for (const sample of linesOf<Sample>(readFileSync(samples, "utf8"))) fold.see(sample);
  for (const { facts } of stages) fold.limits(facts.stage, facts.limits);
  return fold.end();
};

export const judgeAgain = (folder: string): JudgedAgain => {
  const missing = FILES.filter((name) => !existsSync(join(folder, name)));
  if (missing.length > 0) {
    throw new NoRunError(
      `${folder} is not a complete run folder; missing ${missing.join(", ")}. Name one under reports/runs`,
    );
  }
  const text = (name: (typeof FILES)[number]): string => readFileSync(join(folder, name), "utf8");
  const recorded = JSON.parse(text("run.json")) as RunDocument;
  const history = linesOf<Line>(text("history.ndjson"));
  const ledger = linesOf<LedgerLine & { stage: string }>(text("ledger.ndjson"));
  const stages = JSON.parse(text("stages.json")) as StageRecord[];

  const again = new Map<string, Claim>();
  for (const { facts: bare, hasLedger } of stages) {
    const { stage } = bare;
    if (bare.totals_only === true) continue;
    const charges = ledger.filter((line) => line.stage === stage).map(({ stage: _, ...line }) => line);
    const facts: StageFacts = hasLedger ? { ...bare, ledger: charges } : bare;
    const ids = new Set(recorded.claims.filter((claim) => claim.stage === stage).map(({ id }) => id));
    const judges = INVARIANTS.filter(({ id }) => ids.has(`${id}/${stage}`));
    const replay = recorded.claims.find((claim) => claim.stage === stage)?.replay ?? "";
    const lines = inOrder(history.filter((line) => line.stage === stage));
    for (const claim of judgeStage(judges, facts, lines, replay)) again.set(claim.id, claim);
  }
  const secrets = recorded.claims.find(({ id }) => id === "secrets-stay-secret/run");
  if (secrets !== undefined) for (const claim of judgeSecrets(folder, secrets.replay)) again.set(claim.id, claim);

  // What is about the run and not about its lines (that a stage was reached, say) stays as it was written.
  const claims = recorded.claims.map((claim) => again.get(claim.id) ?? claim);
  const changed = claims.flatMap((is, at) => {
    const was = recorded.claims[at] ?? null;
    return JSON.stringify(was) === JSON.stringify(is) ? [] : [{ id: is.id, was, is }];
  });
  const totals = new Set(stages.flatMap(({ facts }) => (facts.totals_only === true ? [facts.stage] : [])));
  const counted = recorded.stages.filter(({ name }) => totals.has(name));
  const follows = verdictOf(claims, outcomesSeen(history, counted), recorded.required ?? []);
  const stopped = recorded.exit_code > 4;
  return {
    document: { ...recorded, ...follows, claims, exit_code: stopped ? recorded.exit_code : follows.exit_code },
    series: seriesOf(folder, history, stages),
    changed,
  };
};
