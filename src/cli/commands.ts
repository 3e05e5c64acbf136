/** The table of commands. */
import type { Command } from "commander";

type Made = (all: () => Promise<Command[]>) => Command;
/** Where a command stands, and the two examples in its help, as typed after `npx floodgate`. */
type Entry = readonly [load: () => Promise<{ command: Made }>, first: string, second: string];

/** A file is imported only when it is asked for: a run starts `serve` three times, which must not load what only `verify` needs. */
// biome-ignore format: a row is a line
const COMMANDS: Readonly<Record<string, Entry>> = {
  run: [() => import("./run.ts"), "run smoke", "run nightly --target staging.json --dry-run"],
  load: [() => import("./load.ts"), "load chat-past-capacity --duration 10s", "load steady-mix --target staging.json --profile access.log.gz"],
  verify: [() => import("./verify.ts"), "verify --target staging.json", "verify --only exchange-mints"],
  chaos: [() => import("./chaos.ts"), "chaos limiter-refused keys-refused", "chaos --heal --target staging.json"],
  doctor: [() => import("./doctor.ts"), "doctor --target staging.json", "doctor --calibrate"],
  init: [() => import("./init.ts"), "init --target https://maps.example --i-own maps.example", "init --target 127.0.0.1:8080 --out local.json"],
  gate: [() => import("./gate.ts"), "gate --base base.json --head head.json", "gate --before RUN-A --after RUN-B"],
  capacity: [() => import("./capacity.ts"), "capacity --target staging.json --slo 'refusals<=1%,ttfe_p99<=800ms'", "capacity --target staging.json --demand launch.json"],
  report: [() => import("./report.ts"), "report reports/latest", "report reports/runs/A reports/runs/B"],
  serve: [() => import("./serve.ts"), "serve --write-target target.json", "serve --tenants 12 --slots 24 --service-ms 200 --write-target target.json"],
  demo: [() => import("./demo.ts"), "demo", "demo never-sheds --page never-sheds.html"],
  explain: [() => import("./explain.ts"), "explain sheds-above-the-cap/chat-past-capacity", "explain verify/exchange-mints"],
  completion: [() => import("./completion.ts"), "completion bash > ~/.floodgate-completion", "completion fish > ~/.config/fish/completions/floodgate.fish"],
  dev: [() => import("./dev/dev.ts"), "dev tools", "dev mutants never-sheds"],
};

const opened = async ([load, ...examples]: Entry): Promise<Command> => {
  const { command } = await load();
  const shown = examples.map((one) => `  npx floodgate ${one}`).join("\n");
  return command(allCommands).addHelpText("after", `\nExamples:\n${shown}`);
};

export const allCommands = (): Promise<Command[]> => Promise.all(Object.values(COMMANDS).map(opened));

export const commandsFor = async (name = ""): Promise<Command[]> =>
  Object.hasOwn(COMMANDS, name) ? [await opened(COMMANDS[name] as Entry)] : allCommands();
