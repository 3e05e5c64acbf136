/**
 * What travels between API and key service. `POST /lookups {lookups}` answers `{answers}`, one for each in its order,
 * each with the name of what it was asked for, so that an answer to another question is recognized.
 */
import { type TSchema, Type } from "typebox";
import { Compile } from "typebox/compile";
import type { ManagementRefusal } from "../../core/management.ts";
import type { KeyRecord, KeySnapshot } from "../../core/records.ts";
import { KEY_RECORD, REQUESTS } from "../schemas.ts";

const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(type: T) => Type.Union([type, Type.Null()]);
const Count = Type.Integer({ minimum: 0 });

const organizationFields = {
  id: Type.String({ minLength: 1 }),
  tier: Type.Union([Type.Literal("Free"), Type.Literal("Pro"), Type.Null()]),
  map_load_allowance: Count,
  key_limit: Count,
  basemap_style_id: orNull(Type.String()),
  in_flight_cap: orNull(Count),
};
const OrganizationSchema = Type.Object(organizationFields);
const KeySchema = Type.Object(KEY_RECORD);

export const lookupsBody = Compile(
  Type.Object({
    lookups: Type.Array(Type.Union([Type.Object({ hash: Type.String() }), Type.Object({ id: Type.String() })])),
  }),
);
/** What key management may be asked for is checked by the API; words are judged by the core. */
const managementBody = (name: "keys.create" | "keys.update") => REQUESTS[name]?.schema as TSchema;
export const creationBody = Compile(Type.Object({ org: Type.String(), request: managementBody("keys.create") }));
export const updateBody = Compile(
  Type.Object({ org: Type.String(), id: Type.String(), request: managementBody("keys.update") }),
);
export const revocationBody = Compile(Type.Object({ org: Type.String(), id: Type.String() }));

/** So many that sums of them stay whole numbers in every store. */
const Loads = Type.Integer({ minimum: 0, maximum: 1_000_000_000_000 });
/** Half of a surrogate pair is no text: a store would keep it as something else, and two names might become one. */
const Name = Type.Refine(
  Type.String({ minLength: 1, maxLength: 200 }),
  (name) => name.isWellFormed(),
  () => "must be text",
);

/** Control plane. Fields that are not known are a mistake, reported rather than ignored. */
export const organizationBody = Compile(
  Type.Partial(Type.Object({ ...organizationFields, id: Name, map_load_allowance: Loads, map_loads_used: Loads }), {
    additionalProperties: false,
  }),
);
export const keyBody = Compile(
  Type.Object(
    {
      ...Type.Partial(Type.Object({ ...KEY_RECORD, secret: Type.String({ minLength: 8, maxLength: 256 }) })).properties,
      id: Type.Optional(Name),
      org_id: KEY_RECORD.org_id,
      kind: KEY_RECORD.kind,
    },
    { additionalProperties: false },
  ),
);
export const keyPatchBody = Compile(Type.Partial(KeySchema, { additionalProperties: false }));
export const adminTokenBody = Compile(
  Type.Object({ org: Name, expires_in: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000 })) }),
);

export type Lookup = { hash: string } | { id: string };
export const nameOfLookup = (lookup: Lookup): string => ("hash" in lookup ? lookup.hash : lookup.id);

const found = Compile(
  Type.Object({ of: Type.String(), found: Type.Literal(true), key: KeySchema, org: OrganizationSchema }),
);
const missing = Compile(Type.Object({ of: Type.String(), found: Type.Literal(false) }));

export const readLookupAnswer = (lookup: Lookup, answer: unknown): KeySnapshot | null => {
  if (!found.Check(answer) && !missing.Check(answer)) throw new Error("expected a key record or {found:false}");
  if (answer.of !== nameOfLookup(lookup)) throw new Error("expected the answer to this look-up, got another's");
  if (!answer.found) return null;
  const { key, org } = answer as unknown as KeySnapshot;
  if (key.org_id !== org.id || ("id" in lookup && key.id !== lookup.id))
    throw new Error("expected key and owner to fit");
  return { key, org };
};

const REFUSALS: readonly string[] = [
  "plan_required",
  "unknown_scope",
  "unknown_product",
  "publishable_live_requires_origins",
  "free_plan_publishable_only",
  "vendor_scope_requires_acknowledgement",
  "tier_capability_not_allowed",
  "key_limit_reached",
  "not_found",
] satisfies ManagementRefusal["refuse"][];

const isKey = Compile(KeySchema);

export const readKey = (value: unknown): KeyRecord => {
  if (!isKey.Check(value)) throw new Error("expected a key record");
  return value as KeyRecord;
};

export const readManagementRefusal = (value: unknown): ManagementRefusal | null => {
  const refuse = (value as { refuse?: unknown } | null)?.refuse;
  return typeof refuse === "string" && REFUSALS.includes(refuse) ? ({ refuse } as ManagementRefusal) : null;
};
