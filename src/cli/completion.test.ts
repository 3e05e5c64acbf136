import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { ENTRY } from "./command.fixture.ts";

const script = (shell: string): string =>
  spawnSync(process.execPath, [ENTRY, "completion", shell], { encoding: "utf8" }).stdout;

const FOR_BASH = script("bash");

/** What bash would offer behind these words. */
const offered = (source: string, words: readonly string[], by = "_floodgate"): string[] => {
  const typed = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}`;
  const { stdout } = spawnSync("bash", ["-c", `${source}\n${typed}; ${by}; echo "\${COMPREPLY[@]}"`], {
    encoding: "utf8",
  });
  return stdout.trim().split(" ");
};

test("bash completes commands, the names that a command takes, and its options", () => {
  expect(offered(FOR_BASH, ["floodgate", "ch"])).toEqual(["chaos"]);
  expect(offered(FOR_BASH, ["npx", "floodgate", "load", "chat-past"])).toEqual(["chat-past-capacity"]);
  expect(offered(FOR_BASH, ["floodgate", "run", "--sho"])).toEqual(["--short"]);
  expect(offered(FOR_BASH, ["floodgate", "chaos", "keys-ref"])).toEqual(["keys-refused"]);
});

test.each([
  ["demo", "--page"],
  ["gate", "--before"],
  ["gate", "--save-baseline"],
  ["serve", "--write-target"],
  ["serve", "--tls-cert"],
  ["load", "--profile"],
  ["run", "--target"],
])("bash completes files behind %s %s", (command, option) => {
  expect(offered(FOR_BASH, ["floodgate", command, option, "src/cli/completion.te"])).toEqual([
    "src/cli/completion.test.ts",
  ]);
});

test("bash completes behind npx as well, and leaves other programs of npx alone", () => {
  expect(FOR_BASH).toContain("complete -o default -F _floodgate_by_npx npx");
  expect(offered(FOR_BASH, ["npx", "floodgate", "ch"], "_floodgate_by_npx")).toEqual(["chaos"]);
  expect(offered(FOR_BASH, ["npx", "vitest", "ch"], "_floodgate_by_npx")).toEqual([""]);
});

test("zsh gets the same function, fish its own lines", () => {
  expect(script("zsh")).toContain("bashcompinit");
  expect(script("fish")).toContain("__fish_seen_subcommand_from load' -a 'chat-past-capacity'");
});
