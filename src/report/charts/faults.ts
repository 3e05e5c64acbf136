/** What a fault did to callers, read from the bins of the chart: when they saw it, when it was healed and over. */
import { outcomeOf } from "../../contract/refusals.ts";
import { FAULT_STATE_WORDS, type RunDocument } from "../../history/run-document.ts";
import { sumOf } from "../../history/statistics/statistics.ts";
import { count, counted, milliseconds } from "../figures.ts";
import { facts, type Markup } from "../page/markup.ts";
import type { ChartSeries } from "./chart-series.ts";

/** A call that was due this many seconds before a fault may still be unanswered when the fault comes. */
const IN_FLIGHT_S = 0.5;

/** Outcomes that show that limiter and key service answer, such as a used-up allowance: a fault does not cause them. */
const THROUGH = (["rate_limited", "map_load_quota_exceeded", "map_load_hard_stop"] as const).map(outcomeOf);

const span = (s: number): string => milliseconds(s * 1000);

/** The effect of the first fault of a stage; `null` if there was none. */
export const faultEffect = ({ fine: series }: ChartSeries) => {
  const binS = series.bin_ms / 1000;
  const of = (name: string) => series.events.find((event) => event.name === name && event.fault !== undefined);
  const [asked, injected, healing, healed] = ["injecting", "injected", "healing", "healed"].map(of);
  if (injected?.fault === undefined) return null;
  const atS = (event: { at_ms: number }): number => (event.at_ms - series.from_ms) / 1000;
  const askedS = atS(asked ?? injected);
  const firstBin = Math.max(0, Math.floor(askedS / binS));
  // Outcomes that came before the fault are usual. A call counts when it was due, so calls due just before the fault
  // may have met it.
  const steadyBins = Math.max(Math.ceil(firstBin / 2), firstBin - Math.ceil(IN_FLIGHT_S / binS));
  const unusual = Object.entries(series.by_outcome).filter(
    ([outcome, counts]) => sumOf(counts.slice(0, steadyBins)) === 0 && !THROUGH.includes(outcome) && sumOf(counts) > 0,
  );
  const others = series.offered.map((_, i) => sumOf(unusual.map(([, counts]) => counts[i] ?? 0)));
  const met = others.findIndex((n, i) => n > 0 && i >= firstBin);
  const first = met === -1 ? others.findIndex((n) => n > 0) : met;
  const calls = sumOf(others);
  const lastS = (others.findLastIndex((n) => n > 0) + 1) * binS;
  return {
    experiment: injected.fault.experiment,
    tookEffect: injected.fault.took_effect === true,
    calls,
    outcomes: unusual.map(([outcome]) => outcome),
    // To the end of the bin of the first call that ended otherwise, or from the heal to the last; no finer than `binS`.
    detectedAfterS: calls === 0 ? null : Math.max(0, (first + 1) * binS - askedS),
    healedAfterS: healing === undefined || healed === undefined ? null : (healed.at_ms - healing.at_ms) / 1000,
    recoveredAfterS: healed === undefined ? null : Math.max(0, calls === 0 ? 0 : lastS - atS(healed)),
    binS,
    /** The last calls of the stage still ended otherwise. */
    isOpen: (others[series.offered.findLastIndex((n) => n > 0)] ?? 0) > 0,
  };
};

type FaultEffect = NonNullable<ReturnType<typeof faultEffect>>;

export const faultSentence = (found: FaultEffect): string => {
  const { calls, outcomes, detectedAfterS, healedAfterS, recoveredAfterS, binS, isOpen } = found;
  if (!found.tookEffect) return `${found.experiment} took no effect: what was seen under it proves nothing.`;
  const heal = healedAfterS === null ? "It was not confirmed healed" : `It was healed in ${span(healedAfterS)}`;
  if (detectedAfterS === null) return `Callers saw nothing of it: every call ended as before. ${heal}.`;
  const named = outcomes.map((outcome) => (outcome === "indeterminate" ? "without an answer" : outcome)).join(" or ");
  const first = `${calls === 1 ? "it came" : "the first"} within ${span(detectedAfterS)} of the fault`;
  const seen = `${counted(calls, "call")} ended ${named}, ${first}. ${heal}`;
  if (healedAfterS === null || recoveredAfterS === null) return `${seen}.`;
  if (isOpen) return `${seen}, and the stage ended before calls ended as before.`;
  const when = recoveredAfterS <= binS ? "at once" : `within ${span(recoveredAfterS)} after that`;
  return `${seen}; calls ended as before ${when}.`;
};

/** The facts of an experiment: its times, what the fault met, whether the sums agree; `null` without a fault. */
export const faultFacts = (stage: ChartSeries, { stages, claims }: RunDocument): Markup | null => {
  const fault = faultEffect(stage);
  if (fault === null) return null;
  const name = stage.series.stage;
  const { detectedAfterS, healedAfterS, recoveredAfterS, binS } = fault;
  const nothing = "callers saw nothing";
  const recovery = (): string => {
    if (recoveredAfterS === null) return "not known";
    if (detectedAfterS === null) return nothing;
    return recoveredAfterS <= binS ? "at once" : `within ${span(recoveredAfterS)} of the heal`;
  };
  const { states, calls } = stages.find((one) => one.name === name) ?? {};
  const met = states
    ?.filter(({ must, times }) => must || (times ?? 0) > 0)
    .map(({ state, must, times }) => {
      const n = times === null ? "not shown" : times === 0 ? "never" : count(times);
      return `${FAULT_STATE_WORDS[state]}: ${n}${must ? " (has to be met)" : ""}`;
    });
  // The claims about the sums of callers, counts and ledger.
  const found = ["counts-agree", "charged-once"].flatMap((rule) =>
    claims
      .filter(({ id }) => id === `${rule}/${name}`)
      .map(({ verdict, reason }) => (verdict === "pass" ? reason : `${rule}: ${verdict}, ${reason}`)),
  );
  const { sent = 0, answered = 0, refused = 0, indeterminate = 0 } = calls ?? {};
  const sum = `${count(sent)} calls = ${count(answered)} answered + ${count(refused)} refused + ${count(indeterminate)} indeterminate`;
  return facts("", [
    ["to detect", detectedAfterS === null ? nothing : `within ${span(detectedAfterS)}`],
    ["to heal", healedAfterS === null ? "not confirmed" : span(healedAfterS)],
    ["to recover", recovery()],
    ["the fault met", met === undefined ? null : met.join("; ") || "nothing but ordinary calls"],
    ["sums", calls === undefined ? null : [sum, ...found].join("; ")],
  ]);
};
