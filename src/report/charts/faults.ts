/**
 * What a fault did to the callers, read from the same bins as the chart: from when on calls ended otherwise than before it,
 * how long it took to heal, and how long after that calls still ended otherwise. No finer than a bin.
 */
import { outcomeOf } from "../../contract/refusals.ts";
import type { RunDocument } from "../../history/run-document.ts";
import { sumOf } from "../../history/series.ts";
import { FAULT_STATE_WORDS } from "../../history/states-reached.ts";
import { count, counted, milliseconds } from "../figures.ts";
import { facts, type Markup } from "../page/markup.ts";
import type { ChartSeries } from "./chart-series.ts";

type FaultEffect = {
  experiment: string;
  /**
   * From when the fault was asked for, since it may act from then on, to the end of the bin of the first call that ended
   * otherwise; `null` where none did.
   */
  detectedAfterS: number | null;
  /** From the order to heal to its confirmation; `null` where it was not confirmed. */
  healedAfterS: number | null;
  /** From the confirmed heal to the end of the last bin with such a call; `null` where it is not known. */
  recoveredAfterS: number | null;
  /** Such calls, and the outcomes that they had. */
  calls: number;
  outcomes: string[];
  /** How exact the times are, in seconds. */
  binS: number;
  sentence: string;
};

/** A call due so long before a fault, in seconds, may still wait for its head when the fault comes. */
const IN_FLIGHT_S = 0.5;

/** What only a platform says whose limiter and key service both answer, such as that an allowance is used up meanwhile. */
const THROUGH = (["rate_limited", "map_load_quota_exceeded", "map_load_hard_stop"] as const).map(outcomeOf);

const span = (s: number): string => milliseconds(s * 1000);

/** Of the first fault of a stage; `null` where there was none. */
export const faultEffect = ({ fine: series }: ChartSeries): FaultEffect | null => {
  const binS = series.bin_ms / 1000;
  const of = (name: string) => series.events.find((event) => event.name === name && event.fault !== undefined);
  const [asked, injected, healing, healed] = ["injecting", "injected", "healing", "healed"].map(of);
  if (injected?.fault === undefined) return null;
  const atS = (event: { at_ms: number }): number => (event.at_ms - series.from_ms) / 1000;
  const askedS = atS(asked ?? injected);
  const firstBin = Math.max(0, Math.floor(askedS / binS));
  // What callers saw before anything was touched is usual. A call is in the bin in which it was due, so those due just before
  // the fault may have met it.
  const steadyBins = Math.max(Math.ceil(firstBin / 2), firstBin - Math.ceil(IN_FLIGHT_S / binS));
  const unusual = Object.entries(series.by_outcome).filter(
    ([outcome, counts]) => sumOf(counts.slice(0, steadyBins)) === 0 && !THROUGH.includes(outcome) && sumOf(counts) > 0,
  );
  const others = series.offered.map((_, i) => sumOf(unusual.map(([, counts]) => counts[i] ?? 0)));
  const met = others.findIndex((n, i) => n > 0 && i >= firstBin);
  const first = met === -1 ? others.findIndex((n) => n > 0) : met;
  const last = others.findLastIndex((n) => n > 0);
  const calls = sumOf(others);
  const found = {
    experiment: injected.fault.experiment,
    calls,
    binS,
    outcomes: unusual.map(([outcome]) => outcome),
    detectedAfterS: calls === 0 ? null : Math.max(0, (first + 1) * binS - askedS),
    healedAfterS: healing === undefined || healed === undefined ? null : (healed.at_ms - healing.at_ms) / 1000,
    recoveredAfterS: healed === undefined ? null : Math.max(0, calls === 0 ? 0 : (last + 1) * binS - atS(healed)),
  };
  const isOpen = (others[series.offered.findLastIndex((n) => n > 0)] ?? 0) > 0;
  return { ...found, sentence: sentenceOf(found, injected.fault.took_effect === true, isOpen) };
};

/** `isOpen`: the last calls of the stage still ended otherwise. */
const sentenceOf = (found: Omit<FaultEffect, "sentence">, tookEffect: boolean, isOpen: boolean): string => {
  const { experiment, calls, outcomes, detectedAfterS, healedAfterS, recoveredAfterS, binS } = found;
  if (!tookEffect) return `${experiment} took no effect: what was seen under it proves nothing.`;
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

/** An experiment at one look: its times, what the fault met, whether the sums came out; `null` without a fault. */
export const faultFacts = (stage: ChartSeries, run: RunDocument): Markup | null => {
  const fault = faultEffect(stage);
  if (fault === null) return null;
  const name = stage.series.stage;
  const { detectedAfterS: detectedS, healedAfterS: healedS } = fault;
  return facts("", [
    ["to detect", detectedS === null ? "callers saw nothing" : `within ${span(detectedS)}`],
    ["to heal", healedS === null ? "not confirmed" : span(healedS)],
    ["to recover", recoveryText(fault)],
    ["the fault met", metText(run, name)],
    ["sums", sumsText(run, name)],
  ]);
};

const recoveryText = ({ calls, binS, recoveredAfterS }: FaultEffect): string => {
  if (recoveredAfterS === null) return "not known";
  if (calls === 0) return "callers saw nothing";
  return recoveredAfterS <= binS ? "at once" : `within ${span(recoveredAfterS)} of the heal`;
};

const metText = ({ stages }: RunDocument, stage: string): string | null => {
  const states = stages.find(({ name }) => name === stage)?.states;
  if (states === undefined) return null;
  const met = states
    .filter(({ must, times }) => must || (times ?? 0) > 0)
    .map(({ state, must, times }) => {
      const n = times === null ? "not shown" : times === 0 ? "never" : count(times);
      return `${FAULT_STATE_WORDS[state]}: ${n}${must ? " (has to be met)" : ""}`;
    });
  return met.length === 0 ? "nothing but ordinary calls" : met.join("; ");
};

/** Calls by what came of them, and what the sums of callers, counts and ledger were found to be. */
const sumsText = ({ stages, claims }: RunDocument, stage: string): string | null => {
  const calls = stages.find(({ name }) => name === stage)?.calls;
  if (calls === undefined) return null;
  const { sent, answered, refused, indeterminate } = calls;
  const sums = `${count(sent)} calls = ${count(answered)} answered + ${count(refused)} refused + ${count(indeterminate)} indeterminate`;
  const found = ["counts-agree", "charged-once"].flatMap((rule) =>
    claims
      .filter(({ id }) => id === `${rule}/${stage}`)
      .map(({ verdict, reason }) => (verdict === "pass" ? reason : `${rule}: ${verdict}, ${reason}`)),
  );
  return [sums, ...found].join("; ");
};
