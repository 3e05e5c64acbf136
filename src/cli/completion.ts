/** `floodgate completion SHELL`: a script that completes commands, options, and the names that a command takes. */

import { Argument, Command } from "commander";
import { EXPERIMENTS } from "../faults/experiments.ts";
import { SCENARIOS } from "../run/suites/load-stages.ts";
import { SUITES } from "../run/suites/suites.ts";
import { printResult } from "./printing/output.ts";

const NAMES: Readonly<Record<string, () => readonly string[]>> = {
  run: () => [...SUITES.keys()],
  load: () => SCENARIOS.map(({ name }) => name),
  chaos: () => [...EXPERIMENTS.keys()],
  completion: () => ["bash", "zsh", "fish"],
};

type Words = { command: string; about: string; words: string[] };

const wordsOf = (command: Command): Words => {
  const names = NAMES[command.name()]?.() ?? [];
  const children = command.commands.map((child) => child.name());
  const options = command.options.flatMap(({ long, hidden }) => (long == null || hidden ? [] : [long]));
  return { command: command.name(), about: command.description(), words: [...names, ...children, ...options] };
};

/** For bash and zsh, which can emulate bash's completion. */
const forBash = (all: readonly Words[]): string => `_floodgate() {
  local word=\${COMP_WORDS[COMP_CWORD]} command= part
  for part in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $part in floodgate | -*) ;; *) command=$part; break ;; esac
  done
  case \${COMP_WORDS[COMP_CWORD-1]} in
    --target | --base | --head | --script | --demand | --out | --ca | --profile | --run | --baseline | --operator)
      COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  case $command in
${all.map(({ command, words }) => `    ${command}) COMPREPLY=($(compgen -W "${words.join(" ")}" -- "$word")) ;;`).join("\n")}
    *) COMPREPLY=($(compgen -W "${all.map(({ command }) => command).join(" ")} --help --version" -- "$word")) ;;
  esac
}
_floodgate_by_npx() {
  COMPREPLY=()
  [ "\${COMP_WORDS[1]}" != floodgate ] || [ "$COMP_CWORD" = 1 ] || _floodgate
}
complete -o default -F _floodgate floodgate
complete -p npx >/dev/null 2>&1 || complete -o default -F _floodgate_by_npx npx
`;

const quoted = (text: string): string => `'${text.replaceAll("'", "\\'")}'`;

const forFish = (all: readonly Words[]): string => {
  const when = (condition: string, rest: string): string => `complete -c floodgate -n ${condition} ${rest}\n`;
  const lines = [
    ...all.map(({ command, about }) => when("__fish_use_subcommand", `-f -a ${command} -d ${quoted(about)}`)),
    ...all.flatMap(({ command, words }) =>
      words.map((word) => when(`'__fish_seen_subcommand_from ${command}'`, `-a ${quoted(word)}`)),
    ),
  ];
  return lines.join("");
};

const SCRIPTS: Readonly<Record<string, (all: readonly Words[]) => string>> = {
  bash: forBash,
  zsh: (all) => `autoload -U +X bashcompinit && bashcompinit\n${forBash(all)}`,
  fish: forFish,
};

export const command = (commands: () => Promise<readonly Command[]>): Command =>
  new Command("completion")
    .description("print a script that completes commands, options and names in your shell")
    .addHelpText("after", "\nbash and zsh read the file that you write by `source FILE` in ~/.bashrc or ~/.zshrc.")
    .addArgument(new Argument("<shell>").choices(Object.keys(SCRIPTS)))
    .action(async (shell: string) => printResult(SCRIPTS[shell]?.((await commands()).map(wordsOf)) ?? ""));
