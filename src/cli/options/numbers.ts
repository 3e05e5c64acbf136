/** Numbers on the command line: what is not one gets a sentence that says what was expected. */
import { InvalidArgumentError } from "commander";

export const whole =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most) {
      throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}, got "${text}".`);
    }
    return value;
  };

export const positive = (text: string): number => {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value <= 0) {
    throw new InvalidArgumentError(`expected a number above 0, got "${text}".`);
  }
  return value;
};
