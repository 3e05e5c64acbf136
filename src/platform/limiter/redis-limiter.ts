/**
 * The limiter in Redis, for replicas that share their counts: one script call a batch, nothing queued or sent again.
 * `appendonly yes` and `appendfsync always` of Redis lose nothing that was answered.
 */

import { Redis } from "ioredis";
import type { TakeOutcome } from "../../core/call.ts";
import type { LedgerLine } from "../../core/meters.ts";
import { LimiterUnavailable, type OperableLimiter, type Refund, type Take } from "../limiter.ts";
import { createBatcher, readEach } from "../links/batch.ts";
import { readRefundAnswer, readTakeAnswer } from "./http-limiter.ts";
import { REFUND, type RedisScript, SET_USED, TAKE, USED } from "./redis-scripts.ts";

/** Script calls under way: on one connection the next need not wait for the last. */
const MAX_CALLS = 64;
const CONNECT_TIMEOUT_MS = 250;
const RECONNECT_MS = 50;
/** For what no call waits for: the ledger, reading and setting meters. */
const OPERATOR_BUDGET_MS = 5_000;
const PAGE_LINES = 500;

const takeRow = ({ charge_id, key, rate, meter, request_id, org }: Take): unknown[] => {
  const row = [charge_id, key, rate?.perS ?? null, rate?.burst ?? null];
  return meter === null ? row : [...row, request_id, org, meter.name, meter.amount, meter.cap];
};

const readTakeReply = (take: Take, reply: unknown): TakeOutcome => {
  const [charge_id, verdict, window, figure] = reply as unknown[];
  const figures = verdict === "rate_limited" ? { wait_ms: figure } : { used: figure };
  return readTakeAnswer(take, { charge_id, verdict, window, ...figures });
};

/** `url`: `redis://[[user]:password@]host[:port][/db]`. `prefix` keeps deployments apart that share a Redis. */
export const createRedisLimiter = (options: { url: string; prefix?: string }): OperableLimiter => {
  const prefix = options.prefix ?? "floodgate:";
  const address = new URL(options.url).host;
  const redis = new Redis(options.url, {
    protocol: 2,
    disableClientInfo: true,
    // LOADING is an answer like any other error; asking INFO first would only delay recovery.
    enableReadyCheck: false,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // At once after a break, then at a steady pace: a longer one would only delay recovery.
    retryStrategy: (attempt) => (attempt === 1 ? 0 : RECONNECT_MS),
    connectTimeout: CONNECT_TIMEOUT_MS,
    commandTimeout: OPERATOR_BUDGET_MS,
    disconnectTimeout: 1,
  });
  // Each call reports its own error; without a listener ioredis would print.
  redis.on("error", () => {});
  let answeredMs = 0;

  /** Lets a connection attempt that is under way come to its end; between attempts, calls fail at once. */
  const connected = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (redis.status !== "connecting" && redis.status !== "connect") return resolve();
      const done = (): void => {
        redis.off("ready", done).off("close", done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      redis.on("ready", done).on("close", done);
      signal.addEventListener("abort", done);
    });

  const run = async (script: RedisScript, args: (string | number)[]): Promise<unknown> => {
    try {
      return await redis.evalsha(script.sha, 0, prefix, ...args);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      // Redis has forgotten the script, so nothing has run: the one case in which anything is sent again.
      return redis.eval(script.source, 0, prefix, ...args);
    }
  };

  const batcher = <Item, Answer>(
    script: RedisScript,
    write: (item: Item) => unknown,
    read: (item: Item, reply: unknown) => Answer,
  ) =>
    createBatcher<Item, Answer>({
      send: async (items, signal) => {
        await connected(signal);
        if (signal.aborted) throw new Error("nobody waits any more");
        const sentMs = performance.now();
        // A connection that has been silent for a whole budget may be dead, and must not delay recovery.
        const giveUp = (): void => {
          if (answeredMs < sentMs && redis.status === "ready") redis.disconnect(true);
        };
        signal.addEventListener("abort", giveUp);
        try {
          const replies: unknown = JSON.parse((await run(script, [JSON.stringify(items.map(write))])) as string);
          answeredMs = performance.now();
          return readEach(items, replies, read);
        } finally {
          signal.removeEventListener("abort", giveUp);
        }
      },
      unavailable: (reason, cause) =>
        new LimiterUnavailable(
          `the limiter in Redis at ${address} gave no valid answer: ${cause instanceof Error ? cause.message : reason}`,
          { cause },
        ),
      maxInFlight: MAX_CALLS,
    });

  const takes = batcher(TAKE, takeRow, readTakeReply);
  const refunds = batcher(REFUND, ({ charge_id, request_id }: Refund) => ({ charge_id, request_id }), readRefundAnswer);

  const operate = async (script: RedisScript, ...args: (string | number)[]): Promise<unknown> => {
    await connected(AbortSignal.timeout(OPERATOR_BUDGET_MS));
    return run(script, args);
  };

  return {
    take: takes.ask,
    refund: refunds.ask,
    used: async (org, meter) => Number(await operate(USED, org, meter)),
    setUsed: async (org, meter, used) => {
      await operate(SET_USED, org, meter, used);
    },
    ledger: async function* (run) {
      await connected(AbortSignal.timeout(OPERATOR_BUDGET_MS));
      const stream = `${prefix}ledger`;
      const upTo = (await redis.xrevrange(stream, "+", "-", "COUNT", 1))[0]?.[0];
      if (upTo === undefined) return;
      let from = "-";
      for (;;) {
        const page = await redis.xrange(stream, from, upTo, "COUNT", PAGE_LINES);
        for (const [, fields] of page) {
          const line = JSON.parse(fields[1] as string) as LedgerLine;
          if (line.request_id.startsWith(run)) yield line;
        }
        const last = page.at(-1)?.[0];
        if (last === undefined) return;
        from = `(${last}`;
      }
    },
    setClockOffset: async (offsetMs) => {
      await connected(AbortSignal.timeout(OPERATOR_BUDGET_MS));
      await redis.set(`${prefix}clock_offset`, offsetMs);
    },
    close: async () => {
      takes.close();
      refunds.close();
      redis.disconnect();
    },
  };
};
