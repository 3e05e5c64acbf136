/** `floodgate serve`: the reference platform, or one role of it (interface.md section 4). */

import { randomBytes } from "node:crypto";
import { Command } from "commander";
import type { Parts } from "../platform/parts.ts";
import { type Running, startRole } from "../platform/start-role.ts";
import { UsageError } from "../run/exit-codes.ts";
import { handOverToken } from "../supervision/door-token.ts";
import { addServeOptions, roleOptionsOf, type ServeOptions } from "./options/serve-options.ts";
import { printNote, printResult } from "./printing/output.ts";
import { seedAndWriteTarget } from "./write-target.ts";

const DEFAULT_TENANTS = 12;

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

/** An address that cannot be listened on is a mistake of whoever named it. */
const cannotListen = (error: unknown): UsageError | null => {
  const { syscall, code, message } = error as NodeJS.ErrnoException;
  if (syscall !== "listen" && syscall !== "getaddrinfo") return null;
  if (code === "EADDRINUSE") {
    const { address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
    return new UsageError(
      `port ${port} of ${address} is used by another program: name another port, or 0 to have one chosen`,
    );
  }
  return new UsageError(`expected an address that can be listened on, got ${message}: name another --host or --port`);
};

/** To the same user on this machine, by a file; whoever else is to have it needs one that the user gave. */
const handOver = async ({ urls, controlToken, close }: Running, isGiven: boolean): Promise<() => Promise<void>> => {
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
    await close();
    throw new UsageError(`the control plane's token: ${(error as Error).message}`);
  }
};

export const serve = async (options: ServeOptions, parts?: Parts): Promise<void> => {
  const { tenants = DEFAULT_TENANTS, writeTarget: path } = options;
  if (options.tenants !== undefined && path === undefined) {
    throw new UsageError("--tenants needs --write-target FILE: without it nobody knows the tenants' keys");
  }
  if (options.targetFrom !== undefined && path === undefined) {
    throw new UsageError("--target-from needs --write-target FILE: it is the rest of that file");
  }
  const role = roleOptionsOf(options);
  // Made here rather than in the role, because the admin tokens of the target file are signed with it.
  if (options.role === "all") role.adminSecret ??= randomBytes(32).toString("hex");
  const running = await startRole(options.role, role, parts).catch((error: unknown) => {
    throw cannotListen(error) ?? error;
  });
  if (path !== undefined) {
    try {
      const { adminSecret = "" } = role;
      const { tlsCert, targetFrom } = options;
      await seedAndWriteTarget(running, { tenants, path, adminSecret, role, tlsCert, targetFrom });
    } catch (error) {
      await running.close();
      throw error;
    }
    printNote(`target file: ${path} (${tenants} tenants and every role; it holds credentials)`);
  }
  const forget = await handOver(running, role.controlToken !== undefined);
  printResult(JSON.stringify(running.urls));
  await untilStopped();
  await running.close();
  await forget();
  // A client that keeps its connection open must not keep a stopped service alive.
  process.exit(0);
};

export const serveCommand = (): Command =>
  addServeOptions(
    new Command("serve").description("start the reference platform; its URLs are printed as one line of JSON"),
  ).action((options: ServeOptions) => serve(options));
