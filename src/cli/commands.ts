/** The table of commands. */
import type { Command } from "commander";

/**
 * A command and the two examples in its help, as typed after `npx floodgate`. Its file is imported only when it is asked for: a run
 * starts `serve` three times, which must not load what only `verify` needs.
 */
type Entry = readonly [load: () => Promise<Command>, first: string, second: string];

// biome-ignore format: a table
const COMMANDS: Readonly<Record<string, Entry>> = {
  run: [async () => (await import("./run.ts")).runCommand(),
    "run smoke",
    "run nightly --target staging.json --dry-run"],
  load: [async () => (await import("./load.ts")).loadCommand(),
    "load chat-past-capacity --duration 10s",
    "load steady-mix --target staging.json --profile access.log.gz"],
  verify: [async () => (await import("./verify.ts")).verifyCommand(),
    "verify --target staging.json",
    "verify --only exchange-mints"],
  chaos: [async () => (await import("./chaos.ts")).chaosCommand(),
    "chaos limiter-refused keys-refused",
    "chaos --heal --target staging.json"],
  doctor: [async () => (await import("./doctor.ts")).doctorCommand(),
    "doctor --target staging.json",
    "doctor --calibrate"],
  init: [async () => (await import("./init.ts")).initCommand(),
    "init --target https://maps.example --i-own maps.example",
    "init --target 127.0.0.1:8080 --out local.json"],
  gate: [async () => (await import("./gate.ts")).gateCommand(),
    "gate --base base.json --head head.json",
    "gate --before RUN-A --after RUN-B"],
  capacity: [async () => (await import("./capacity.ts")).capacityCommand(),
    "capacity --target staging.json --slo 'refusals<=1%,ttfe_p99<=800ms'",
    "capacity --target staging.json --demand launch.json"],
  report: [async () => (await import("./report.ts")).reportCommand(),
    "report reports/latest",
    "report reports/runs/A reports/runs/B"],
  serve: [async () => (await import("./serve.ts")).serveCommand(),
    "serve --write-target target.json",
    "serve --tenants 12 --slots 24 --service-ms 200 --write-target target.json"],
  demo: [async () => (await import("./demo.ts")).demoCommand(),
    "demo",
    "demo never-sheds --page never-sheds.html"],
  explain: [async () => (await import("./explain.ts")).explainCommand(),
    "explain sheds-above-the-cap/chat-past-capacity",
    "explain verify/exchange-mints"],
  completion: [async () => (await import("./completion.ts")).completionCommand(allCommands),
    "completion bash > ~/.floodgate-completion",
    "completion fish > ~/.config/fish/completions/floodgate.fish"],
  dev: [async () => (await import("./dev/dev.ts")).devCommand(),
    "dev tools",
    "dev mutants never-sheds"],
};

const opened = async ([load, ...examples]: Entry): Promise<Command> =>
  (await load()).addHelpText("after", ["\nExamples:", ...examples.map((one) => `  npx floodgate ${one}`)].join("\n"));

export const allCommands = (): Promise<Command[]> => Promise.all(Object.values(COMMANDS).map(opened));

/** Loads the command of this name, or all commands where there is none. */
export const commandsFor = async (name = ""): Promise<Command[]> =>
  Object.hasOwn(COMMANDS, name) ? [await opened(COMMANDS[name] as Entry)] : allCommands();
