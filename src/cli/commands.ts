/** The table of commands, each with two examples for its help. */
import type { Command } from "commander";

type Entry = {
  /** Loaded when asked for: `serve` starts three times in a run and must not read what only `verify` needs. */
  load: () => Promise<Command>;
  /** As they are typed behind `npx floodgate`; what follows two blanks says what comes of it. */
  examples: readonly [string, string];
};

const COMMANDS: Readonly<Record<string, Entry>> = {
  run: {
    load: async () => (await import("./run.ts")).runCommand(),
    examples: ["run smoke", "run nightly --target staging.json --dry-run"],
  },
  load: {
    load: async () => (await import("./load.ts")).loadCommand(),
    examples: [
      "load chat-past-capacity --duration 10s",
      "load steady-mix --target staging.json --profile access.log.gz",
    ],
  },
  verify: {
    load: async () => (await import("./verify.ts")).verifyCommand(),
    examples: ["verify --target staging.json", "verify --only exchange-mints"],
  },
  chaos: {
    load: async () => (await import("./chaos.ts")).chaosCommand(),
    examples: ["chaos limiter-refused keys-refused", "chaos --heal --target staging.json"],
  },
  doctor: {
    load: async () => (await import("./doctor.ts")).doctorCommand(),
    examples: ["doctor --target staging.json", "doctor --calibrate"],
  },
  init: {
    load: async () => (await import("./init.ts")).initCommand(),
    examples: [
      "init --target https://maps.example --i-own maps.example",
      "init --target 127.0.0.1:8080 --out local.json",
    ],
  },
  gate: {
    load: async () => (await import("./gate.ts")).gateCommand(),
    examples: ["gate --base base.json --head head.json", "gate --before RUN-A --after RUN-B"],
  },
  capacity: {
    load: async () => (await import("./capacity.ts")).capacityCommand(),
    examples: [
      "capacity --target staging.json --slo 'refusals<=1%,ttfe_p99<=800ms'",
      "capacity --target staging.json --demand launch.json",
    ],
  },
  report: {
    load: async () => (await import("./report.ts")).reportCommand(),
    examples: ["report reports/latest", "report reports/runs/A reports/runs/B"],
  },
  serve: {
    load: async () => (await import("./serve.ts")).serveCommand(),
    examples: [
      "serve --write-target target.json",
      "serve --tenants 12 --slots 24 --service-ms 200 --write-target target.json",
    ],
  },
  demo: {
    load: async () => (await import("./demo.ts")).demoCommand(),
    examples: ["demo", "demo never-sheds --page never-sheds.html"],
  },
  explain: {
    load: async () => (await import("./explain.ts")).explainCommand(),
    examples: ["explain sheds-above-the-cap/chat-past-capacity", "explain verify/exchange-mints"],
  },
  completion: {
    load: async () => (await import("./completion.ts")).completionCommand(allCommands),
    examples: [
      "completion bash > ~/.floodgate-completion",
      "completion fish > ~/.config/fish/completions/floodgate.fish",
    ],
  },
  dev: {
    load: async () => (await import("./dev/dev.ts")).devCommand(),
    examples: ["dev tools", "dev mutants never-sheds"],
  },
};

const opened = async ({ load, examples }: Entry): Promise<Command> => {
  const lines = examples.map((example) => `\n  npx floodgate ${example}`);
  return (await load()).addHelpText("after", `\nExamples:${lines.join("")}`);
};

export const allCommands = (): Promise<Command[]> => Promise.all(Object.values(COMMANDS).map(opened));

/** The one of this name alone, so that it starts fast; all of them where there is none. */
export const commandsFor = async (name: string | undefined): Promise<Command[]> =>
  name !== undefined && Object.hasOwn(COMMANDS, name) ? [await opened(COMMANDS[name] as Entry)] : allCommands();
