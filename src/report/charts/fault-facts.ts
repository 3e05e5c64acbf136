/** An experiment at one look: its times, what the fault met, and whether the sums came out. */
import type { RunDocument } from "../../history/run-document.ts";
import { FAULT_STATE_WORDS } from "../../history/states-reached.ts";
import { count } from "../figures.ts";
import { html, type Markup } from "../page/markup.ts";
import { milliseconds } from "./chart-figures.ts";
import type { Course } from "./course.ts";
import { courseOfFault, type FaultCourse } from "./fault-course.ts";

/** `null` where the stage had no fault. */
export const faultFacts = (course: Course, run: RunDocument): Markup | null => {
  const fault = courseOfFault(course);
  if (fault === null) return null;
  const { stage } = course.series;
  const facts = {
    "to detect":
      fault.detectedAfterS === null ? "callers saw nothing" : `within ${milliseconds(fault.detectedAfterS * 1000)}`,
    "to heal": fault.healedAfterS === null ? "not confirmed" : milliseconds(fault.healedAfterS * 1000),
    "to recover": recoveryText(fault),
    "the fault met": metText(run, stage),
    sums: sumsText(run, stage),
  };
  const rows = Object.entries(facts).filter(([, text]) => text !== null);
  return html`<dl class="facts">${rows.map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`)}</dl>`;
};

const recoveryText = ({ calls, binS, recoveredAfterS }: FaultCourse): string => {
  if (recoveredAfterS === null) return "not known";
  if (calls === 0) return "callers saw nothing";
  return recoveredAfterS <= binS ? "at once" : `within ${milliseconds(recoveredAfterS * 1000)} of the heal`;
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
