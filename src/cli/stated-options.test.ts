import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { commandsFor } from "./main.ts";
import { takeStated } from "./stated-options.ts";

let folder: string;
const here = process.cwd();
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-stated-"));
  process.chdir(folder);
});
afterEach(() => {
  process.chdir(here);
  rmSync(folder, { recursive: true });
});

const writeConfig = (text: string) => writeFileSync("floodgate.config.json", text);

/** The options of a command that was called with these words. */
const optionsOf = async (name: string, words: readonly string[], env: Record<string, string> = {}) => {
  const [command] = (await commandsFor(name)) as [Command];
  command.action(() => undefined).exitOverride();
  const root = new Command("floodgate").addCommand(command);
  root.hook("preAction", (_, one) => takeStated(one, commandsFor, env));
  await root.parseAsync([name, ...words], { from: "user" });
  return command.opts();
};

test("the command line wins over the environment, and that over the file", async () => {
  writeConfig('{ "target": "file.json", "seed": 3, "rate": 7 }');
  const env = { FLOODGATE_TARGET: "env.json", FLOODGATE_SEED: "2" };
  expect(await optionsOf("verify", ["--target", "typed.json"], env)).toMatchObject({
    ...{ target: "typed.json", seed: 2, rate: 7 },
  });
});

test("lists and switches are read from both", async () => {
  writeConfig('{ "only": ["a", "b"], "require-all": true, "json": false }');
  const env = { FLOODGATE_I_OWN: "a.example b.example", FLOODGATE_QUIET: "1", FLOODGATE_DRY_RUN: "0" };
  const options = await optionsOf("verify", [], env);
  expect(options).toMatchObject({ only: ["a", "b"], requireAll: true, iOwn: ["a.example", "b.example"], quiet: true });
  expect(options).not.toHaveProperty("json");
  expect(options).not.toHaveProperty("dryRun");
});

test("margins of the file are those of the gate, in percent", async () => {
  writeConfig('{ "margins": { "goodput": 10, "latency_ms_p99": 30 } }');
  expect(await optionsOf("gate", [])).toMatchObject({ margin: ["goodput=10", "latency_ms_p99=30"] });
  expect(await optionsOf("verify", []), "a member for another command").toEqual({});
});

describe("is refused by its place:", () => {
  test.each([
    ["a value that is none", "{}", { FLOODGATE_SEED: "soon" }, /^FLOODGATE_SEED: .*"soon"/],
    ["an empty target", "{}", { FLOODGATE_TARGET: "" }, /^FLOODGATE_TARGET is set and empty/],
    ["a member of another type", '{ "quiet": "yes" }', {}, /^quiet in floodgate\.config\.json: .*"yes"/],
    ["a member that no command has", '{ "targt": "x" }', {}, /"targt"; did you mean target/],
    ["a file that is no object", "[]", {}, /^floodgate\.config\.json: /],
    ["a file that is cut", "{", {}, /^floodgate\.config\.json: /],
  ])("%s", async (_what, text, env: Record<string, string>, said) => {
    writeConfig(text);
    await expect(optionsOf("verify", [], env)).rejects.toThrow(said);
  });

  test("a margin of a measurement that is not compared", async () => {
    writeConfig('{ "margins": { "godput": 10 } }');
    await expect(optionsOf("gate", [])).rejects.toThrow(/margins.*"godput"; did you mean goodput/);
  });
});

test("a command without a target file takes nothing from the environment", async () => {
  expect(await optionsOf("serve", [], { FLOODGATE_SLOTS: "3" })).not.toHaveProperty("slots", 3);
});
