/** Mutants of the limiter: what it decides, what is charged and what is counted. */
import type { TakeOutcome } from "../core/call.ts";
import type { Parts } from "../platform/parts.ts";
import { members, type Spoilt } from "./mutant.ts";

/** Long enough for those who called together to meet in it, also on a busy machine. */
const GAP_MS = 100;

const LONGER_MS = 1_500;

type Take = ReturnType<Parts["limiterLink"]>["take"];

/** The API's questions to the limiter, with `take` spoilt; state is of one link. */
const taking =
  (spoil: (take: Take, healthy: Parts) => Take) =>
  (healthy: Parts): Pick<Parts, "limiterLink"> => ({
    limiterLink: (limiter) => {
      const link = healthy.limiterLink(limiter);
      return { ...link, take: spoil((take, budgetMs) => link.take(take, budgetMs), healthy) };
    },
  });

type Store = ReturnType<Parts["limiterStore"]>;

/** The limiter's store, with some of its methods spoilt. */
const storing =
  (spoil: (store: Store, healthy: Parts) => Partial<Store>) =>
  (healthy: Parts): Pick<Parts, "limiterStore"> => ({
    limiterStore: (given) => {
      const store = healthy.limiterStore(given);
      return { ...store, ...spoil(store, healthy) };
    },
  });

export const SPOILT_LIMITER: readonly Spoilt[] = [
  // A counter on one path of several.
  {
    name: "counts-itself-wrong",
    harm: "the operator's graphs show no malformed calls on the day when every client broke",
    kills: ["counts-agree"],
    stage: "answers",
    spoil: (healthy) => ({
      count: (outcome, org) => (outcome.startsWith("422") ? null : healthy.count(outcome, org)),
    }),
  },
  // Counts labelled with whoever called before.
  {
    name: "counts-for-another-organization",
    harm: "the wrong customer is called about a flood that is somebody else's",
    kills: ["counts-agree"],
    stage: "answers",
    spoil: (healthy) => ({
      count: (() => {
        let before = "-";
        return (outcome: string, org: string) => {
          const counted = healthy.count(outcome, before);
          before = org;
          return counted;
        };
      })(),
    }),
  },
  // A meter that is asked and not written.
  {
    name: "charges-nobody",
    harm: "the product is given away, and nobody sees it before the year's books",
    kills: ["refused-is-not-charged", "counts-agree"],
    stage: "answers",
    spoil: taking((take) => (asked, budgetMs) => take({ ...asked, meter: null }, budgetMs)),
  },
  // Charged first, the cap looked at afterwards.
  {
    name: "charges-the-refused",
    harm: "whoever is refused for the allowance pays for each attempt",
    kills: ["refused-is-not-charged"],
    stage: "edge-of-quota",
    spoil: storing((spoilt) => ({
      take: async (takes, at) => {
        const answers = await spoilt.take(takes, at);
        const over = takes.filter(({ meter }, i) => meter !== null && answers[i]?.verdict === "over_cap");
        if (over.length > 0) {
          await spoilt.take(
            over.map((take) => ({ ...take, rate: null, meter: take.meter && { ...take.meter, cap: null } })),
            at,
          );
        }
        return answers;
      },
    })),
  },
  // A take repeated under a fresh id when its answer was lost.
  {
    name: "charges-the-retry-again",
    harm: "each hiccup of the limiter is paid for by whoever called just then",
    kills: ["charged-once"],
    stage: "limiter-reply-lost",
    spoil: taking(
      (take) => (asked, budgetMs) =>
        take(asked, budgetMs).catch(() => take({ ...asked, charge_id: `${asked.charge_id}-again` }, budgetMs)),
    ),
  },
  // A call refused because the limiter did not answer, and the charge left standing.
  {
    name: "keeps-the-charge-of-a-lost-reply",
    harm: "customers pay for refusals, exactly when the service is bad",
    kills: ["refused-is-not-charged", "counts-agree"],
    stage: "limiter-reply-lost",
    spoil: (healthy) => ({
      settlement: { refunds: (reason) => reason !== "answer-lost" && healthy.settlement.refunds(reason) },
    }),
  },
  // A refund that was confirmed too late, made once more.
  {
    name: "refunds-twice",
    harm: "allowances grow by themselves, and the books never close",
    kills: ["charged-once"],
    stage: "limiter-reply-lost",
    spoil: storing((spoilt) => ({
      ledger: function* (run) {
        for (const line of spoilt.ledger(run)) {
          yield line;
          if (line.kind === "refund") yield line;
        }
      },
      refund: async (refunds, at) => {
        await spoilt.refund(refunds, at);
        for (const { org, meter, amount } of refunds) {
          spoilt.setUsed(org, meter, Math.max(0, spoilt.used(org, meter, at) - amount), at);
        }
      },
    })),
  },
  // `<=` where `<` was meant.
  {
    name: "admits-one-too-many",
    harm: "each organization gets one load a month that nobody pays for",
    kills: ["admits-at-most-the-allowance"],
    stage: "edge-of-quota",
    spoil: members("limiterDecisions", () => ({
      fits: (used, amount, cap) => cap === null || used + amount <= cap + 1,
    })),
  },
  // The meter read, then written, with time in between.
  {
    name: "checks-then-charges-with-a-gap",
    harm: "whoever opens a hundred maps at once gets all of them, whatever the allowance",
    kills: ["admits-at-most-the-allowance"],
    stage: "edge-of-quota",
    spoil: storing((spoilt, healthy) => ({
      take: async (takes, at) => {
        const fitting = takes.map(({ org, meter }) => {
          if (meter === null) return true;
          return healthy.limiterDecisions.fits(spoilt.used(org, meter.name, at), meter.amount, meter.cap);
        });
        await new Promise((resolve) => setTimeout(resolve, GAP_MS));
        return spoilt.take(
          takes.map((take, i) =>
            fitting[i] && take.meter !== null ? { ...take, meter: { ...take.meter, cap: null } } : take,
          ),
          at,
        );
      },
    })),
  },
  // The client's request id taken for the charge's.
  {
    name: "trusts-the-client-id",
    harm: "a client that always sends the same id is charged once and served for ever",
    kills: ["admits-at-most-the-allowance"],
    stage: "edge-of-quota",
    spoil: () => ({
      chargeId: (_fresh, requestId) => requestId,
    }),
  },
  // A window computed once, at the start.
  {
    name: "forgets-the-new-month",
    harm: "on the first of the month nobody's allowance is renewed",
    kills: ["admits-what-is-allowed"],
    stage: "month-edge",
    spoil: members("limiterDecisions", (healthy) => ({
      windowOf: (() => {
        let first: string | undefined;
        return (nowMs: number): string => {
          first ??= healthy.windowOf(nowMs);
          return first;
        };
      })(),
    })),
  },
  // An organization kept from the call before, as shared state does it.
  {
    name: "counts-loads-on-the-wrong-organization",
    harm: "one customer pays for another one's maps",
    kills: ["organizations-do-not-share"],
    stage: "edge-of-quota",
    spoil: taking((take) => {
      let first: string | undefined;
      return (asked, budgetMs) => {
        first ??= asked.org;
        return take({ ...asked, org: first }, budgetMs);
      };
    }),
  },
  // Calls counted by the clock's second.
  {
    name: "doubles-at-the-window-edge",
    harm: "around each edge twice the limit comes through, which is what the limit was there to prevent",
    kills: ["rate-within-any-window"],
    stage: "rate-edge",
    spoil: members("limiterDecisions", () => ({
      // The stored number holds the window and how many calls it has had, three digits' worth.
      takeRate: (stored, nowMs, { perS, burst }) => {
        const second = Math.floor(nowMs / 1000);
        const known = stored ?? 0;
        const had = Math.floor(known / 1000) === second ? known % 1000 : 0;
        if (had >= perS + burst) return { allowed: false, tatMs: known, waitMs: 1000 - (nowMs % 1000) };
        return { allowed: true, tatMs: second * 1000 + had + 1, waitMs: 0 };
      },
    })),
  },
  // Buckets in each replica's own memory.
  {
    name: "limits-per-replica",
    harm: "every replica added to the deployment raises everybody's limit",
    kills: ["rate-within-any-window"],
    stage: "two-replicas",
    spoil: taking((take, { limiterDecisions }) => {
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
  },
  // Better served than refused, when the limiter is away.
  {
    name: "fails-open",
    harm: "whoever can slow the limiter down gets everything for nothing",
    kills: ["fails-closed"],
    stage: "limiter-refused",
    spoil: taking(
      (take) => (asked, budgetMs) =>
        take(asked, budgetMs).catch((): TakeOutcome => ({ verdict: "taken", used: 0, window: "" })),
    ),
  },
  // The deadline of the limiter's answer, longer than stated by more than a busy machine may make of it.
  {
    name: "hangs-instead-of-refusing",
    harm: "while the limiter is silent every call holds its slot, until the platform refuses everybody",
    kills: ["refuses-in-time"],
    stage: "limiter-reply-lost",
    spoil: taking((take) => (asked, budgetMs) => take(asked, budgetMs + LONGER_MS)),
  },
  // What was to be refunded is known to the process alone, and it does not wait for it when it is asked to end.
  {
    name: "forgets-refunds-on-restart",
    harm: "a deploy in the middle of an outage leaves customers charged for calls that were refused",
    kills: ["refused-is-not-charged"],
    stage: "restart-unsettled",
    spoil: () => ({
      refundsSettleOnStop: false,
    }),
  },
  // A circuit breaker that opens and has no way to close.
  {
    name: "stays-broken-after-healing",
    harm: "a second's fault lasts until somebody restarts the service",
    kills: ["recovers"],
    stage: "limiter-refused",
    spoil: taking((take) => {
      let broken: Error | undefined;
      return async (asked, budgetMs) => {
        if (broken !== undefined) throw broken;
        return take(asked, budgetMs).catch((error: Error) => {
          broken = error;
          throw error;
        });
      };
    }),
  },
  // A pool made anew whenever a connection is lost, and the old one left as it is: each new connection has one that nobody closes.
  {
    name: "leaks-a-pool",
    harm: "each outage of a dependency takes connections that never come back, until the service can open no more",
    kills: ["nothing-is-left-open"],
    stage: "pool-after-fault",
    spoil: (healthy) => ({
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
];
