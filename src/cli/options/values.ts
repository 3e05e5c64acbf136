/** Parsers of option values. Each refuses a wrong value with a sentence that says what was expected. */
import { InvalidArgumentError, Option } from "commander";
import { AddressError, canonicalHost } from "../../contract/address.ts";

/** `15s`, `2m`, `500ms`, or seconds alone. */
export const seconds = (text: string): number => {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  const value = Number(match?.[1]) * ({ ms: 0.001, s: 1, m: 60, h: 3600 }[match?.[2] ?? "s"] ?? 1);
  if (value > 0) return value;
  throw new InvalidArgumentError(`expected a length such as 15s or 2m, got "${text}".`);
};

export const whole =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}, got "${text}".`);
  };

export const positive = (text: string): number => {
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError(`expected a number above 0, got "${text}".`);
};

export const notNegative = (text: string): number => (text === "0" ? 0 : positive(text));

export const upTo =
  (parse: (text: string) => number, most: number) =>
  (text: string): number => {
    const value = parse(text);
    if (value <= most) return value;
    throw new InvalidArgumentError(`expected at most ${most}, got "${text}".`);
  };

/** For an option that names a deployment: commander itself would take the last of two values without a word. */
export const once = (value: string, before: string | undefined): string => {
  if (before === undefined) return value;
  throw new InvalidArgumentError(`it was given already, as ${before}; give it once.`);
};

const ownedHost = (text: string, before: string[] = []): string[] => {
  try {
    return [...before, canonicalHost(text)];
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    throw new InvalidArgumentError(`${error.message}, such as maps.example.`);
  }
};

/** `--i-own HOST…`, each host in the form that the safety guard compares; the arguments of commander's `option`. */
export const I_OWN = ["--i-own <host...>", "hosts that are yours, each that is not loopback", ownedHost] as const;

/** An option that takes one of some words. */
export const choice = (flags: string, about: string, words: readonly string[], or?: string): Option =>
  new Option(flags, about).choices(words).default(or);
