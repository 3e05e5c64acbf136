/** Sorts outcomes into the six kinds that a reader has to distinguish. Only the two overload refusals are shedding. */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import { classOf } from "../history/line.ts";
import { HTTP_VERSIONS, type StageSummary } from "../history/run-document.ts";

export type OutcomeKind = "answered" | "error" | "shed" | "refused" | "edge" | "indeterminate";

/** In the order of the charts, with the words of the legend. */
export const OUTCOME_KINDS: Readonly<Record<OutcomeKind, { label: string; meaning: string }>> = {
  answered: { label: "answered", meaning: "a success" },
  error: { label: "answered, with an error inside", meaning: "status 200, and an error in the body or the stream" },
  shed: { label: "shed", meaning: "refused because of load" },
  refused: { label: "refused", meaning: "a definite no for another reason" },
  edge: { label: "edge", meaning: "an answer that the API's contract does not know, as of a load balancer" },
  indeterminate: {
    label: "indeterminate",
    meaning: "no answer: it may have happened or not; also a stream without one event (200 empty)",
  },
};

const KINDS = Object.keys(OUTCOME_KINDS) as OutcomeKind[];

export const kindOf = (outcome: string): OutcomeKind => {
  if (outcome.startsWith("edge")) return "edge";
  if (SHED_OUTCOMES.has(outcome)) return "shed";
  const kind = classOf(outcome);
  return kind === "answered" && outcome.includes("error") ? "error" : kind;
};

export type OutcomeRow = { key: string; outcome: string; kind: OutcomeKind; n: number };

/** A to Z, then AA, AB, …: the letter that joins a segment of a chart to its row, besides the colour. */
const letter = (i: number): string =>
  (i < 26 ? "" : letter(Math.floor(i / 26) - 1)) + String.fromCharCode(65 + (i % 26));

/** The outcomes of a stage by kind, within a kind the most frequent first. */
export const outcomeRows = (stage: StageSummary): OutcomeRow[] =>
  Object.entries(stage.by_outcome)
    .map(([outcome, n]) => ({ outcome, n, kind: kindOf(outcome) }))
    .sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || b.n - a.n || (a.outcome < b.outcome ? -1 : 1))
    .map((row, i) => ({ key: letter(i), ...row }));

/** The driver of a stage, and the version of HTTP seen on the wire: `k6, HTTP/2`. */
export const driverText = ({ driver, protocols = [] }: Pick<StageSummary, "driver" | "protocols">): string =>
  [driver, ...protocols.map((protocol) => HTTP_VERSIONS[protocol])].join(", ");
