/** An option that names a deployment: of two values Commander would take the last, and say nothing. */
import { InvalidArgumentError } from "commander";

export const once = (value: string, before: string | undefined): string => {
  if (before !== undefined) throw new InvalidArgumentError(`it was given already, as ${before}; give it once.`);
  return value;
};
