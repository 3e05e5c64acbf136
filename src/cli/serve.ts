/** `floodgate serve`: the reference platform, or one role of it, and the target file that names its demo organizations. */
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { Command } from "commander";
import { isObject } from "../contract/envelopes.ts";
import { EMBEDDED_LIMITS, referenceTarget, seedNow } from "../deployments/tenants.ts";
import type { Parts } from "../platform/parts.ts";
import { demoTenants, storeSeed } from "../platform/seed.ts";
import { type RoleOptions, type Running, startRole, type Urls } from "../platform/start-role.ts";
import { UsageError } from "../run/exit-codes.ts";
import { handOverToken, writePrivateFile } from "../supervision/private-file.ts";
import { readUserJson, UserFileError } from "../supervision/user-file.ts";
import type { Target } from "../target/target.ts";
import { checkTarget } from "../target/target-file.ts";
import { addServeOptions, roleOptionsOf, type ServeOptions } from "./options/serve-options.ts";
import { printNote, printResult } from "./printing/output.ts";

const DEFAULT_TENANTS = 12;
const ADMIN_TOKEN_S = 30 * 24 * 3_600;

/** Reads the file of `--target-from`: a target file without tenants and credentials. */
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

/** What a target file says of this process beyond any reference deployment, where it is the whole deployment. */
const ofThisProcess = ({ control }: Urls, role: RoleOptions, tlsCert: string | undefined): Partial<Target> => {
  const { inference, globalInFlight, orgInFlight = 32, rateLimit = { perS: 50, burst: 100 }, shedding } = role;
  return {
    // A self-signed certificate has to be named to be trusted.
    transport: tlsCert ? { ca: `file:${resolve(tlsCert)}`, protocol: role.http2 === true ? "h2" : "h1" } : undefined,
    control: control && { keys: null, limiter: null, ...control, api: [control.api as string] },
    shedding,
    // Nobody but the user who started it is assumed to call it.
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

/** Seeds the demo organizations and tenants, and writes the target file with every role. */
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
  // Checked as the file will hold it, because `--target-from` may have a mistake.
  const written = JSON.parse(JSON.stringify(read === undefined ? own() : { ...read, ...seed.target }));
  const { target } = checkTarget(written, targetFrom ?? path);
  await storeSeed(seed, administration);
  await writePrivateFile(path, `${JSON.stringify(target, null, 2)}\n`).catch(({ code = "failed" }) => {
    throw new UsageError(`--write-target ${path}: expected a file that can be written (${code})`);
  });
  printNote(`target file: ${path} (${tenants} tenants and every role; it holds credentials)`);
};

/** Throws a `UsageError` for an address that cannot be listened on. */
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

/** Waits for a signal, or, where the parent asks for it, for the end of stdin, so that no role outlives its runner. */
export const untilStopped = (): Promise<void> =>
  new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
    if (process.env.FLOODGATE_END_WITH_STDIN !== "1") return;
    for (const event of ["end", "error"]) process.stdin.once(event, () => resolve());
    process.stdin.resume();
  });

export const serve = async (options: ServeOptions, parts?: Parts): Promise<void> => {
  const role = roleOptionsOf(options);
  // Drawn here, because the admin tokens of the target file are signed with it.
  if (options.role === "all") role.adminSecret ??= randomBytes(32).toString("hex");
  const running = await startRole(options.role, role, parts).catch(sayWhyNotStarted);
  let forget: () => Promise<void>;
  try {
    if (options.writeTarget !== undefined) await writeTarget(running, role, options, options.writeTarget);
    forget = await handOver(running, role.controlToken !== undefined);
  } catch (error) {
    await running.close();
    throw error;
  }
  printResult(JSON.stringify(running.urls));
  await untilStopped();
  await running.close();
  await forget();
  // An open connection of a client must not keep the process alive.
  process.exit(0);
};

export const command = (): Command =>
  addServeOptions(
    new Command("serve").description("start the reference platform; its URLs are printed as one line of JSON"),
  ).action((options: ServeOptions) => serve(options));
