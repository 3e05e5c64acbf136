/** Lengths of time on the command line. */
import { InvalidArgumentError } from "commander";

/** `15s`, `2m`, `500ms`, or seconds alone. */
export const seconds = (text: string): number => {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  const value = Number(match?.[1]) * ({ ms: 0.001, s: 1, m: 60, h: 3600 }[match?.[2] ?? "s"] ?? 1);
  if (match === null || value <= 0)
    throw new InvalidArgumentError(`expected a length such as 15s or 2m, got "${text}".`);
  return value;
};
