/** What `doctor --calibrate` found, as findings: a check that holds, or what has no verdict on this machine for want of it. */
import type { Calibration } from "../../history/run-document.ts";
import { type Finding, finding, type Section } from "./finding.ts";

const TODO = "stop what else runs here; until it holds, claims about time are inconclusive on this machine";

const rounded = (value: number): string => String(Number(value.toPrecision(3)));

const textOf = ({ truth, measured, unit }: Calibration): string => {
  const of = unit === "ratio" || unit === "1" ? "" : unit === "1/s" ? "/s" : ` ${unit}`;
  return `${rounded(measured)}${of} measured, ${rounded(truth)}${of} true`;
};

const TODO_CEILING = "divide a schedule above this rate with --segments, or stop what else runs here";

/** `lacking`: drivers that could not be tried, with the reason; `ceilings`: rates that were tried, and what came of them. */
export const calibrationSection = (
  checks: readonly Calibration[],
  lacking: readonly string[],
  ceilings: readonly Calibration[] = [],
): Section => ({
  title: "What it measures of known truths",
  findings: [
    ...checks.map((check): Finding => {
      const { name, verdict } = check;
      return verdict === "pass" ? finding("ok", name, textOf(check)) : finding("warn", name, textOf(check), TODO);
    }),
    ...ceilings.map(({ name, truth, measured, verdict }): Finding => {
      const text = `${rounded(measured)}/s of ${rounded(truth)}/s`;
      return verdict === "pass" ? finding("ok", name, text) : finding("warn", name, text, TODO_CEILING);
    }),
    ...lacking.map((reason) => finding("skipped", "k6", reason)),
  ],
});
