/** Checks options before a command does anything: each value, and which options go together. */

import { availableParallelism } from "node:os";
import { Command, InvalidArgumentError, Option } from "commander";
import { AddressError, canonicalHost } from "../contract/address.ts";
import type { LoadStage } from "../stages/stage-plan.ts";
import { UsageError } from "../supervision/user-file.ts";

/** A timer of Node that is longer than 2^31 ms, some 24.8 days, fires at once. */
const SECONDS_MOST = 24 * 24 * 3_600;

export const seconds = (text: string): number => {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  const value = Number(match?.[1]) * ({ ms: 0.001, s: 1, m: 60, h: 3600 }[match?.[2] ?? "s"] ?? 1);
  if (value > 0 && value <= SECONDS_MOST) return value;
  throw new InvalidArgumentError(`expected a length such as 15s or 2m, of 576h at most, got "${text}".`);
};

export const whole =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`expected a whole number from ${least} to ${most}, got "${text}".`);
  };

/** Parses a number above 0 (or 0 if allowed) and up to `most`. */
export const upTo =
  (most: number, mayBeZero = false) =>
  (text: string): number => {
    const value = Number(text);
    if ((value > 0 || (mayBeZero && text === "0")) && value <= most) return value;
    const isTooHigh = Number.isFinite(value) && value > most;
    const expected = isTooHigh ? `at most ${most}` : "a number above 0";
    throw new InvalidArgumentError(`expected ${expected}, got "${text}".`);
  };

/** For rates in calls per second and times in milliseconds: more could not be planned, as a plan has a moment for each call. */
export const positive = upTo(1_000_000);

/** Makes a command refuse an option of one value that is given twice, of which commander would silently take the last. */
export const refuseRepeats = (command: Command): void => {
  for (const option of command.options.filter((one) => !one.isBoolean())) {
    let before: string | null = null;
    // Commander's own listener comes first, so the option has its value here.
    command.on(`option:${option.name()}`, (text: string) => {
      const isList = Array.isArray(command.getOptionValue(option.attributeName()));
      if (before !== null && !isList) {
        const said = `error: option '${option.flags}' argument '${text}' is invalid.`;
        command.error(`${said} It was given already, as ${before}; give it once.`);
      }
      before = text;
    });
  }
};

/** Collects the values of an option that may be given several times. */
export const each = (value: string, before: readonly string[] = []): string[] => [...before, value];

const ownedHost = (text: string, before: string[] = []): string[] => {
  try {
    return [...before, canonicalHost(text)];
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    throw new InvalidArgumentError(`${error.message}, such as maps.example.`);
  }
};

/** Hosts are stored in the form that the safety guard compares. */
export const I_OWN: OptionRow = ["--i-own <host...>", "hosts that are yours, each that is not loopback", ownedHost];

/** An option: flags, description, allowed values or the parser of its text, default. */
export type OptionRow = readonly [
  flags: string,
  about: string,
  value?: readonly string[] | ((text: string, before: never) => unknown),
  or?: unknown,
];

export const withOptions = (command: Command, rows: readonly OptionRow[]): Command => {
  for (const [flags, about, value, or] of rows) {
    const option = new Option(flags, about).default(or);
    if (typeof value === "function") option.argParser(value as (text: string, before: unknown) => unknown);
    else if (value !== undefined) option.choices(value);
    command.addOption(option);
  }
  return command;
};

/**
 * `[options, not with, sentence]`: two blank-separated lists; no option of the first may be given with one of the
 * second. `!option` means absent, `a|b` either one, `option=value` this value. `$given` in the sentence stands for the
 * given options of the first list.
 */
export type Exclusion = readonly [options: string, notWith: string, sentence: string];

/** Reports whether the command line, the environment or the configuration file states an option. */
export const isStated = (command: Command, option: Option): boolean =>
  !["default", undefined].includes(command.getOptionValueSource(option.attributeName()));

const isGiven = (command: Command, what: string): boolean => {
  if (what.startsWith("!")) return !isGiven(command, what.slice(1));
  if (what.includes("|")) return what.split("|").some((one) => isGiven(command, one));
  const [name, wanted] = what.split("=");
  const option = command.options.find(({ long }) => long === `--${name}`);
  if (option === undefined) throw new Error(`${command.name()} has no option --${name}`);
  const value: unknown = command.getOptionValue(option.attributeName());
  if (wanted !== undefined) return value === wanted;
  return value !== undefined && isStated(command, option) && !(typeof value === "string" && value.trim() === "");
};

/** What the help of a command says, and what it takes. An operand that need not be given may have a default. */
export type CommandRows = {
  about: string;
  operands?: readonly (readonly [name: string, about: string, or?: string])[];
  options?: readonly OptionRow[];
  exclusions?: readonly Exclusion[];
  help?: string;
};

export const commandOf = (name: string, rows: CommandRows): Command => {
  const { about, operands = [], options = [], exclusions = [], help = "" } = rows;
  const command = withOptions(new Command(name).description(about), options).addHelpText("after", help);
  for (const operand of operands) command.argument(...operand);
  return command.hook("preAction", () => {
    for (const [options, notWith, sentence] of exclusions) {
      const given = options.split(" ").filter((name) => isGiven(command, name));
      if (given.length === 0 || !notWith.split(" ").some((name) => isGiven(command, name))) continue;
      throw new UsageError(sentence.replace("$given", given.map((name) => `--${name.split("=")[0]}`).join(", ")));
    }
  });
};

// biome-ignore format: a row is a line
export const EMBEDDED_ALONE: Exclusion = ["limiter=redis", "target", "--limiter redis applies to the embedded deployment alone: omit it or --target"];

/** `--precise` needs the open-loop driver, and a spare core for each of its processes. */
export const checkPrecise = (driver: LoadStage["driver"], segments = 1, cores = availableParallelism()): void => {
  if (driver !== "open-loop") {
    throw new UsageError(`only the open-loop driver has --precise, and this is ${driver}; expected --driver open-loop`);
  }
  if (segments < cores) return;
  throw new UsageError(
    `--precise takes a whole core for each process: expected ${segments + 1} cores or more, got ${cores}; leave it out`,
  );
};
