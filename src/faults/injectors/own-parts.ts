/**
 * Faults of the processes and stores that this run started. A store is made to fail from outside the limiter; Redis counts the
 * errors that it returned, as proof.
 */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { readGauges } from "../../client/control-planes.ts";
import type { OwnParts, Part, RedisPart } from "../../deployments/deployment.ts";
import { inTime, pause, waitUntil } from "../../supervision/waiting.ts";
import { type LinkSeen, observeLink } from "../../tools/link-probe.ts";
import type { Fault, OwnInjector } from "../fault.ts";

type StoreFault = Extract<Fault, { by: "store" }>["fault"];

const CALL_MS = 3_000;
const AGAIN_MS = 50;

type Command = readonly [string, ...(string | number)[]];

/** Sends commands to Redis on a separate connection, not through a proxy. */
const ask = async (url: string, ...commands: readonly Command[]): Promise<string[]> => {
  // Loaded here, because only runs on Redis need it.
  const { Redis } = await import("ioredis");
  const once = { lazyConnect: true, enableReadyCheck: false, retryStrategy: () => null };
  const redis = new Redis(url, { ...once, commandTimeout: CALL_MS });
  redis.on("error", () => {});
  using atEnd = new DisposableStack();
  atEnd.defer(() => redis.disconnect());
  return await Array.fromAsync(commands, async ([command, ...args]) => String(await redis.call(command, ...args)));
};

const errorsOf = async (url: string, error: string): Promise<number> => {
  const [said = ""] = await ask(url, ["INFO", "errorstats"]);
  return Number(new RegExp(`errorstat_${error}:count=(\\d+)`).exec(said)?.[1] ?? 0);
};

/** Makes Redis return an error: `put` causes it, `take` ends it. Without `take`, `put` is repeated until the heal. */
const redisError = (url: string, error: string, put: Command, take?: Command): OwnInjector => {
  const over = new AbortController();
  let before = 0;
  let repeating: Promise<void> | undefined;
  const repeat = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await pause(AGAIN_MS, over.signal);
      await ask(url, put);
    }
  };
  return {
    inject: async () => {
      before = await errorsOf(url, error);
      await ask(url, put);
      if (take === undefined) repeating = repeat();
      repeating?.catch(() => {});
    },
    shows: async () => (await errorsOf(url, error)) > before,
    heal: async () => {
      over.abort();
      await repeating;
      if (take !== undefined) await ask(url, take);
    },
  };
};

/** Longer than any experiment; if the run dies, the pause ends by itself. */
const PAUSE_MS = 60_000;
const WRITE_MS = 300;

/** Makes writes to Redis wait, as behind a dead disk; reads are answered. */
const redisPaused = (url: string): OwnInjector => ({
  inject: async () => void (await ask(url, ["CLIENT", "PAUSE", PAUSE_MS, "WRITE"])),
  shows: async () => {
    const wrote = ask(url, ["SET", "floodgate:written", 1]).catch(() => undefined);
    return (await inTime(wrote, WRITE_MS)) === "late";
  },
  heal: async () => void (await ask(url, ["CLIENT", "UNPAUSE"])),
});

/** At `KEY_DELAY_US` a key, loading takes 20 s, longer than the fault is held. */
const SLOW_KEYS = Array.from({ length: 400 }, (_, at) => `floodgate:filling:${at}`);
const KEY_DELAY_US = 50_000;
/** While it loads, Redis serves connections once per this many bytes; this is the smallest value allowed. */
const LOOKS_AFTER_BYTES = 1024;
const SLOW = [
  ...["--key-load-delay", `${KEY_DELAY_US}`],
  ...["--loading-process-events-interval-bytes", `${LOOKS_AFTER_BYTES}`],
];

/** Kills Redis and restarts it with much data to load; until that is loaded, it answers LOADING. */
const redisLoading = ({ url, nextArgs }: RedisPart, limiter: Part): OwnInjector => ({
  inject: async (signal) => {
    // Each value is incompressible and over `LOOKS_AFTER_BYTES`, so that Redis serves connections after each key.
    const filling = SLOW_KEYS.map((key): Command => ["SET", key, randomBytes(LOOKS_AFTER_BYTES).toString("base64")]);
    await ask(url, ...filling, ["BGREWRITEAOF"]);
    const isRewriting = async (): Promise<boolean> =>
      /aof_rewrite_(in_progress|scheduled):1/.test((await ask(url, ["INFO", "persistence"])).join());
    while (await isRewriting()) await pause(AGAIN_MS, signal);
    await limiter.kill();
    nextArgs.push(...SLOW);
    await limiter.startAgain(signal);
  },
  shows: async () => {
    const said = await ask(url, ["GET", "floodgate:filling:0"]).catch((error: Error) => [error.message]);
    return said.join().includes("LOADING");
  },
  heal: async (signal) => {
    nextArgs.length = 0;
    if (limiter.isRunning()) await limiter.kill();
    await limiter.bringBack(signal);
    await ask(url, ["DEL", ...SLOW_KEYS]);
  },
});

const canWrite = (path: string): boolean => {
  using db = new DatabaseSync(path, { timeout: 0 });
  try {
    db.exec("BEGIN IMMEDIATE; ROLLBACK");
    return true;
  } catch {
    return false;
  }
};

/** Holds a write lock on the SQLite file by a second connection; the lock ends with this process. */
export const locked = (path: string): OwnInjector => {
  let holder: DatabaseSync | null = null;
  return {
    inject: async () => {
      holder = new DatabaseSync(path, { timeout: CALL_MS });
      holder.exec("BEGIN EXCLUSIVE");
    },
    shows: async () => holder !== null && !canWrite(path),
    heal: async () => {
      if (holder?.isTransaction) holder.exec("ROLLBACK");
      holder?.close();
      holder = null;
    },
  };
};

/** Sets only the soft limit of the file size, which can be raised again. */
const limitFiles = async (pid: number, most: "0" | "unlimited"): Promise<void> => {
  await promisify(execFile)("prlimit", ["--pid", `${pid}`, `--fsize=${most}:`]).catch(
    ({ code, message }: NodeJS.ErrnoException) => {
      const missing = code === "ENOENT" ? "there is no prlimit here (util-linux, Linux only)" : message;
      throw new Error(`a full disk cannot be simulated: ${missing}`);
    },
  );
};

/** Forbids the process to write files, which looks like a full disk. */
export const diskFull = (limiter: Part): OwnInjector => ({
  inject: () => limitFiles(limiter.pid(), "0"),
  // A limit in force does not prove that the process tried to write.
  shows: null,
  heal: async (signal) => {
    if (limiter.isRunning()) await limitFiles(limiter.pid(), "unlimited");
    await limiter.bringBack(signal);
  },
});

/** Each fault of the store, made for the Redis or for the SQLite file behind a limiter. */
type StoreFaults<Store> = Partial<Record<StoreFault, (store: Store, limiter: Part) => OwnInjector>>;

const REDIS_FAULTS: StoreFaults<RedisPart> = {
  oom: ({ url }) => redisError(url, "OOM", ["CONFIG", "SET", "maxmemory", 1], ["CONFIG", "SET", "maxmemory", 0]),
  // The replica follows a master that does not exist, so that no data is replaced.
  readonly: ({ url }) => redisError(url, "READONLY", ["REPLICAOF", "127.0.0.1", 1], ["REPLICAOF", "NO", "ONE"]),
  noscript: ({ url }) => redisError(url, "NOSCRIPT", ["SCRIPT", "FLUSH"]),
  "aof-slow": ({ url }) => redisPaused(url),
  loading: redisLoading,
};

const SQLITE_FAULTS: StoreFaults<string> = { locked, "disk-full": (_, limiter) => diskFull(limiter) };

/** Throws if the fault belongs to another kind of store. */
export const storeInjector = (fault: StoreFault, { store, limiter }: OwnParts): OwnInjector => {
  const injector =
    store.kind === "redis" ? REDIS_FAULTS[fault]?.(store.redis, limiter) : SQLITE_FAULTS[fault]?.(store.path, limiter);
  if (injector === undefined) throw new Error(`a limiter in ${store.kind} has no error "${fault}"`);
  return injector;
};

// A process that this run started is killed, stopped or ended, and restarted on the same ports and store.

type ProcessFault = Extract<Fault, { by: "process" }>;

const GIVE_UP_MS = 500;
/** How long to wait for `UNSETTLED` open refunds, which begin when the API gives up its first calls. */
const UNSETTLED_MS = 5_000;
const UNSETTLED = 5;

const partOf = (own: OwnParts, { component, replica = 0 }: ProcessFault): Part => {
  if (component !== "api") return own[component];
  const part = own.apis[replica];
  if (part === undefined) throw new Error(`there is no replica ${replica + 1} of the API`);
  return part;
};

const untilRefundsAreUnderWay = async (apis: readonly string[], signal: AbortSignal): Promise<void> => {
  const areUnderWay = async (): Promise<boolean> =>
    (await readGauges(apis)).reduce((sum, { unsettled = 0 }) => sum + unsettled, 0) >= UNSETTLED;
  const { met } = await waitUntil(areUnderWay, { forMs: UNSETTLED_MS, pollMs: 10, signal });
  if (!met) throw new Error("no refund was in progress when the process was to be ended");
};

type Way = {
  inject(part: Part, apis: readonly string[], signal: AbortSignal): Promise<void>;
  shows(seen: LinkSeen, part: Part): boolean;
};

const isGone: Way["shows"] = ({ ended }, part) => ended === "refused" && !part.isRunning();

const WAYS: Readonly<Record<ProcessFault["fault"], Way>> = {
  killed: { inject: (part) => part.kill(), shows: isGone },
  restarted: { inject: (part) => part.endInOrder(), shows: isGone },
  "restarted-unsettled": {
    inject: async (part, apis, signal) => {
      await untilRefundsAreUnderWay(apis, signal);
      part.askToEnd();
    },
    // The process stops listening at once, and exits when its refunds are confirmed.
    shows: ({ ended }) => ended === "refused",
  },
  stopped: {
    inject: async (part) => part.stop(),
    // The kernel accepts the connection; the stopped process does not answer.
    shows: ({ ended, connected }) => ended === "silent" && connected,
  },
};

export const processInjector = (fault: ProcessFault, own: OwnParts, apis: readonly string[] = []): OwnInjector => {
  const part = partOf(own, fault);
  const way = WAYS[fault.fault];
  return {
    inject: (signal) => way.inject(part, apis, signal),
    shows: async () => way.shows(await observeLink(part.probe(GIVE_UP_MS)), part),
    heal: async (signal) => void (await part.bringBack(signal)),
  };
};
