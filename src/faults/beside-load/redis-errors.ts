/** Errors of a Redis of ours, and the proof that a call met them: Redis counts each kind of error that it answers with. */
import { randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import type { Part } from "../../deployments/part.ts";
import type { RedisPart } from "../../deployments/redis-part.ts";
import { pause } from "../../supervision/waiting.ts";
import { type Breaker, wakeUp } from "./breaker.ts";

/** What is done by commands to Redis: it ends with Redis itself. */
const BY_COMMAND = { stream: "both", undo: { how: "nothing" }, notes: [] } as const;
const TIMES = { injectMs: 10_000, effectMs: 8_000, healMs: 25_000 };
const CALL_MS = 3_000;
const AGAIN_MS = 50;

type Command = readonly [string, ...(string | number)[]];

/** On a connection of its own, past every proxy. */
const ask = async (url: string, ...commands: readonly Command[]): Promise<string[]> => {
  const redis = new Redis(url, {
    lazyConnect: true,
    enableReadyCheck: false,
    retryStrategy: () => null,
    commandTimeout: CALL_MS,
  });
  redis.on("error", () => {});
  try {
    const said: string[] = [];
    for (const [command, ...args] of commands) said.push(String(await redis.call(command, ...args)));
    return said;
  } finally {
    redis.disconnect();
  }
};

/** How often Redis has answered with this error since it was started. */
const errorsOf = async (url: string, error: string): Promise<number> => {
  const [said = ""] = await ask(url, ["INFO", "errorstats"]);
  return Number(new RegExp(`errorstat_${error}:count=(\\d+)`).exec(said)?.[1] ?? 0);
};

const SETTINGS: Readonly<Record<"OOM" | "READONLY", { put: Command; take: Command }>> = {
  OOM: { put: ["CONFIG", "SET", "maxmemory", 1], take: ["CONFIG", "SET", "maxmemory", 0] },
  // A master that is not there; what is stored stays.
  READONLY: { put: ["REPLICAOF", "127.0.0.1", 1], take: ["REPLICAOF", "NO", "ONE"] },
};

/** A setting under which Redis refuses every write, until it is taken back. */
export const redisSetting = (url: string, error: keyof typeof SETTINGS): Breaker => {
  const { put, take } = SETTINGS[error];
  let before = 0;
  return {
    ...TIMES,
    ...BY_COMMAND,
    inject: async () => {
      before = await errorsOf(url, error);
      await ask(url, put);
    },
    showsAtPart: async () => (await errorsOf(url, error)) > before,
    heal: async () => {
      await ask(url, take);
      return [];
    },
  };
};

/** Longer than any experiment; should nobody take it back, it ends by itself. */
const PAUSE_MS = 60_000;
const WRITE_MS = 300;

/** Writes wait, as behind a disk that does not come back; what reads is answered. */
export const redisPaused = (url: string): Breaker => ({
  ...TIMES,
  ...BY_COMMAND,
  inject: async () => void (await ask(url, ["CLIENT", "PAUSE", PAUSE_MS, "WRITE"])),
  showsAtPart: async () => {
    const wrote = ask(url, ["SET", "floodgate:written", 1]).then(
      () => true,
      () => false,
    );
    return (await Promise.race([wrote, pause(WRITE_MS).then(() => null)])) === null;
  },
  heal: async () => {
    await ask(url, ["CLIENT", "UNPAUSE"]);
    return [];
  },
});

/** The scripts are forgotten as often as they are loaded. */
export const redisNoScript = (url: string): Breaker => {
  const over = new AbortController();
  let before = 0;
  let flushing: Promise<void> = Promise.resolve();
  return {
    ...TIMES,
    ...BY_COMMAND,
    inject: async () => {
      before = await errorsOf(url, "NOSCRIPT");
      await ask(url, ["SCRIPT", "FLUSH"]);
      flushing = (async () => {
        while (!over.signal.aborted) {
          await pause(AGAIN_MS, over.signal);
          await ask(url, ["SCRIPT", "FLUSH"]);
        }
      })();
      flushing.catch(() => {});
    },
    showsAtPart: async () => (await errorsOf(url, "NOSCRIPT")) > before,
    heal: async () => {
      over.abort();
      await flushing;
      return [];
    },
  };
};

/** As many keys as it reads slowly, one by one, for longer than the fault is held. */
const SLOW_KEYS = 400;
const KEY_DELAY_US = 50_000;
/** While Redis loads, it looks at its connections once in so many bytes; no smaller number is taken. */
const LOOKS_AFTER_BYTES = 1024;
const SLOW = [
  ...["--key-load-delay", `${KEY_DELAY_US}`],
  ...["--loading-process-events-interval-bytes", `${LOOKS_AFTER_BYTES}`],
];
/** Larger than that, and not to be compressed, so that calls are answered after each key and not after forty. */
const slowKey = (at: number): Command => [
  "SET",
  `floodgate:filling:${at}`,
  randomBytes(LOOKS_AFTER_BYTES).toString("base64"),
];

/** Killed, and started again as one that has much to read: it listens, and answers LOADING. */
export const redisLoading = ({ url, nextArgs }: RedisPart, limiter: Part): Breaker => ({
  ...TIMES,
  stream: "both",
  notes: [],
  undo: wakeUp(limiter),
  inject: async (signal) => {
    const filling = Array.from({ length: SLOW_KEYS }, (_, at) => slowKey(at));
    await ask(url, ...filling, ["BGREWRITEAOF"]);
    const isRewriting = async (): Promise<boolean> =>
      /aof_rewrite_(in_progress|scheduled):1/.test((await ask(url, ["INFO", "persistence"])).join());
    while (await isRewriting()) await pause(AGAIN_MS, signal);
    await limiter.kill();
    nextArgs.push(...SLOW);
    await limiter.startAgain(signal);
  },
  showsAtPart: async () => {
    const said = await ask(url, ["GET", "floodgate:filling:0"]).catch((error: Error) => [error.message]);
    return said.join().includes("LOADING");
  },
  heal: async (signal) => {
    nextArgs.length = 0;
    if (limiter.isRunning()) await limiter.kill();
    await limiter.bringBack(signal);
    await ask(url, ["DEL", ...Array.from({ length: SLOW_KEYS }, (_, at) => `floodgate:filling:${at}`)]);
    return [];
  },
});
