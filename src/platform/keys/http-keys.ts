/** The key service as the API sees it. Look-ups of one turn travel together; nothing is sent twice. */
import type { ManagementRefusal } from "../../core/management.ts";
import type { KeySnapshot } from "../../core/records.ts";
import { KeyServiceUnavailable, type Keys } from "../keys.ts";
import { createBatcher, readEach, startDeadline } from "../links/batch.ts";
import { createJsonClient } from "../links/http-client.ts";
import type { Network } from "../links/network.ts";
import { type Lookup, readKey, readLookupAnswer, readManagementRefusal } from "./wire.ts";

const MAX_ITEMS = 256;
const CONNECTIONS = 64;
const CONNECT_TIMEOUT_MS = 500;

export const createHttpKeys = ({ url, network }: { url: string; network?: Network | undefined }): Keys => {
  const client = createJsonClient(url, { connections: CONNECTIONS, connectTimeoutMs: CONNECT_TIMEOUT_MS, network });
  const unavailable = (reason: string, cause?: unknown): KeyServiceUnavailable =>
    new KeyServiceUnavailable(`the key service at ${url} gave no valid answer: ${reason}`, { cause });

  const lookups = createBatcher<Lookup, KeySnapshot | null>({
    send: async (items, signal) => {
      const { answers } = (await client.request("POST", "/lookups", { lookups: items }, signal)) as {
        answers?: unknown;
      };
      return readEach(items, answers, readLookupAnswer);
    },
    unavailable,
    maxItems: MAX_ITEMS,
    maxInFlight: CONNECTIONS,
  });

  /** One management call; `read` is given what is no refusal, and throws on nonsense. */
  const manage = async <T>(
    path: string,
    body: unknown,
    budgetMs: number,
    read: (answer: { key?: unknown; secret?: unknown; revoked?: unknown }) => T,
  ): Promise<T | ManagementRefusal> => {
    const abort = new AbortController();
    const cancel = startDeadline(budgetMs, () => abort.abort());
    try {
      const answer = await client.request("POST", path, body, abort.signal);
      return readManagementRefusal(answer) ?? read(answer as object);
    } catch (error) {
      throw unavailable(abort.signal.aborted ? `no answer within ${budgetMs} ms` : "it could not be asked", error);
    } finally {
      cancel();
    }
  };

  return {
    bySecretHash: (hash, budgetMs) => lookups.ask({ hash }, budgetMs),
    byId: (id, budgetMs) => lookups.ask({ id }, budgetMs),
    create: (org, request, budgetMs) =>
      manage("/creations", { org, request }, budgetMs, ({ key, secret }) => {
        if (typeof secret !== "string") throw new Error("expected a key and its secret");
        return { key: readKey(key), secret };
      }),
    update: (org, id, request, budgetMs) =>
      manage("/updates", { org, id, request }, budgetMs, ({ key }) => ({ key: readKey(key) })),
    revoke: (org, id, budgetMs) =>
      manage("/revocations", { org, id }, budgetMs, ({ revoked }) => {
        if (revoked !== true) throw new Error("expected a confirmed revocation");
        return { revoked };
      }),
    close: async () => {
      lookups.close();
      await client.close();
    },
  };
};
