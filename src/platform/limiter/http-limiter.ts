/**
 * The limiter service as the API sees it. Takes of one turn of the event loop travel together; whatever is not a valid
 * answer in time is `LimiterUnavailable`, and nothing is sent twice.
 */
import { type Limiter, LimiterUnavailable, type Refund, type Take, type TakeAnswer } from "../limiter.ts";
import { createBatcher, readEach } from "../links/batch.ts";
import { createJsonClient } from "../links/http-client.ts";
import type { Network } from "../links/network.ts";
import { bundleTakes, MAX_ITEMS, readRefundAnswer } from "./wire.ts";

/** As many as a slow link needs: a batch must not wait for another one's answer. Idle connections are closed. */
const CONNECTIONS = 64;
const CONNECT_TIMEOUT_MS = 250;
/** For what no call waits for: reading and setting meters. */
const OPERATOR_BUDGET_MS = 5_000;

export const createHttpLimiter = ({ url, network }: { url: string; network?: Network | undefined }): Limiter => {
  const client = createJsonClient(url, { connections: CONNECTIONS, connectTimeoutMs: CONNECT_TIMEOUT_MS, network });
  const unavailable = (reason: string, cause?: unknown): LimiterUnavailable =>
    new LimiterUnavailable(`the limiter at ${url} gave no valid answer: ${reason}`, { cause });

  const takes = createBatcher<Take, TakeAnswer>({
    send: async (items, signal) => {
      const { body, unpack } = bundleTakes(items);
      return unpack(await client.request("POST", "/takes", body, signal));
    },
    unavailable,
    maxItems: MAX_ITEMS,
    maxInFlight: CONNECTIONS,
  });
  const refunds = createBatcher<Refund, void>({
    send: async (items, signal) => {
      const { answers } = (await client.request("POST", "/refunds", { refunds: items }, signal)) as {
        answers?: unknown;
      };
      return readEach(items, answers, readRefundAnswer);
    },
    unavailable,
    maxItems: MAX_ITEMS,
    maxInFlight: 4,
  });

  return {
    take: (take, budgetMs) => takes.ask(take, budgetMs),
    refund: (refund, budgetMs) => refunds.ask(refund, budgetMs),
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
