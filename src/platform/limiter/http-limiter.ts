/** The limiter service as the API sees it. An answer has its charge's id, so that the answer to another is detected. */
import type { TakeOutcome } from "../../core/call.ts";
import type { Limiter, Refund, Take } from "../limiter.ts";
import { openLink } from "../links/batch.ts";
import type { Network } from "../links/network.ts";

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isWindow = (value: unknown): value is string => typeof value === "string" && /^\d{4}-\d\d$/.test(value);

/** Throws on the answer to another charge, a wrong shape, or a refunded charge; the call is then refused. */
export const readTakeAnswer = (take: Take, value: unknown): TakeOutcome => {
  const answer = value as Partial<Record<string, unknown>> | null;
  if (typeof answer !== "object" || answer === null) throw new Error("expected an object");
  if (answer.charge_id !== take.charge_id) throw new Error("expected the answer to this charge, got another's");
  const { verdict, used, window, wait_ms } = answer;
  if (verdict === "taken" && isWindow(window)) {
    if (take.meter === null && used === null) return { verdict, used, window };
    if (take.meter !== null && isCount(used)) return { verdict, used, window };
  }
  if (verdict === "rate_limited" && take.rate !== null && typeof wait_ms === "number" && wait_ms >= 0) {
    return { verdict, wait_ms };
  }
  if (verdict === "over_cap" && take.meter !== null && isCount(used) && isWindow(window)) {
    return { verdict, used, window };
  }
  if (verdict === "refunded" && take.meter !== null) throw new Error("the charge was refunded before it arrived");
  throw new Error("expected an answer that fits the take");
};

export const readRefundAnswer = (refund: Refund, value: unknown): void => {
  const answer = value as { charge_id?: unknown; refunded?: unknown } | null;
  if (answer?.charge_id !== refund.charge_id || answer.refunded !== true)
    throw new Error("expected a confirmed refund");
};

const REFUNDS_AT_ONCE = 4;
/** The budget of operator requests (reading and setting meters), for which no call waits. */
const OPERATOR_BUDGET_MS = 5_000;

export const createHttpLimiter = (at: { url: string; network?: Network | undefined }): Limiter => {
  const link = openLink("limiter", { ...at, connectTimeoutMs: 250 });
  return {
    take: link.batched("takes", readTakeAnswer),
    refund: link.batched("refunds", readRefundAnswer, REFUNDS_AT_ONCE),
    used: (org, meter) => {
      const path = `/meters?org=${encodeURIComponent(org)}&meter=${meter}`;
      return link.ask("GET", path, undefined, OPERATOR_BUDGET_MS, (answer) => (answer as { used: number }).used);
    },
    setUsed: (org, meter, used) => link.ask("PUT", "/meters", { org, meter, used }, OPERATOR_BUDGET_MS, () => {}),
    close: link.close,
  };
};
