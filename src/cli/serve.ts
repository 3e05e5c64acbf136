/** `floodgate serve`: the reference platform, or one role of it (interface.md section 4). */
import { randomBytes } from "node:crypto";
import { Command, InvalidArgumentError, Option } from "commander";
import { ROLES, type Role, type RoleOptions, startRole } from "../platform/start-role.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { positive, whole } from "./numbers.ts";
import { seedAndWriteTarget } from "./write-target.ts";

const port = whole(0, 65_535);

type RateLimit = { perS: number; burst: number };

/** `R:B`, calls a second and burst; `off` for no limit, as a word: of a `null`, commander makes an empty text. */
const rateLimit = (text: string): RateLimit | "off" => {
  if (text === "off") return text;
  const match = /^(\d+(?:\.\d+)?):(\d+)$/.exec(text);
  if (match === null || Number(match[1]) <= 0 || Number(match[2]) < 1) {
    throw new InvalidArgumentError(`expected R:B, calls a second and burst, e.g. 50:100, or "off"; got "${text}".`);
  }
  return { perS: Number(match[1]), burst: Number(match[2]) };
};

type ServeOptions = {
  role: Role;
  host: string;
  port: number;
  controlPort?: number;
  keys?: string;
  limiter?: string;
  slots?: number;
  serviceMs: number;
  serviceDistribution: "constant" | "exponential" | "lognormal";
  tokens: number;
  globalInFlight?: number;
  orgInFlight?: number;
  shedding: "fixed" | "adaptive";
  rateLimit?: RateLimit | "off";
  logLevel: NonNullable<RoleOptions["logLevel"]>;
  seed: number;
  tenants?: number;
  writeTarget?: string;
};

const DEFAULT_SLOTS = 64;
const DEFAULT_TENANTS = 12;

/** C = K unless said otherwise: then nobody waits and the blocked share is Erlang's B formula. */
const roleOptionsOf = (options: ServeOptions): RoleOptions => {
  const slots = options.slots ?? options.globalInFlight ?? DEFAULT_SLOTS;
  const { FLOODGATE_SESSION_SECRET: sessionSecret, FLOODGATE_ADMIN_SECRET: adminSecret } = process.env;
  return {
    host: options.host,
    port: options.port,
    shedding: options.shedding,
    logLevel: options.logLevel,
    globalInFlight: options.globalInFlight ?? slots,
    inference: {
      slots,
      serviceMs: options.serviceMs,
      distribution: options.serviceDistribution,
      tokens: options.tokens,
      seed: options.seed,
    },
    ...(options.orgInFlight === undefined ? {} : { orgInFlight: options.orgInFlight }),
    ...(options.controlPort === undefined ? {} : { controlPort: options.controlPort }),
    ...(options.keys === undefined ? {} : { keys: options.keys }),
    ...(options.limiter === undefined ? {} : { limiter: options.limiter }),
    ...(options.rateLimit === undefined ? {} : { rateLimit: options.rateLimit === "off" ? null : options.rateLimit }),
    ...(sessionSecret === undefined ? {} : { sessionSecret }),
    ...(adminSecret === undefined ? {} : { adminSecret }),
  };
};

/** Until a signal; where the parent asked for it, also until stdin ends, so that no role outlives its runner. */
const untilStopped = (): Promise<void> =>
  new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
    if (process.env.FLOODGATE_END_WITH_STDIN === "1") {
      process.stdin.once("end", () => resolve());
      process.stdin.once("error", () => resolve());
      process.stdin.resume();
    }
  });

export const serveCommand = (): Command =>
  new Command("serve")
    .description("the reference platform; prints one line of JSON with its URLs when it listens")
    .addOption(new Option("--role <role>", "which part").choices(ROLES).default("all"))
    .option("--host <address>", "where the role listens; the control plane stays on loopback", "127.0.0.1")
    .option("--port <n>", "0 lets the system choose", port, 0)
    .option("--control-port <n>", "control plane on loopback; off unless given", port)
    .option("--keys <where>", "sqlite:PATH, memory, or http://… of a key service")
    .option("--limiter <where>", "sqlite:PATH, memory, http://… of a limiter service, or redis://…")
    .option("--slots <C>", "calls served at once (default: global in-flight cap)", whole(1))
    .option("--service-ms <S>", "mean service time of the inference", positive, 200)
    .addOption(
      new Option("--service-distribution <name>", "of the service time")
        .choices(["constant", "exponential", "lognormal"])
        .default("constant"),
    )
    .option("--tokens <N>", "content events of a stream", whole(1), 20)
    .option("--global-in-flight <K>", "calls in flight of a replica (default: slots, or 64)", whole(1))
    .option("--org-in-flight <M>", "calls in flight of an organization (default 32)", whole(1))
    .addOption(
      new Option("--shedding <how>", "fixed caps or a limit that adapts")
        .choices(["fixed", "adaptive"])
        .default("fixed"),
    )
    .option("--rate-limit <R:B>", 'calls a second and burst of a key (default 50:100; "off")', rateLimit)
    .addOption(
      new Option("--log-level <level>", "of the log on stderr")
        .choices(["silent", "error", "warn", "info", "debug"])
        .default("info"),
    )
    .option("--seed <n>", "of the simulated service times", whole(0), 1)
    .option(
      "--tenants <N>",
      "organizations that carry load, seeded with every role of the target file",
      whole(0, 10_000),
    )
    .option("--write-target <file>", "seed, and write a target file with every role")
    .action(async (options: ServeOptions) => {
      if (options.tenants !== undefined && options.writeTarget === undefined) {
        throw new CommandError(
          EXIT.usage,
          "--tenants needs --write-target FILE: without it nobody knows the tenants' keys",
        );
      }
      const role = roleOptionsOf(options);
      // Made here rather than in the role, because the admin tokens of the target file are signed with it.
      if (options.role === "all") role.adminSecret ??= randomBytes(32).toString("hex");
      const running = await startRole(options.role, role);
      if (options.writeTarget !== undefined) {
        const { tenants = DEFAULT_TENANTS, writeTarget: path } = options;
        try {
          await seedAndWriteTarget(running, { tenants, path, adminSecret: role.adminSecret ?? "", role });
        } catch (error) {
          await running.close();
          throw error;
        }
        process.stderr.write(`target file: ${path} (${tenants} tenants and every role; it holds credentials)\n`);
      }
      process.stdout.write(`${JSON.stringify(running.urls)}\n`);
      await untilStopped();
      await running.close();
      // A client that keeps its connection open must not keep a stopped service alive.
      process.exit(0);
    });
