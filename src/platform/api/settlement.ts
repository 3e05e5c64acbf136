/**
 * Charges that must be undone: the limiter's answer was lost, the client left before the head was written, or the work
 * failed. A refund is repeated until the limiter confirms it, also when the charge may never have arrived. When too
 * much is unsettled, metered calls are refused (fail closed).
 */
import type { Limiter, Refund, Take } from "../limiter.ts";

type RefundReason = "answer-lost" | "client-left" | "work-failed";

export type RefundPolicy = {
  refunds(reason: RefundReason): boolean;
};

export type Settlement = {
  undo(take: Take, reason: RefundReason): void;
  unsettled(): number;
  isFull(): boolean;
  /** Resolves when everything is settled, or at the deadline; returns how many are left. */
  drain(deadlineMs: number): Promise<number>;
  close(): void;
};

const UNSETTLED_MAX = 100_000;
const PARALLEL = 64;
const BACKOFF_MS = { first: 25, most: 1_000 };

export const createSettlement = (limiter: Limiter, policy: RefundPolicy, budgetMs: number): Settlement => {
  // A set gives up its oldest member in constant time.
  const waiting = new Set<Refund>();
  let running = 0;
  let backoffMs = 0;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;
  let whenEmpty: (() => void)[] = [];

  const oldest = (): Refund | undefined => {
    const [refund] = waiting;
    if (refund !== undefined) waiting.delete(refund);
    return refund;
  };

  const settled = (): void => {
    if (waiting.size > 0 || running > 0) return;
    for (const resolve of whenEmpty) resolve();
    whenEmpty = [];
  };

  const send = async (refund: Refund): Promise<void> => {
    running += 1;
    try {
      await limiter.refund(refund, budgetMs);
      backoffMs = 0;
    } catch {
      waiting.add(refund);
      // One pace for all: while the limiter is away, asking it more often does not bring it back.
      backoffMs = Math.min(BACKOFF_MS.most, Math.max(BACKOFF_MS.first, backoffMs * 2));
    } finally {
      running -= 1;
      pump();
      settled();
    }
  };

  const pump = (): void => {
    if (closed || timer !== undefined) return;
    if (backoffMs > 0 && waiting.size > 0) {
      // While backing off, one refund at a time tries whether the limiter is back.
      if (running > 0) return;
      timer = setTimeout(() => {
        timer = undefined;
        const refund = oldest();
        if (refund !== undefined) void send(refund);
      }, backoffMs);
      return;
    }
    while (running < PARALLEL) {
      const refund = oldest();
      if (refund === undefined) return;
      void send(refund);
    }
  };

  return {
    undo: ({ charge_id, request_id, org, key, meter }, reason) => {
      if (meter === null || !policy.refunds(reason)) return;
      waiting.add({ charge_id, request_id, org, key, meter: meter.name, amount: meter.amount });
      pump();
    },
    unsettled: () => waiting.size + running,
    isFull: () => waiting.size + running >= UNSETTLED_MAX,
    drain: async (deadlineMs) => {
      if (waiting.size + running === 0) return 0;
      const expired = new Promise<void>((resolve) => setTimeout(resolve, deadlineMs).unref());
      await Promise.race([new Promise<void>((resolve) => whenEmpty.push(resolve)), expired]);
      return waiting.size + running;
    },
    close: () => {
      closed = true;
      clearTimeout(timer);
    },
  };
};
