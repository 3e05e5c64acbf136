/** What the calibration says, in a sentence: what held, what did not, and what follows from that. */
import type { Calibration } from "../history/run-document.ts";
import { counted, figure, withUnit } from "./figures.ts";

const NAMED_MAX = 3;

/** What was found beside what is true, with the unit. */
const checkText = ({ name, truth, measured, unit }: Calibration): string => {
  const of = unit === "1" ? "" : unit;
  return `${name} ${withUnit(figure(measured), of)}, true ${withUnit(figure(truth), of)}`;
};

export const calibrationText = (checks: readonly Calibration[]): string => {
  const open = checks.filter(({ verdict }) => verdict !== "pass");
  const whole = counted(checks.length, "check");
  if (open.length === 0) return `Calibration: ${whole}, all hold.`;
  const named = open.slice(0, NAMED_MAX).map(checkText).join("; ");
  const more = open.length > NAMED_MAX ? `; and ${open.length - NAMED_MAX} more` : "";
  return `Calibration: ${open.length} of ${whole} did not hold (${named}${more}); claims about time that this could change stay open.`;
};
