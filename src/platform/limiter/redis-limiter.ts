/**
 * The limiter in Redis, for replicas that share their counts: one script call a batch, nothing queued or sent again.
 * With `appendonly yes` and `appendfsync always`, Redis loses nothing that was answered.
 */

import { Redis } from "ioredis";
import type { LedgerLine } from "../../contract/routes.ts";
import { createBatcher, readEach } from "../links/batch.ts";
import { OPERATOR_BUDGET_MS, type OperableLimiter, readRefundAnswer, readTakeAnswer } from "../ports.ts";

// The limiter's decisions as Lua, with the meaning of `store.ts` (one suite judges both), by Redis's own time. For a single
// Redis, not a cluster. Each script first writes what a full or read-only Redis refuses, so it runs whole or not at all.

/** How long charges and meters are kept: at least the rest of their month and the whole next one. */
const KEEP_MS = 62 * 86_400_000;

const PRELUDE = `
local prefix = ARGV[1]
local keep_ms = ${KEEP_MS}
local time = redis.call('TIME')
-- From a nearer moment than 1970, so that sums of fractions lose less; rounding_ms forgives the rest.
local epoch_s, rounding_ms = 1750000000, 0.01
local steady_ms = (tonumber(time[1]) - epoch_s) * 1000 + tonumber(time[2]) / 1000
local real_ms = math.floor(steady_ms) + epoch_s * 1000
local now_ms = real_ms + tonumber(redis.call('GET', prefix .. 'clock_offset') or '0')

local function window_of(ms)
  local z = math.floor(ms / 86400000) + 719468
  local era = math.floor(z / 146097)
  local day_of_era = z - era * 146097
  local year_of_era = math.floor((day_of_era - math.floor(day_of_era / 1460) + math.floor(day_of_era / 36524)
    - math.floor(day_of_era / 146096)) / 365)
  local day_of_year = day_of_era - (365 * year_of_era + math.floor(year_of_era / 4) - math.floor(year_of_era / 100))
  local shifted = math.floor((5 * day_of_year + 2) / 153)
  local month = shifted < 10 and shifted + 3 or shifted - 9
  return string.format('%d-%02d', year_of_era + era * 400 + (month <= 2 and 1 or 0), month)
end

local window = window_of(now_ms)
local function count(n) return string.format('%.0f', n) end
local function meter_key(org, meter, month) return prefix .. 'meter:' .. month .. ':' .. meter .. ':' .. org end
local function charge_key(id) return prefix .. 'charge:' .. id end

local function write_line(kind, id, request_id, org, key, meter, amount, month)
  redis.call('XADD', prefix .. 'ledger', 'MINID', '~', count(real_ms - keep_ms), '*', 'line', cjson.encode({
    charge_id = id, request_id = request_id, org = org, key = key, meter = meter, kind = kind,
    amount = tonumber(amount), window = month, at = now_ms }))
end
`;

/** ARGV: prefix, then the takes of the batch as JSON. Answers JSON as `readTakeAnswer` reads it. */
const TAKE = `
-- Buckets of this batch: a key that has many calls in it is read once and written once.
local tats, keys_taken = {}, {}
local null = cjson.null

local function tat_of(key, tolerance_ms, interval_ms)
  local tat = tats[key] or math.max(tonumber(redis.call('GET', prefix .. 'rate:' .. key) or '0'), steady_ms)
  -- Redis keeps the host's clock, which may be set back; no bucket is emptier than empty.
  return math.min(tat, steady_ms + tolerance_ms + interval_ms)
end

local function take(asked)
  local id, key, org, rate, meter = asked.charge_id, asked.key, asked.org, asked.rate, asked.meter
  if meter ~= null then
    local known = redis.call('HMGET', charge_key(id), 'refunded', 'used', 'window')
    if known[1] == '1' then return { verdict = 'refunded' } end
    if known[1] then return { verdict = 'taken', window = known[3], used = tonumber(known[2]) } end
  end

  local tat
  if rate ~= null then
    local interval_ms = 1000 / rate.perS
    local tolerance_ms = interval_ms * (rate.burst - 1)
    tat = tat_of(key, tolerance_ms, interval_ms)
    local wait_ms = tat - tolerance_ms - steady_ms
    if wait_ms > rounding_ms then return { verdict = 'rate_limited', wait_ms = wait_ms } end
    tat = tat + interval_ms
  end

  local used = null
  if meter ~= null then
    local name = meter_key(org, meter.name, window)
    local before = tonumber(redis.call('GET', name) or '0')
    if meter.cap ~= null and before + meter.amount > meter.cap then
      return { verdict = 'over_cap', window = window, used = before }
    end
    used = redis.call('INCRBY', name, meter.amount)
    redis.call('PEXPIRE', name, keep_ms)
    redis.call('HSET', charge_key(id), 'org', org, 'key', key, 'meter', meter.name, 'amount', count(meter.amount),
      'window', window, 'used', count(used), 'refunded', '0')
    redis.call('PEXPIRE', charge_key(id), keep_ms)
    write_line('charge', id, asked.request_id, org, key, meter.name, meter.amount, window)
  end
  if tat then
    if not tats[key] then keys_taken[#keys_taken + 1] = key end
    tats[key] = tat
  end
  return { verdict = 'taken', window = window, used = used }
end

local answers = {}
for at, asked in ipairs(cjson.decode(ARGV[2])) do
  answers[at] = take(asked)
  answers[at].charge_id = asked.charge_id
end
for _, key in ipairs(keys_taken) do
  -- Gone once the bucket is full again.
  redis.call('SET', prefix .. 'rate:' .. key, string.format('%.17g', tats[key]),
    'PX', math.max(1, math.ceil(tats[key] - steady_ms)))
end
return cjson.encode(answers)
`;

/** ARGV: prefix, then the refunds of the batch as JSON. Answers JSON as `readRefundAnswer` reads it. */
const REFUND = `
local function refund(id, request_id)
  local known = redis.call('HMGET', charge_key(id), 'refunded', 'org', 'key', 'meter', 'amount', 'window')
  if known[1] == '1' then return end
  redis.call('HSET', charge_key(id), 'refunded', '1')
  redis.call('PEXPIRE', charge_key(id), keep_ms)
  if not known[1] then return end
  local org, key, meter, amount, month = known[2], known[3], known[4], tonumber(known[5]), known[6]
  local name = meter_key(org, meter, month)
  -- An operator may have set the meter lower since.
  local left = math.max(0, tonumber(redis.call('GET', name) or '0') - amount)
  redis.call('SET', name, count(left), 'PX', keep_ms)
  write_line('refund', id, request_id, org, key, meter, amount, month)
end

local answers = {}
for at, asked in ipairs(cjson.decode(ARGV[2])) do
  refund(asked.charge_id, asked.request_id)
  answers[at] = { charge_id = asked.charge_id, refunded = true }
end
return cjson.encode(answers)
`;

const SCRIPTS = {
  take: TAKE,
  refund: REFUND,
  used: "return redis.call('GET', meter_key(ARGV[2], ARGV[3], window)) or '0'",
  setUsed: "return redis.call('SET', meter_key(ARGV[2], ARGV[3], window), ARGV[4], 'PX', keep_ms)",
};
type ScriptName = keyof typeof SCRIPTS;

/** The most script calls in flight on the one connection, which pipelines them. */
const MAX_CALLS = 64;
const RECONNECT_MS = 50;
const PAGE_LINES = 500;

/** `url`: `redis://[[user]:password@]host[:port][/db]`. `prefix` keeps deployments apart that share a Redis. */
export const createRedisLimiter = (options: { url: string; prefix?: string }): OperableLimiter => {
  const prefix = options.prefix ?? "floodgate:";
  const redis = new Redis(options.url, {
    // A script is sent again only if Redis has forgotten it and so ran nothing. Nothing else is sent again.
    scripts: Object.fromEntries(
      Object.entries(SCRIPTS).map(([name, lua]) => [name, { lua: PRELUDE + lua, numberOfKeys: 0 }]),
    ),
    protocol: 2,
    disableClientInfo: true,
    // LOADING is an answer like any other error; asking INFO first would only delay recovery.
    enableReadyCheck: false,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // Reconnects at once after a break, then at fixed intervals; growing ones would only delay recovery.
    retryStrategy: (attempt) => (attempt === 1 ? 0 : RECONNECT_MS),
    connectTimeout: 250,
    commandTimeout: OPERATOR_BUDGET_MS,
    disconnectTimeout: 1,
  });
  // Each call reports its own error; without a listener ioredis would print.
  redis.on("error", () => {});
  let answeredMs = 0;

  /** Waits for the end of a connection attempt in progress; between attempts, calls fail at once. */
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

  const commands = redis as unknown as Record<ScriptName, (...args: (string | number)[]) => Promise<unknown>>;

  const batcher = <Item, Answer>(script: ScriptName, read: (item: Item, reply: unknown) => Answer) =>
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
          const replies: unknown = JSON.parse((await commands[script](prefix, JSON.stringify(items))) as string);
          answeredMs = performance.now();
          return readEach(items, replies, read);
        } finally {
          signal.removeEventListener("abort", giveUp);
        }
      },
      dependency: `the limiter in Redis at ${new URL(options.url).host}`,
      maxInFlight: MAX_CALLS,
    });

  const takes = batcher("take", readTakeAnswer);
  const refunds = batcher("refund", readRefundAnswer);

  const operate = async <T>(work: () => Promise<T>): Promise<T> => {
    await connected(AbortSignal.timeout(OPERATOR_BUDGET_MS));
    return work();
  };

  return {
    take: takes.ask,
    refund: refunds.ask,
    used: async (org, meter) => Number(await operate(() => commands.used(prefix, org, meter))),
    setUsed: async (org, meter, used) => void (await operate(() => commands.setUsed(prefix, org, meter, used))),
    ledger: async function* (run) {
      const stream = `${prefix}ledger`;
      const upTo = (await operate(() => redis.xrevrange(stream, "+", "-", "COUNT", 1)))[0]?.[0];
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
    setClockOffset: async (offsetMs) => void (await operate(() => redis.set(`${prefix}clock_offset`, offsetMs))),
    close: async () => {
      takes.close();
      refunds.close();
      redis.disconnect();
    },
  };
};
