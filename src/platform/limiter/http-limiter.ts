/** The limiter service as the API sees it. An answer has its charge's id, so that another's is recognized. */
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import type { TakeOutcome } from "../../core/call.ts";
import { type Limiter, LimiterUnavailable, type Refund, type Take } from "../limiter.ts";
import { createHttpBatcher } from "../links/batch.ts";
import { createJsonClient } from "../links/http-client.ts";
import type { Network } from "../links/network.ts";

const MeterName = Type.Union([Type.Literal("map_loads"), Type.Literal("design_analyses")]);
const Named = { charge_id: Type.String(), request_id: Type.String(), org: Type.String(), key: Type.String() };
const Amount = Type.Integer({ minimum: 1 });
const RateLimit = Type.Union([
  Type.Null(),
  Type.Object({ perS: Type.Number({ exclusiveMinimum: 0 }), burst: Type.Number({ minimum: 1 }) }),
]);

export const takesBody = Compile(
  Type.Object({
    takes: Type.Array(
      Type.Object({
        ...Named,
        rate: RateLimit,
        meter: Type.Union([
          Type.Null(),
          Type.Object({
            name: MeterName,
            amount: Amount,
            cap: Type.Union([Type.Null(), Type.Integer({ minimum: 0 })]),
          }),
        ]),
      }),
    ),
  }),
);

export const refundsBody = Compile(
  Type.Object({ refunds: Type.Array(Type.Object({ ...Named, meter: MeterName, amount: Amount })) }),
);

export const meterBody = Compile(
  Type.Object({ org: Type.String(), meter: MeterName, used: Type.Integer({ minimum: 0 }) }),
);

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isWindow = (value: unknown): value is string => typeof value === "string" && /^\d{4}-\d\d$/.test(value);

/** Throws on another's answer, a wrong shape, and a charge that was refunded before: the call is then refused. */
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
const CONNECT_TIMEOUT_MS = 250;
/** For what no call waits for: reading and setting meters. */
const OPERATOR_BUDGET_MS = 5_000;

export const createHttpLimiter = ({ url, network }: { url: string; network?: Network | undefined }): Limiter => {
  const client = createJsonClient(url, { connectTimeoutMs: CONNECT_TIMEOUT_MS, network });
  const unavailable = (reason: string, cause?: unknown): LimiterUnavailable =>
    new LimiterUnavailable(`the limiter at ${url} gave no valid answer: ${reason}`, { cause });
  const takes = createHttpBatcher(client, "takes", readTakeAnswer, { unavailable });
  const refunds = createHttpBatcher(client, "refunds", readRefundAnswer, { unavailable, maxInFlight: REFUNDS_AT_ONCE });

  return {
    take: takes.ask,
    refund: refunds.ask,
    used: async (org, meter) => {
      const path = `/meters?org=${encodeURIComponent(org)}&meter=${meter}`;
      const answer = await client.request("GET", path, undefined, AbortSignal.timeout(OPERATOR_BUDGET_MS));
      return (answer as { used: number }).used;
    },
    setUsed: async (org, meter, used) => {
      await client.request("PUT", "/meters", { org, meter, used }, AbortSignal.timeout(OPERATOR_BUDGET_MS));
    },
    close: async () => {
      takes.close();
      refunds.close();
      await client.close();
    },
  };
};
