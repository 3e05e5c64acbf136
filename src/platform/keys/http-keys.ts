/** The key service as the API sees it. An answer names what was asked, so that another's is recognized. */
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { REFUSALS } from "../../contract/refusals.ts";
import type { ManagementRefusal } from "../../core/management.ts";
import type { KeyRecord, KeySnapshot } from "../../core/records.ts";
import { KeyServiceUnavailable, type Keys } from "../keys.ts";
import { createHttpBatcher, startDeadline } from "../links/batch.ts";
import { createJsonClient } from "../links/http-client.ts";
import type { Network } from "../links/network.ts";
import { KEY_RECORD } from "../schemas.ts";

const Count = Type.Integer({ minimum: 0 });
export const organizationFields = {
  id: Type.String({ minLength: 1 }),
  tier: Type.Union([Type.Literal("Free"), Type.Literal("Pro"), Type.Null()]),
  map_load_allowance: Count,
  key_limit: Count,
  basemap_style_id: Type.Union([Type.String(), Type.Null()]),
  in_flight_cap: Type.Union([Count, Type.Null()]),
};
export const KeySchema = Type.Object(KEY_RECORD);

type Lookup = { hash: string } | { id: string };
export const nameOfLookup = (lookup: Lookup): string => ("hash" in lookup ? lookup.hash : lookup.id);

const lookupAnswer = Compile(
  Type.Union([
    Type.Object({ of: Type.String(), found: Type.Literal(true), key: KeySchema, org: Type.Object(organizationFields) }),
    Type.Object({ of: Type.String(), found: Type.Literal(false) }),
  ]),
);

const readLookupAnswer = (lookup: Lookup, answer: unknown): KeySnapshot | null => {
  if (!lookupAnswer.Check(answer)) throw new Error("expected a key record or {found:false}");
  if (answer.of !== nameOfLookup(lookup)) throw new Error("expected the answer to this look-up, got another's");
  if (!answer.found) return null;
  const { key, org } = answer as unknown as KeySnapshot;
  if (key.org_id !== org.id || ("id" in lookup && key.id !== lookup.id))
    throw new Error("expected key and owner to fit");
  return { key, org };
};

const isKey = Compile(KeySchema);

const readKey = (value: unknown): KeyRecord => {
  if (!isKey.Check(value)) throw new Error("expected a key record");
  return value as KeyRecord;
};

const readManagementRefusal = (value: unknown): ManagementRefusal | null => {
  const refuse = (value as { refuse?: unknown } | null)?.refuse;
  const isKnown = typeof refuse === "string" && (refuse === "not_found" || Object.hasOwn(REFUSALS, refuse));
  return isKnown ? ({ refuse } as ManagementRefusal) : null;
};

const CONNECT_TIMEOUT_MS = 500;

export const createHttpKeys = ({ url, network }: { url: string; network?: Network | undefined }): Keys => {
  const client = createJsonClient(url, { connectTimeoutMs: CONNECT_TIMEOUT_MS, network });
  const unavailable = (reason: string, cause?: unknown): KeyServiceUnavailable =>
    new KeyServiceUnavailable(`the key service at ${url} gave no valid answer: ${reason}`, { cause });

  const lookups = createHttpBatcher(client, "lookups", readLookupAnswer, { unavailable });

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
