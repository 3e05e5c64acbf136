/** `floodgate serve`: the reference platform or one role of it, and a target file for its demo organizations. */
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { InvalidArgumentError } from "commander";
import { isObject } from "../contract/refusals.ts";
import { EMBEDDED_LIMITS, referenceTarget, seedNow } from "../deployments/tenants.ts";
import type { InferenceOptions } from "../platform/inference.ts";
import type { Parts } from "../platform/parts.ts";
import { demoTenants, storeSeed } from "../platform/seed.ts";
import { ROLES, type Role, type RoleOptions, type Running, startRole, type Urls } from "../platform/start-role.ts";
import { handOverToken, writePrivateFile } from "../supervision/private-file.ts";
import { notWritten, readUserFile, readUserJson, UsageError, UserFileError } from "../supervision/user-file.ts";
import type { Target } from "../target/target.ts";
import { checkTarget } from "../target/target-file.ts";
import { commandOf, type Exclusion, type OptionRow, positive, upTo, whole } from "./options.ts";
import { printNote, printResult } from "./printing.ts";

type Change = InferenceOptions["changes"][number];

/** The options as commander parses them. Those of `RoleOptions` are passed to the role unchanged. */
export type ServeOptions = Omit<RoleOptions, "inference" | "rateLimit"> &
  Pick<InferenceOptions, "serviceMs" | "tokens" | "tokenMs" | "seed"> &
  Partial<Record<"tlsCert" | "tlsKey" | "writeTarget" | "targetFrom", string>> &
  Partial<Record<"slots" | "sessionLifetime" | "tenants", number>> &
  Partial<Record<"trustedProxy" | "upstream", string[]>> & {
    role: Role;
    serviceDistribution: InferenceOptions["distribution"];
    slowdown: number;
    capacityChange?: Change[];
    rateLimit?: RoleOptions["rateLimit"] | "off";
  };

/** Parses `R:B` (calls per second, burst) or `off`, a word because commander turns `null` into an empty text. */
const rateLimit = (text: string): ServeOptions["rateLimit"] => {
  if (text === "off") return text;
  const [, perS, burst] = /^(\d+(?:\.\d+)?):(\d+)$/.exec(text) ?? [];
  if (Number(perS) > 0 && Number(burst) >= 1) return { perS: Number(perS), burst: Number(burst) };
  throw new InvalidArgumentError(`expected R:B, calls a second and burst, e.g. 50:100, or "off"; got "${text}".`);
};

const CHANGE_S_MAX = 1_000_000;

/** Parses `S:slots=N` or `S:service=F`, a change S seconds after the start. Each use of the option adds one. */
const capacityChange = (text: string, before: Change[] = []): Change[] => {
  const [, atS, what, amount] = /^(\d+(?:\.\d+)?):(slots|service)=(\d+(?:\.\d+)?)$/.exec(text) ?? [];
  const value = Number(amount);
  const isValue = what === "slots" ? Number.isSafeInteger(value) : value > 0 && value <= 1_000;
  if (isValue && Number(atS) <= CHANGE_S_MAX) {
    const change = what === "slots" ? { slots: value } : { serviceFactor: value };
    return [...before, { atMs: Number(atS) * 1000, ...change }];
  }
  throw new InvalidArgumentError(
    `expected S:slots=N or S:service=F, e.g. 10:slots=8 or 10:service=5 (seconds after the start); got "${text}".`,
  );
};

const EXPLAINED = `
Capacity: C slots of S ms carry 1000 C/S calls a second; beyond C, calls wait
first come, first served, inside K. --capacity-change 10:slots=8 leaves 8 slots
10 s after the start, 10:service=5 makes the work 5 times as long; 1 is as it
was.

Shedding: "fixed" refuses beyond K calls in flight (b2b_overloaded) and beyond M
of one organization (org_overloaded). "adaptive" finds the limit by itself: it
falls while calls wait longer than --tolerated-wait-ms for a slot and grows
while it is used, K at most. Below the limit every call is admitted; at the
limit only those of an organization that holds less than its share of it.`;

const EXCLUSIONS: readonly Exclusion[] = [
  ["tenants", "!write-target", "--tenants needs --write-target FILE: without it nobody knows the tenants' keys"],
  ["target-from", "!write-target", "--target-from needs --write-target FILE: it gives the other fields of that file"],
  ["tls-cert tls-key", "!tls-cert !tls-key", "--tls-cert and --tls-key belong together: give both or neither"],
];

const DISTRIBUTIONS = ["constant", "exponential", "lognormal"];
const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"];
const port = whole(0, 65_535);
/** Upper bounds in milliseconds: Node fires a timer of 2^31 ms or more at once. */
const serviceMs = upTo(600_000);
const tokenMs = upTo(60_000, true);
const slowdown = upTo(Number.MAX_VALUE, true);

// biome-ignore format: a row is a line
const OPTIONS: readonly OptionRow[] = [
  ["--role <role>", "which part", ROLES, "all"],
  ["--host <address>", "where the role listens, but not its control plane", undefined, "127.0.0.1"],
  ["--port <n>", "0 lets the system choose", port, 0],
  ["--control-port <n>", "control plane; off unless given", port],
  ["--control-host <address>", "where it listens (default 127.0.0.1); beyond loopback FLOODGATE_CONTROL_TOKEN has to be set"],
  ["--keys <where>", "sqlite:PATH, memory, or http://… of a key service"],
  ["--limiter <where>", "sqlite:PATH, memory, http://… of a limiter service, or redis://…"],
  ["--upstream <url...>", "with --role front: the replicas that connections go to in turn"],
  ["--slots <C>", "calls served at once (default: global in-flight cap)", whole(1)],
  ["--service-ms <S>", "mean service time of the inference", serviceMs, 200],
  ["--service-distribution <name>", "of the service time", DISTRIBUTIONS, "constant"],
  ["--tokens <N>", "content events of a stream", whole(1, 100_000), 20],
  ["--token-ms <n>", "added to the service time for each content event", tokenMs, 0],
  ["--slowdown <share>", "of the service time, added for every other call running", slowdown, 0],
  ["--capacity-change <when:what>", "S:slots=N or S:service=F; may be given again", capacityChange],
  ["--global-in-flight <K>", "calls in flight of a replica (default: slots, or 64; adaptive: 8 times)", whole(1)],
  ["--org-in-flight <M>", "calls in flight of an organization (default 32; adaptive: fair shares)", whole(1)],
  ["--shedding <how>", "fixed caps or a limit that adapts", ["fixed", "adaptive"], "fixed"],
  ["--tolerated-wait-ms <n>", "for adaptive shedding: the queue wait that is tolerated (default 20)", positive],
  ["--rate-limit <R:B>", 'calls a second and burst of a key (default 50:100; "off")', rateLimit],
  ["--design-cap <n>", "design analyses a month (default: counted, never refused)", whole(0)],
  ["--session-lifetime <s>", "seconds, at most 1800 (default 900)", whole(1, 1_800)],
  ["--trusted-proxy <address...>", "addresses or blocks whose X-Forwarded-For is believed"],
  ["--tls-cert <file>", "certificate (PEM); with --tls-key, HTTPS in place of HTTP"],
  ["--tls-key <file>", "its private key (PEM)"],
  ["--http2", "HTTP/2 (over TLS with HTTP/1.1 beside it)"],
  ["--log-level <level>", "of the log on stderr", LOG_LEVELS, "info"],
  ["--seed <n>", "of the simulated service times", whole(0), 1],
  ["--tenants <N>", "organizations that carry load (default 12, with --write-target)", whole(0, 10_000)],
  ["--write-target <file>", "make organizations and keys, and write a target file with every role"],
  ["--target-from <file>", "the rest of that target file, where this process is not the whole deployment"],
];

export const serveCommandOf = (about: string) =>
  commandOf("serve", { about, options: OPTIONS, exclusions: EXCLUSIONS, help: EXPLAINED });

const PEM_BYTES_MAX = 1 << 20;

const pem = (option: string, file?: string): string => {
  try {
    return readUserFile(file as string, PEM_BYTES_MAX);
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    throw new UsageError(`${option} ${file}: expected a readable PEM file, ${error.message}`);
  }
};

const DEFAULT_SLOTS = 64;
/** The default cap as a multiple of the slots: adaptive shedding finds its limit only if calls may queue. */
const ADAPTIVE_ROOM = 8;

/** By default the in-flight cap is the slots: then no call waits, and Erlang's B formula gives the refused share. */
const roleOptionsOf = (options: ServeOptions): RoleOptions => {
  const { globalInFlight: most, rateLimit, tlsCert, tlsKey, ...same } = options;
  const { slots = most ?? DEFAULT_SLOTS, serviceMs, serviceDistribution: distribution, tokens, tokenMs, seed } = same;
  const { slowdown: slowdownPerRunning, capacityChange: changes = [] } = same;
  const isAdaptive = same.shedding === "adaptive";
  const globalInFlight = most ?? (isAdaptive ? slots * ADAPTIVE_ROOM : slots);
  const { FLOODGATE_SESSION_SECRET, FLOODGATE_ADMIN_SECRET, FLOODGATE_CONTROL_TOKEN } = process.env;
  return {
    ...same,
    globalInFlight,
    // Adaptive shedding has fair shares in place of a cap for each organization.
    orgInFlight: same.orgInFlight ?? (isAdaptive ? globalInFlight : undefined),
    inference: { slots, serviceMs, distribution, tokens, tokenMs, slowdownPerRunning, seed, changes },
    // Docker Compose passes a variable without a value as an empty text.
    controlToken: FLOODGATE_CONTROL_TOKEN || undefined,
    sessionSecret: FLOODGATE_SESSION_SECRET || undefined,
    adminSecret: FLOODGATE_ADMIN_SECRET || undefined,
    upstreams: same.upstream,
    rateLimit: rateLimit === "off" ? null : rateLimit,
    sessionLifetimeS: same.sessionLifetime,
    trustedProxies: same.trustedProxy,
    tls: tlsCert && tlsKey ? { cert: pem("--tls-cert", tlsCert), key: pem("--tls-key", tlsKey) } : undefined,
  };
};

const DEFAULT_TENANTS = 12;
const ADMIN_TOKEN_S = 30 * 24 * 3_600;

const readFrom = (file: string): object => {
  try {
    const found = readUserJson(file);
    if (!isObject(found)) throw new UserFileError("it is no JSON object");
    const own = ["tenants", "credentials"].find((name) => name in found);
    if (own !== undefined) throw new UserFileError(`it has ${own}: take them out`);
    return found;
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    const expected = "expected a target file without tenants and credentials";
    throw new UsageError(`--target-from ${file}: ${expected}, but ${error.message}`);
  }
};

/** Members of the target file that apply if this process is the whole deployment. */
const ofThisProcess = ({ control }: Urls, role: RoleOptions, tlsCert: string | undefined): Partial<Target> => {
  const { inference, globalInFlight, orgInFlight = 32, rateLimit = { perS: 50, burst: 100 }, shedding } = role;
  return {
    // A self-signed certificate has to be named to be trusted.
    transport: tlsCert ? { ca: `file:${resolve(tlsCert)}`, protocol: role.http2 === true ? "h2" : "h1" } : undefined,
    control: control && { ...control, api: [control.api as string] },
    shedding,
    // Only the user who started this process is assumed to call it.
    exclusive: true,
    limits: {
      ...EMBEDDED_LIMITS,
      slots: inference?.slots,
      service_ms: inference?.serviceMs,
      global_in_flight: globalInFlight,
      org_in_flight: orgInFlight,
      rate_per_s: rateLimit?.perS,
      burst: rateLimit?.burst,
    },
  };
};

const writeTarget = async (running: Running, role: RoleOptions, options: ServeOptions, path: string): Promise<void> => {
  const { tenants = DEFAULT_TENANTS, targetFrom, tlsCert } = options;
  const { administration, urls } = running;
  if (administration === undefined) {
    throw new UsageError(
      "--write-target needs a process that has the keys and knows the limiter: use --role all, or --role keys with --limiter",
    );
  }
  if (urls.api === undefined && targetFrom === undefined) {
    throw new UsageError(
      "--write-target with --role keys needs --target-from FILE: where the API is, and its limits, are not known here",
    );
  }
  const read = targetFrom === undefined ? undefined : readFrom(targetFrom);
  const seed = seedNow(demoTenants(tenants), role.adminSecret ?? "", ADMIN_TOKEN_S);
  const own = () => referenceTarget(urls.api ?? "", seed, { name: "serve", ...ofThisProcess(urls, role, tlsCert) });
  // The file's own content is checked, because `--target-from` may have a mistake.
  const written = JSON.parse(JSON.stringify(read === undefined ? own() : { ...read, ...seed.target }));
  const { target } = checkTarget(written, targetFrom ?? path);
  await storeSeed(seed, administration);
  await writePrivateFile(path, `${JSON.stringify(target, null, 2)}\n`).catch((error) => {
    throw notWritten(`--write-target ${path}`, error);
  });
  printNote(`target file: ${path} (${tenants} tenants and every role; it holds credentials)`);
};

const sayWhyNotStarted = (error: NodeJS.ErrnoException & { address: string; port: number }): never => {
  const { syscall, code, message, address, port } = error;
  if (syscall !== "listen" && syscall !== "getaddrinfo") throw error;
  throw new UsageError(
    code === "EADDRINUSE"
      ? `port ${port} of ${address} is used by another program: name another port, or 0 to have one chosen`
      : `expected an address that can be listened on, got ${message}: name another --host or --port`,
  );
};

/** Leaves the control plane's token in a file that only the same user can read. Returns what removes the file. */
const handOver = async ({ urls, controlToken }: Running, isGiven: boolean): Promise<() => Promise<void>> => {
  const [plane] = Object.values(urls.control ?? {});
  if (plane === undefined || controlToken === undefined) return async () => {};
  try {
    const { path, remove } = await handOverToken(plane, controlToken);
    if (!isGiven) {
      printNote(`control plane: its token is in ${path}; floodgate finds it there, others send it as Bearer`);
    }
    return remove;
  } catch (error) {
    if (isGiven) return async () => {};
    throw new UsageError(`the control plane's token: ${(error as Error).message}`);
  }
};

/** Waits for a signal or, if the parent asks for it, for the end of stdin, so that no role outlives its runner. */
export const untilStopped = (): Promise<void> =>
  new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
    if (process.env.FLOODGATE_END_WITH_STDIN !== "1") return;
    for (const event of ["end", "error"]) process.stdin.once(event, () => resolve());
    process.stdin.resume();
  });

export const serve = async (options: ServeOptions, parts?: Parts): Promise<void> => {
  const role = roleOptionsOf(options);
  // The secret is drawn here, because it signs the admin tokens of the target file.
  if (options.role === "all") role.adminSecret ??= randomBytes(32).toString("hex");
  const running = await startRole(options.role, role, parts).catch(sayWhyNotStarted);
  await using atEnd = new AsyncDisposableStack();
  atEnd.defer(running.close);
  if (options.writeTarget !== undefined) await writeTarget(running, role, options, options.writeTarget);
  atEnd.defer(await handOver(running, role.controlToken !== undefined));
  printResult(JSON.stringify(running.urls));
  await untilStopped();
  await atEnd.disposeAsync();
  // An open connection of a client must not keep the process alive.
  process.exit(0);
};

export const serveCommand = () =>
  serveCommandOf("start the reference platform; its URLs are printed as one line of JSON").action(
    (options: ServeOptions) => serve(options),
  );
