/**
 * The key service as the API sees it: lookups, and key management, which the key service decides. Messages have
 * schemas; the answer to a lookup names its question, so that the answer to another question is detected.
 */
import { type Static, Type } from "typebox";
import { Compile } from "typebox/schema";
import { REFUSALS, type RefusalName } from "../contract/refusals.ts";
import { type ChangedKey, KEY_RECORD, type KeySnapshot, ORGANIZATION } from "../core/call.ts";
import { KEY_CREATION, KEY_UPDATE, type ManagementRefusal } from "../core/management.ts";
import { openLink } from "./links/batch.ts";
import type { Network } from "./links/network.ts";

const Text = Type.String();

/** By the SHA-256 of the secret, hex: a secret itself is neither stored nor sent. By id: a session names its key. */
export const LOOKUP = Type.Union([Type.Object({ hash: Text }), Type.Object({ id: Text })]);
export type Lookup = Static<typeof LOOKUP>;
export const nameOfLookup = (lookup: Lookup): string => ("hash" in lookup ? lookup.hash : lookup.id);

/** A change that an organization's admin asks for. A key is revoked for good. */
export const KEY_CHANGE = Type.Union([
  Type.Object({ does: Type.Literal("create"), org: Text, request: KEY_CREATION }),
  Type.Object({ does: Type.Literal("update"), org: Text, id: Text, request: KEY_UPDATE }),
  Type.Object({ does: Type.Literal("revoke"), org: Text, id: Text }),
]);
export type KeyChange = Static<typeof KEY_CHANGE>;

/** `find` and `change` reject with `Unavailable` without a valid answer in time: neither "valid" nor "unknown" (B4). */
export type Keys = {
  /** `null`: unknown. */
  find(lookup: Lookup, budgetMs: number): Promise<KeySnapshot | null>;
  /** `not_found` for a key that is foreign, unknown, expired or revoked already (items 127, 141). */
  change(change: KeyChange, budgetMs: number): Promise<ChangedKey | ManagementRefusal>;
  close(): Promise<void>;
};
export type KeyLookup = Pick<Keys, "find">;

const lookupAnswer = Compile(
  Type.Union([
    Type.Object({ of: Text, found: Type.Literal(true), key: KEY_RECORD, org: ORGANIZATION }),
    Type.Object({ of: Text, found: Type.Literal(false) }),
  ]),
);

const readLookupAnswer = (lookup: Lookup, answer: unknown): KeySnapshot | null => {
  if (!lookupAnswer.Check(answer)) throw new Error("expected a key record or {found:false}");
  if (answer.of !== nameOfLookup(lookup)) throw new Error("expected the answer to this look-up, got another's");
  if (!answer.found) return null;
  const { key, org } = answer;
  const isIts = key.org_id === org.id && ("hash" in lookup || key.id === lookup.id);
  if (!isIts) throw new Error("expected key and owner to fit");
  return { key, org };
};

const REFUSED = [...(Object.keys(REFUSALS) as RefusalName[]), "not_found" as const];
const changeAnswer = Compile(
  Type.Union([
    Type.Object({ key: KEY_RECORD, secret: Type.Optional(Text) }),
    Type.Object({ refuse: Type.Enum(REFUSED) }),
  ]),
);

export const createHttpKeys = (at: { url: string; network?: Network | undefined }): Keys => {
  const link = openLink("key service", { ...at, connectTimeoutMs: 500 });
  return {
    find: link.batched("lookups", readLookupAnswer),
    change: (change, budgetMs) =>
      link.ask("POST", "/changes", change, budgetMs, (answer) => {
        const isWhole =
          changeAnswer.Check(answer) && ("refuse" in answer || change.does !== "create" || "secret" in answer);
        if (!isWhole) throw new Error("expected a changed key, or a refusal");
        return answer;
      }),
    close: link.close,
  };
};
