/** The limiter service as the API sees it. Takes of one turn travel together; nothing is sent twice. */
import type { TakeOutcome } from "../../core/call.ts";
import { type Limiter, LimiterUnavailable, type Refund, type Take } from "../limiter.ts";
import { createBatcher, readEach } from "../links/batch.ts";
import { createJsonClient } from "../links/http-client.ts";
import type { Network } from "../links/network.ts";
import { readRefundAnswer, readTakeAnswer } from "./wire.ts";

const MAX_ITEMS = 256;
const REFUNDS_AT_ONCE = 4;
/** As many as a slow link needs: a batch must not wait for another one's answer. Idle connections are closed. */
const CONNECTIONS = 64;
const CONNECT_TIMEOUT_MS = 250;
/** For what no call waits for: reading and setting meters. */
const OPERATOR_BUDGET_MS = 5_000;

export const createHttpLimiter = ({ url, network }: { url: string; network?: Network | undefined }): Limiter => {
  const client = createJsonClient(url, { connections: CONNECTIONS, connectTimeoutMs: CONNECT_TIMEOUT_MS, network });
  const unavailable = (reason: string, cause?: unknown): LimiterUnavailable =>
    new LimiterUnavailable(`the limiter at ${url} gave no valid answer: ${reason}`, { cause });

  const batcher = <Item, Answer>(name: string, maxInFlight: number, read: (item: Item, answer: unknown) => Answer) =>
    createBatcher<Item, Answer>({
      send: async (items, signal) => {
        const reply = (await client.request("POST", `/${name}`, { [name]: items }, signal)) as { answers?: unknown };
        return readEach(items, reply.answers, read);
      },
      unavailable,
      maxItems: MAX_ITEMS,
      maxInFlight,
    });
  const takes = batcher<Take, TakeOutcome>("takes", CONNECTIONS, readTakeAnswer);
  const refunds = batcher<Refund, void>("refunds", REFUNDS_AT_ONCE, readRefundAnswer);

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
