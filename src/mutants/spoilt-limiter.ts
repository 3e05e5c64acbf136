/** Mutants of the limiter: what it decides, what is charged and what is counted. */
import type { TakeOutcome } from "../core/call.ts";
import type { Parts } from "../platform/parts.ts";
import { members, type Spoil, spoilt } from "./mutant.ts";

/** Long enough that calls sent together overlap in the gap, also on a busy machine. */
const GAP_MS = 100;

const LONGER_MS = 1_500;

type Take = ReturnType<Parts["limiterLink"]>["take"];

/** Spoils the API's `take` requests to the limiter. `spoil` is called once for each link, so each has its own state. */
const taking =
  (spoil: (take: Take, healthy: Parts) => Take): Spoil =>
  (healthy) => ({
    limiterLink: (limiter) => {
      const link = healthy.limiterLink(limiter);
      return { ...link, take: spoil((take, budgetMs) => link.take(take, budgetMs), healthy) };
    },
  });

type Store = ReturnType<Parts["limiterStore"]>;

/** The limiter's store, with some of its methods spoilt. */
const storing =
  (spoil: (store: Store, healthy: Parts) => Partial<Store>): Spoil =>
  (healthy) => ({
    limiterStore: (given) => {
      const store = healthy.limiterStore(given);
      return { ...store, ...spoil(store, healthy) };
    },
  });

export const SPOILT_LIMITER = spoilt(
  // biome-ignore format: a row is a line
  [
    ["counts-itself-wrong", "answers", ["counts-agree"], "the operator's graphs show no malformed calls on the day when every client broke"],
    ["counts-for-another-organization", "answers", ["counts-agree"], "the wrong customer is called about a flood that is somebody else's"],
    ["charges-nobody", "answers", ["refused-is-not-charged", "counts-agree"], "the product is given away, and nobody sees it before the year's books"],
    ["charges-the-refused", "edge-of-quota", ["refused-is-not-charged"], "whoever is refused for the allowance pays for each attempt"],
    ["charges-the-retry-again", "limiter-reply-lost", ["charged-once"], "each hiccup of the limiter is paid for by whoever called just then"],
    ["keeps-the-charge-of-a-lost-reply", "limiter-reply-lost", ["refused-is-not-charged", "counts-agree"], "customers pay for refusals, exactly when the service is bad"],
    ["refunds-twice", "limiter-reply-lost", ["charged-once"], "allowances grow by themselves, and the books never close"],
    ["admits-one-too-many", "edge-of-quota", ["admits-at-most-the-allowance"], "each organization gets one load a month that nobody pays for"],
    ["checks-then-charges-with-a-gap", "edge-of-quota", ["admits-at-most-the-allowance"], "whoever opens a hundred maps at once gets all of them, whatever the allowance"],
    ["trusts-the-client-id", "edge-of-quota", ["admits-at-most-the-allowance"], "a client that always sends the same id is charged once and served for ever"],
    ["forgets-the-new-month", "month-edge", ["admits-what-is-allowed"], "on the first of the month nobody's allowance is renewed"],
    ["counts-loads-on-the-wrong-organization", "edge-of-quota", ["organizations-do-not-share"], "one customer pays for another one's maps"],
    ["doubles-at-the-window-edge", "rate-edge", ["rate-within-any-window"], "around each edge twice the limit comes through, which is what the limit was there to prevent"],
    ["limits-per-replica", "two-replicas", ["rate-within-any-window"], "every replica added to the deployment raises everybody's limit"],
    ["fails-open", "limiter-refused", ["fails-closed"], "whoever can slow the limiter down gets everything for nothing"],
    ["hangs-instead-of-refusing", "limiter-reply-lost", ["refuses-in-time"], "while the limiter is silent every call holds its slot, until the platform refuses everybody"],
    ["forgets-refunds-on-restart", "restart-unsettled", ["refused-is-not-charged"], "a deploy in the middle of an outage leaves customers charged for calls that were refused"],
    ["stays-broken-after-healing", "limiter-refused", ["recovers"], "a second's fault lasts until somebody restarts the service"],
    ["leaks-a-pool", "pool-after-fault", ["nothing-is-left-open"], "each outage of a dependency takes connections that never come back, until the service can open no more"],
  ],
  {
    "counts-itself-wrong": (healthy) => ({
      count: (outcome, org) => (outcome.startsWith("422") ? null : healthy.count(outcome, org)),
    }),
    "counts-for-another-organization": ({ count }) => {
      let before = "-";
      return {
        count: (outcome, org) => {
          const counted = count(outcome, before);
          before = org;
          return counted;
        },
      };
    },
    "charges-nobody": taking((take) => (asked, budgetMs) => take({ ...asked, meter: null }, budgetMs)),
    "charges-the-refused": storing((store) => ({
      take: async (takes, at) => {
        const answers = await store.take(takes, at);
        const over = takes.filter(({ meter }, i) => meter !== null && answers[i]?.verdict === "over_cap");
        if (over.length > 0) {
          await store.take(
            over.map((take) => ({ ...take, rate: null, meter: take.meter && { ...take.meter, cap: null } })),
            at,
          );
        }
        return answers;
      },
    })),
    "charges-the-retry-again": taking(
      (take) => (asked, budgetMs) =>
        take(asked, budgetMs).catch(() => take({ ...asked, charge_id: `${asked.charge_id}-again` }, budgetMs)),
    ),
    "keeps-the-charge-of-a-lost-reply": (healthy) => ({
      settlement: { refunds: (reason) => reason !== "answer-lost" && healthy.settlement.refunds(reason) },
    }),
    "refunds-twice": storing((store) => ({
      ledger: function* (run) {
        for (const line of store.ledger(run)) {
          yield line;
          if (line.kind === "refund") yield line;
        }
      },
      refund: async (refunds, at) => {
        await store.refund(refunds, at);
        for (const { org, meter, amount } of refunds) {
          store.setUsed(org, meter, Math.max(0, store.used(org, meter, at) - amount), at);
        }
      },
    })),
    "admits-one-too-many": members("limiterDecisions", () => ({
      fits: (used, amount, cap) => cap === null || used + amount <= cap + 1,
    })),
    "checks-then-charges-with-a-gap": storing((store, healthy) => ({
      take: async (takes, at) => {
        const fitting = takes.map(({ org, meter }) => {
          if (meter === null) return true;
          return healthy.limiterDecisions.fits(store.used(org, meter.name, at), meter.amount, meter.cap);
        });
        await new Promise((resolve) => setTimeout(resolve, GAP_MS));
        return store.take(
          takes.map((take, i) =>
            fitting[i] && take.meter !== null ? { ...take, meter: { ...take.meter, cap: null } } : take,
          ),
          at,
        );
      },
    })),
    "trusts-the-client-id": () => ({ chargeId: (_fresh, requestId) => requestId }),
    "forgets-the-new-month": members("limiterDecisions", ({ windowOf }) => {
      let first: string | undefined;
      return {
        windowOf: (nowMs) => {
          first ??= windowOf(nowMs);
          return first;
        },
      };
    }),
    // Shared state keeps the organization of the first call.
    "counts-loads-on-the-wrong-organization": taking((take) => {
      let first: string | undefined;
      return (asked, budgetMs) => {
        first ??= asked.org;
        return take({ ...asked, org: first }, budgetMs);
      };
    }),
    "doubles-at-the-window-edge": members("limiterDecisions", () => ({
      // The stored number is the second times 1000 plus the number of calls admitted in it.
      takeRate: (stored, nowMs, { perS, burst }) => {
        const second = Math.floor(nowMs / 1000);
        const known = stored ?? 0;
        const had = Math.floor(known / 1000) === second ? known % 1000 : 0;
        if (had >= perS + burst) return { allowed: false, tatMs: known, waitMs: 1000 - (nowMs % 1000) };
        return { allowed: true, tatMs: second * 1000 + had + 1, waitMs: 0 };
      },
    })),
    "limits-per-replica": taking((take, { limiterDecisions }) => {
      const buckets = new Map<string, number>();
      return async (asked, budgetMs) => {
        if (asked.rate !== null) {
          const taken = limiterDecisions.takeRate(buckets.get(asked.key), performance.now(), asked.rate);
          if (!taken.allowed) return { verdict: "rate_limited", wait_ms: taken.waitMs };
          buckets.set(asked.key, taken.tatMs);
        }
        return take({ ...asked, rate: null }, budgetMs);
      };
    }),
    "fails-open": taking(
      (take) => (asked, budgetMs) =>
        take(asked, budgetMs).catch((): TakeOutcome => ({ verdict: "taken", used: 0, window: "" })),
    ),
    "hangs-instead-of-refusing": taking((take) => (asked, budgetMs) => take(asked, budgetMs + LONGER_MS)),
    "forgets-refunds-on-restart": () => ({ refundsSettleOnStop: false }),
    // A circuit breaker opens and never closes.
    "stays-broken-after-healing": taking((take) => {
      let broken: Error | undefined;
      return async (asked, budgetMs) => {
        if (broken !== undefined) throw broken;
        return take(asked, budgetMs).catch((error: Error) => {
          broken = error;
          throw error;
        });
      };
    }),
    // A lost connection makes a new pool and the old one is not closed: with each new connection, one more stays open.
    "leaks-a-pool": (healthy) => ({
      linkNetwork: (network) => {
        const link = healthy.linkNetwork(network);
        return {
          ...link,
          connect: (at) => {
            const forgotten = link.connect(at);
            forgotten.on("error", () => forgotten.destroy());
            return link.connect(at);
          },
        };
      },
    }),
  },
);
