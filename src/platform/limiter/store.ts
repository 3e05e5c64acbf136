/**
 * The limiter: takes and refunds over SQLite (requirements.md, B4), a batch as one transaction. A charge happens once for each id; a
 * refund undoes it for good, in its month, even if it comes first. A repeat of a refused take is decided afresh.
 */
import type { SQLOutputValue } from "node:sqlite";
import { Type } from "typebox";
import type { LedgerLine, Meter } from "../../contract/routes.ts";
import type { TakeOutcome } from "../../core/call.ts";
import { fits, windowOf } from "../../core/meters.ts";
import { takeRate } from "../../core/rate-limit.ts";
import type { Service } from "../control-plane.ts";
import * as serving from "../links/http-service.ts";
import { type Clock, type Instant, METER, REFUND, type Refund, TAKE, type Take } from "../ports.ts";
import { openSqlite } from "../sqlite.ts";

/** `refunded`: the charge was undone before it arrived; nothing was taken and the call must not be admitted. */
export type StoreAnswer = TakeOutcome | { verdict: "refunded" };

export type LimiterStore = ReturnType<typeof openLimiterStore>;

export const LIMITER_DECISIONS = { takeRate, fits, windowOf };

/** Below this many buckets, a sweep for full ones is not worth its cost. */
const SWEEP_FROM = 1024;

/** The rate buckets of all keys, in memory. A full bucket equals a new one and is dropped. */
export const rateBuckets = () => {
  const tats = new Map<string, number>();
  let sweepAt = SWEEP_FROM;
  return {
    tatMs: (key: string): number | undefined => tats.get(key),
    set: (key: string, tatMs: number, steadyMs: number): void => {
      tats.set(key, tatMs);
      if (tats.size < sweepAt) return;
      for (const [name, tat] of tats) if (tat <= steadyMs) tats.delete(name);
      // Twice what is left, so that sweeps cost a constant for each bucket made.
      sweepAt = Math.max(SWEEP_FROM, tats.size * 2);
    },
    size: (): number => tats.size,
  };
};

/** A refund of a charge that never arrived leaves a row of `amount` 0: its tombstone. */
const SCHEMA = `
  CREATE TABLE meters (org TEXT, meter TEXT, window TEXT, used INTEGER NOT NULL, PRIMARY KEY (window, org, meter))
    WITHOUT ROWID;
  CREATE TABLE charges (
    id TEXT PRIMARY KEY, org TEXT NOT NULL, key TEXT NOT NULL, meter TEXT NOT NULL, amount INTEGER NOT NULL,
    window TEXT NOT NULL, used INTEGER NOT NULL, refunded INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE ledger (
    number INTEGER PRIMARY KEY AUTOINCREMENT, charge_id TEXT NOT NULL, request_id TEXT NOT NULL, org TEXT NOT NULL,
    key TEXT NOT NULL, meter TEXT NOT NULL, kind TEXT NOT NULL, amount INTEGER NOT NULL, window TEXT NOT NULL,
    at INTEGER NOT NULL
  );
`;
const PAGE_LINES = 500;

/** `used`: the meter after the charge, which answers a repeat. */
type Charge = { org: string; key: string; meter: Meter; amount: number; window: string; used: number };

export const openLimiterStore = (path: string, decisions = LIMITER_DECISIONS) => {
  const { db, transaction } = openSqlite(path, SCHEMA);
  const getCharge = db.prepare("SELECT org, key, meter, amount, window, used, refunded FROM charges WHERE id = ?");
  const putCharge = db.prepare(
    "INSERT INTO charges VALUES (:id, :org, :key, :meter, :amount, :window, :used, :refunded)",
  );
  const markRefunded = db.prepare("UPDATE charges SET refunded = 1 WHERE id = ?");
  const getUsed = db.prepare("SELECT used FROM meters WHERE window = ? AND org = ? AND meter = ?");
  const putUsed = db.prepare(
    "INSERT INTO meters (window, org, meter, used) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET used = excluded.used",
  );
  const append = db.prepare(
    "INSERT INTO ledger VALUES (NULL, :charge_id, :request_id, :org, :key, :meter, :kind, :amount, :window, :at)",
  );
  const lastLine = db.prepare("SELECT max(number) AS number FROM ledger");
  const lines = db.prepare("SELECT * FROM ledger WHERE number > ? AND number <= ? ORDER BY number LIMIT ?");
  const drops = ["meters", "charges", "ledger"].map((table) => db.prepare(`DELETE FROM ${table} WHERE window < ?`));

  const chargeOf = (id: string) => getCharge.get(id) as (Charge & { refunded: 0 | 1 }) | undefined;
  const usedOf = (org: string, meter: Meter, window: string) => Number(getUsed.get(window, org, meter)?.used ?? 0);
  const appendLine = (
    kind: LedgerLine["kind"],
    { charge_id, request_id }: Take | Refund,
    { used: _, ...charge }: Charge,
    at: Instant,
  ): void => {
    append.run({ charge_id, request_id, kind, ...charge, at: Math.round(at.nowMs) });
  };

  const buckets = rateBuckets();
  /** Rate states that the current batch has changed, kept only if the batch is stored. */
  let taken = new Map<string, number>();

  const takeOne = (take: Take, at: Instant): StoreAnswer => {
    const { rate, meter, org, key, charge_id } = take;
    if (meter !== null) {
      const known = chargeOf(charge_id);
      if (known?.refunded === 1) return { verdict: "refunded" };
      if (known !== undefined) return { verdict: "taken", used: known.used, window: known.window };
    }
    const rated = rate === null ? null : decisions.takeRate(taken.get(key) ?? buckets.tatMs(key), at.steadyMs, rate);
    if (rated !== null && !rated.allowed) return { verdict: "rate_limited", wait_ms: rated.waitMs };
    const window = decisions.windowOf(at.nowMs);
    let used: number | null = null;
    if (meter !== null) {
      const before = usedOf(org, meter.name, window);
      if (!decisions.fits(before, meter.amount, meter.cap)) return { verdict: "over_cap", used: before, window };
      used = before + meter.amount;
      const charge = { org, key, meter: meter.name, amount: meter.amount, window, used };
      putUsed.run(window, org, meter.name, used);
      putCharge.run({ id: charge_id, ...charge, refunded: 0 });
      appendLine("charge", take, charge, at);
    }
    if (rated !== null) taken.set(key, rated.tatMs);
    return { verdict: "taken", used, window };
  };

  const refundOne = (refund: Refund, at: Instant): void => {
    const { charge_id, org, key, meter } = refund;
    const known = chargeOf(charge_id);
    if (known?.refunded === 1) return;
    if (known === undefined) {
      const none = { amount: 0, window: decisions.windowOf(at.nowMs), used: 0 };
      putCharge.run({ id: charge_id, org, key, meter, ...none, refunded: 1 });
      return;
    }
    markRefunded.run(charge_id);
    // An operator may have set the meter lower since.
    const left = Math.max(0, usedOf(known.org, known.meter, known.window) - known.amount);
    putUsed.run(known.window, known.org, known.meter, left);
    const { refunded: _, ...charge } = known;
    appendLine("refund", refund, charge, at);
  };

  return {
    /** When it returns, every charge of the batch is stored; when it throws, none is. */
    take: (takes: readonly Take[], at: Instant): StoreAnswer[] | Promise<StoreAnswer[]> => {
      taken = new Map();
      const metered = takes.some(({ meter }) => meter !== null);
      const decide = (): StoreAnswer[] => takes.map((take) => takeOne(take, at));
      const answers = metered ? transaction(decide) : decide();
      for (const [key, tatMs] of taken) buckets.set(key, tatMs, at.steadyMs);
      return answers;
    },
    refund: (refunds: readonly Refund[], at: Instant): void | Promise<void> =>
      transaction(() => {
        for (const refund of refunds) refundOne(refund, at);
      }),
    used: (org: string, meter: Meter, at: Instant): number => usedOf(org, meter, decisions.windowOf(at.nowMs)),
    setUsed: (org: string, meter: Meter, used: number, at: Instant): void =>
      void putUsed.run(decisions.windowOf(at.nowMs), org, meter, used),
    /** Oldest first, read page by page, up to the last line when it is called. `run`: a prefix of the request id. */
    ledger: function* (run: string): Iterable<LedgerLine> {
      const upTo = Number(lastLine.get()?.number ?? 0);
      for (let after = 0; ; ) {
        const page: Record<string, SQLOutputValue>[] = lines.all(after, upTo, PAGE_LINES);
        for (const { number, ...line } of page) {
          after = Number(number);
          if (String(line.request_id).startsWith(run)) yield line as unknown as LedgerLine;
        }
        if (page.length === 0) return;
      }
    },
    /** Forgets months before `window` (`YYYY-MM` by the real clock, so that a shifted clock deletes no ledger). */
    dropBefore: (window: string): void =>
      transaction(() => {
        for (const drop of drops) drop.run(window);
      }),
    close: () => db.close(),
  };
};

// The limiter service, whose counts the API replicas share: takes and refunds in batches; the ledger for operators.

export const ledgerRoute = (ledger: (run: string) => Iterable<LedgerLine> | AsyncIterable<LedgerLine>) =>
  serving.route("GET", "/ledger", ({ query }) => serving.ndjson(ledger(query.get("run") ?? "")));

const FORGET_EVERY_MS = 3_600_000;

/** The month before that of `nowMs`, which is the oldest that is kept. */
export const oldestKeptWindow = (nowMs: number): string => windowOf(nowMs - new Date(nowMs).getUTCDate() * 86_400_000);

const TAKES = Type.Object({ takes: Type.Array(TAKE) });
const REFUNDS = Type.Object({ refunds: Type.Array(REFUND) });
const USED = Type.Object({ org: Type.String(), meter: METER, used: Type.Integer({ minimum: 0 }) });

const limiterRoutes = (store: LimiterStore, clock: Clock): serving.ServiceRoute[] => [
  serving.routeWith(TAKES, "POST", "/takes", async ({ takes }) => {
    const answers = await store.take(takes, clock.instant());
    return { answers: takes.map(({ charge_id }, at) => ({ charge_id, ...answers[at] })) };
  }),
  serving.routeWith(REFUNDS, "POST", "/refunds", async ({ refunds }) => {
    await store.refund(refunds, clock.instant());
    return { answers: refunds.map(({ charge_id }) => ({ charge_id, refunded: true })) };
  }),
  serving.route("GET", "/meters", ({ query }) => {
    const [org, meter] = [query.get("org"), query.get("meter")];
    if (org === null || (meter !== "map_loads" && meter !== "design_analyses")) {
      throw new serving.RequestError(422, "expected ?org=ID&meter=map_loads|design_analyses");
    }
    const at = clock.instant();
    return { org, meter, used: store.used(org, meter, at), window: windowOf(at.nowMs) };
  }),
  serving.routeWith(USED, "PUT", "/meters", (set) => {
    store.setUsed(set.org, set.meter, set.used, clock.instant());
    return set;
  }),
];

export const startLimiterService = async (
  { store, clock }: { store: LimiterStore; clock: Clock },
  at: serving.ListenAt,
): Promise<Service> => {
  const forget = (): void => store.dropBefore(oldestKeptWindow(clock.nowMs() - clock.offsetMs()));
  forget();
  const service = await serving.startHttpService({ ...at, routes: limiterRoutes(store, clock) });
  const forgetting = setInterval(forget, FORGET_EVERY_MS);
  forgetting.unref();
  return {
    url: service.url,
    control: { routes: [ledgerRoute(store.ledger)] },
    close: async () => {
      clearInterval(forgetting);
      await service.close();
      store.close();
    },
  };
};
