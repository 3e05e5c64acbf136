/**
 * Undoes charges. A refund is repeated until the limiter confirms it, even if the charge may never have arrived. While
 * too many are unsettled, metered calls are refused (fail closed).
 */
import type { Limiter, Refund, Take } from "../ports.ts";

type RefundReason = "answer-lost" | "client-left" | "work-failed";

export type RefundPolicy = { refunds(reason: RefundReason): boolean };

const UNSETTLED_MAX = 100_000;
const PARALLEL = 64;
const BACKOFF_MS = { first: 25, most: 1_000 };
const DRAIN_LOOK_MS = 5;

export const createSettlement = (limiter: Limiter, policy: RefundPolicy, budgetMs: number) => {
  // A set yields its oldest member in constant time.
  const waiting = new Set<Refund>();
  let running = 0;
  let backoffMs = 0;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const sendOldest = async (): Promise<void> => {
    const [refund] = waiting;
    if (refund === undefined) return;
    waiting.delete(refund);
    running += 1;
    try {
      await limiter.refund(refund, budgetMs);
      backoffMs = 0;
    } catch {
      waiting.add(refund);
      // One backoff for all refunds, because more requests do not bring the limiter back.
      backoffMs = Math.min(BACKOFF_MS.most, Math.max(BACKOFF_MS.first, backoffMs * 2));
    } finally {
      running -= 1;
      pump();
    }
  };

  const pump = (): void => {
    if (closed || timer !== undefined || waiting.size === 0) return;
    if (backoffMs === 0) {
      while (running < PARALLEL && waiting.size > 0) void sendOldest();
    } else if (running === 0) {
      // While backing off, one refund at a time tries whether the limiter is back.
      timer = setTimeout(() => {
        timer = undefined;
        void sendOldest();
      }, backoffMs);
    }
  };

  const unsettled = (): number => waiting.size + running;
  return {
    undo: ({ charge_id, request_id, org, key, meter }: Take, reason: RefundReason): void => {
      if (meter === null || !policy.refunds(reason)) return;
      waiting.add({ charge_id, request_id, org, key, meter: meter.name, amount: meter.amount });
      pump();
    },
    unsettled,
    isFull: (): boolean => unsettled() >= UNSETTLED_MAX,
    /** Resolves when everything is settled, or at the deadline; returns how many are left. */
    drain: async (deadlineMs: number): Promise<number> => {
      const untilMs = performance.now() + deadlineMs;
      while (unsettled() > 0 && performance.now() < untilMs) {
        await new Promise((resolve) => setTimeout(resolve, DRAIN_LOOK_MS));
      }
      return unsettled();
    },
    close: (): void => {
      closed = true;
      clearTimeout(timer);
    },
  };
};
