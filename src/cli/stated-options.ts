/** Options that the environment or `floodgate.config.json` states, taken where the command line does not have them. */
import { existsSync } from "node:fs";
import type { Command, Option } from "commander";
import { noSuch } from "../contract/nearest.ts";
import { readUserJson, UsageError, UserFileError } from "../supervision/user-file.ts";
import { isStated } from "./options.ts";
import { isOn } from "./printing.ts";

const CONFIG = "floodgate.config.json";

/** A command with this option looks at a deployment, and only such commands take stated options. */
const TARGET = "--target <file>";

/** `--out <file>` names one file to write, and not the folder of a run. */
const NOT_STATED: ReadonlySet<string> = new Set(["--out <file>", "-h, --help"]);

const isStatable = ({ flags, hidden }: Option): boolean => !hidden && !NOT_STATED.has(flags);

const variableOf = (option: Option): string => `FLOODGATE_${option.name().replaceAll("-", "_").toUpperCase()}`;

/** The file holds several margins as an object: `{ "margins": { "goodput": 10 } }`. */
const memberOf = (option: Option): string => (option.name() === "margin" ? "margins" : option.name());

type Stated = { from: string; source: "env" | "config"; texts: string[] };

const fromVariable = (option: Option, env: NodeJS.ProcessEnv): Stated | null => {
  const from = variableOf(option);
  const text = env[from];
  if (text === undefined) return null;
  const stated = (texts: string[]): Stated => ({ from, source: "env", texts });
  if (option.isBoolean()) return isOn(text) ? stated([]) : null;
  if (option.variadic) return stated(text.split(/\s+/).filter((word) => word !== ""));
  if (text.trim() !== "") return stated([text]);
  throw new UsageError(`${from} is set and empty; expected a value, or no such variable`);
};

const fromFile = (option: Option, members: Readonly<Record<string, unknown>>): Stated | null => {
  const name = memberOf(option);
  const value = Object.hasOwn(members, name) ? members[name] : null;
  const from = `${name} in ${CONFIG}`;
  const wrong = (expected: string): UsageError =>
    new UsageError(`${from}: expected ${expected}, got ${JSON.stringify(value)}`);
  if (value === null) return null;
  const stated = (texts: string[]): Stated => ({ from, source: "config", texts });
  if (option.isBoolean()) {
    if (typeof value !== "boolean") throw wrong("true or false");
    return value ? stated([]) : null;
  }
  const isOne = (one: unknown): boolean => typeof one === "string" || typeof one === "number";
  const isMargins = name === "margins" && typeof value === "object" && !Array.isArray(value);
  const list = isMargins ? Object.entries(value).map((entry) => entry.join("=")) : [value].flat();
  if (list.every(isOne) && (list.length === 1 || option.variadic)) return stated(list.map(String));
  throw wrong(isMargins || option.variadic ? "texts or numbers" : "a text or a number");
};

const parsed = (option: Option, { from, texts }: Stated): unknown => {
  if (option.isBoolean()) return true;
  try {
    return texts.reduce<unknown>((before, text) => {
      if (option.parseArg !== undefined) return option.parseArg(text, before);
      return option.variadic ? [...((before as string[] | undefined) ?? []), text] : text;
    }, undefined);
  } catch (error) {
    throw new UsageError(`${from}: ${(error as Error).message}`);
  }
};

const readConfig = (): Readonly<Record<string, unknown>> => {
  if (!existsSync(CONFIG)) return {};
  try {
    const value = readUserJson(CONFIG);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    throw new UserFileError('expected an object whose members are options, such as { "target": "staging.json" }');
  } catch (error) {
    throw error instanceof UserFileError ? new UsageError(`${CONFIG}: ${error.message}`) : error;
  }
};

const flat = (commands: readonly Command[]): Command[] => commands.flatMap((one) => [one, ...flat(one.commands)]);

const looksAtTarget = (command: Command): boolean => command.options.some(({ flags }) => flags === TARGET);

/**
 * Sets what the environment (`FLOODGATE_TARGET` for `--target`) or else `floodgate.config.json` in the working folder
 * (`"target"`) states. `all` loads every command, to tell a member for another command from a misspelt one.
 */
export const takeStated = async (command: Command, all: () => Promise<Command[]>, env = process.env): Promise<void> => {
  if (!looksAtTarget(command)) return;
  const members = readConfig();
  const options = command.options.filter(isStatable);
  const own = new Set(options.map(memberOf));
  const others = Object.keys(members).filter((name) => !own.has(name) && name !== "$schema" && !name.startsWith("//"));
  if (others.length > 0) {
    const known = flat(await all())
      .filter(looksAtTarget)
      .flatMap((one) => one.options.filter(isStatable).map(memberOf));
    const unknown = others.find((name) => !known.includes(name));
    if (unknown !== undefined)
      throw new UsageError(
        `${CONFIG}: ${noSuch("option", unknown, known, "members are named as options are, without dashes")}`,
      );
  }
  for (const option of options) {
    if (isStated(command, option)) continue;
    const stated = fromVariable(option, env) ?? fromFile(option, members);
    if (stated !== null)
      command.setOptionValueWithSource(option.attributeName(), parsed(option, stated), stated.source);
  }
};
