/**
 * The key service as the API sees it. Look-ups of one turn of the event loop travel together; whatever is not a valid answer
 * in time is `KeyServiceUnavailable`, and nothing is sent twice.
 */
import type { KeySnapshot } from "../../core/records.ts";
import { KeyInputError, KeyServiceUnavailable, type Keys } from "../keys.ts";
import { createBatcher, readEach } from "../links/batch.ts";
import { startDeadline } from "../links/deadline.ts";
import { createJsonClient, ServiceRefusal } from "../links/http-client.ts";
import type { Network } from "../links/network.ts";
import { type Lookup, readKey, readLookupAnswer, readManagementRefusal, readOrganization } from "./wire.ts";

const MAX_ITEMS = 256;
const CONNECTIONS = 64;
const CONNECT_TIMEOUT_MS = 500;
const OPERATOR_BUDGET_MS = 5_000;

/** `control` is needed for organizations and for keys outside key management only. */
export const createHttpKeys = (options: {
  url: string;
  control?: { url: string; token: string };
  network?: Network | undefined;
}): Keys => {
  const client = createJsonClient(options.url, {
    connections: CONNECTIONS,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    network: options.network,
  });
  const controlClient =
    options.control === undefined
      ? null
      : createJsonClient(options.control.url, {
          connections: 2,
          connectTimeoutMs: OPERATOR_BUDGET_MS,
          token: options.control.token,
        });
  const unavailable = (reason: string, cause?: unknown): KeyServiceUnavailable =>
    new KeyServiceUnavailable(`the key service at ${options.url} gave no valid answer: ${reason}`, { cause });

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

  /** One management call; `read` throws on nonsense. */
  const manage = async <T>(path: string, body: unknown, budgetMs: number, read: (answer: unknown) => T): Promise<T> => {
    const abort = new AbortController();
    const cancel = startDeadline(budgetMs, () => abort.abort());
    try {
      return read(await client.request("POST", path, body, abort.signal));
    } catch (error) {
      throw unavailable(abort.signal.aborted ? `no answer within ${budgetMs} ms` : "it could not be asked", error);
    } finally {
      cancel();
    }
  };

  const operate = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    if (controlClient === null) {
      throw new Error("expected the key service's control plane: start it with --control-port");
    }
    try {
      return await controlClient.request(method, path, body, AbortSignal.timeout(OPERATOR_BUDGET_MS));
    } catch (error) {
      if (error instanceof ServiceRefusal && error.status === 404) return null;
      if (error instanceof ServiceRefusal && error.status === 422) throw new KeyInputError(error.message);
      throw error;
    }
  };

  return {
    bySecretHash: (hash, budgetMs) => lookups.ask({ hash }, budgetMs),
    byId: (id, budgetMs) => lookups.ask({ id }, budgetMs),
    create: (org, request, budgetMs) =>
      manage("/creations", { org, request }, budgetMs, (answer) => {
        const refusal = readManagementRefusal(answer);
        if (refusal !== null) return refusal;
        const { key, secret } = answer as { key: unknown; secret: unknown };
        if (typeof secret !== "string") throw new Error("expected a key and its secret");
        return { key: readKey(key), secret };
      }),
    update: (org, id, request, budgetMs) =>
      manage(
        "/updates",
        { org, id, request },
        budgetMs,
        (answer) => readManagementRefusal(answer) ?? { key: readKey((answer as { key: unknown }).key) },
      ),
    revoke: (org, id, budgetMs) =>
      manage("/revocations", { org, id }, budgetMs, (answer) => {
        const refusal = readManagementRefusal(answer);
        if (refusal !== null) return refusal;
        if ((answer as { revoked: unknown }).revoked !== true) throw new Error("expected a confirmed revocation");
        return { revoked: true };
      }),
    putOrganization: async (input) => readOrganization(await operate("POST", "/orgs", input)),
    organization: async (id) => {
      const answer = await operate("GET", `/orgs/${encodeURIComponent(id)}`);
      return answer === null ? null : readOrganization(answer);
    },
    putKey: async (input) => {
      const { key: secret, ...key } = (await operate("POST", "/keys", input)) as { key: string };
      return { key: readKey(key), secret };
    },
    patchKey: async (id, patch) => {
      const answer = await operate("PATCH", `/keys/${encodeURIComponent(id)}`, patch);
      return answer === null ? null : readKey(answer);
    },
    close: async () => {
      lookups.close();
      await Promise.all([client.close(), controlClient?.close()]);
    },
  };
};
