/**
 * What travels between the API and the key service. `POST /lookups {lookups}` answers `{answers}`, one for each in its
 * order, each naming what it was asked for: an answer that went astray is distinguished from ours.
 */
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import type { ManagementRefusal } from "../../core/management.ts";
import type { KeyRecord, KeySnapshot, Organization } from "../../core/records.ts";

const Texts = Type.Array(Type.String());
const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(type: T) => Type.Union([type, Type.Null()]);
const Count = Type.Integer({ minimum: 0 });
const Kind = Type.Union([Type.Literal("publishable"), Type.Literal("server")]);
const Env = Type.Union([Type.Literal("live"), Type.Literal("test")]);
const TierOrNull = Type.Union([Type.Literal("Free"), Type.Literal("Pro"), Type.Null()]);
const Status = Type.Union([Type.Literal("valid"), Type.Literal("revoked"), Type.Literal("expired")]);
const ScopeName = Type.Union(["ai", "design", "maps", "vendor"].map((scope) => Type.Literal(scope)));
const ProductName = Type.Union(["chat", "editor", "viewer", "tile"].map((product) => Type.Literal(product)));

const organizationFields = {
  id: Type.String({ minLength: 1 }),
  tier: TierOrNull,
  map_load_allowance: Count,
  key_limit: Count,
  basemap_style_id: orNull(Type.String()),
  in_flight_cap: orNull(Count),
};

const keyFields = {
  id: Type.String({ minLength: 1 }),
  org_id: Type.String({ minLength: 1 }),
  kind: Kind,
  env: Env,
  name: Type.String(),
  scopes: Type.Array(ScopeName),
  products: Type.Array(ProductName),
  allowed_origins: Texts,
  allowed_ips: Texts,
  vendor_acknowledged: Type.Boolean(),
  status: Status,
  created_at: Type.Number(),
  expires_at: orNull(Type.Number()),
  last4: Type.String(),
};

const OrganizationSchema = Type.Object(organizationFields);
const KeySchema = Type.Object(keyFields);

/** What key management may be asked for; words are judged by the core, not here. */
const request = {
  name: Type.Optional(Type.String()),
  scopes: Type.Optional(Texts),
  products: Type.Optional(Texts),
  allowed_origins: Type.Optional(Texts),
  allowed_ips: Type.Optional(Texts),
  acknowledge_vendor: Type.Optional(Type.Boolean()),
  vendor_acknowledged: Type.Optional(Type.Boolean()),
  expires_at: Type.Optional(orNull(Type.Number())),
};

export const lookupsBody = Compile(
  Type.Object({
    lookups: Type.Array(Type.Union([Type.Object({ hash: Type.String() }), Type.Object({ id: Type.String() })])),
  }),
);
export const creationBody = Compile(
  Type.Object({ org: Type.String(), request: Type.Object({ kind: Kind, env: Type.Optional(Env), ...request }) }),
);
export const updateBody = Compile(
  Type.Object({ org: Type.String(), id: Type.String(), request: Type.Object(request) }),
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
      ...Type.Partial(Type.Object({ ...keyFields, secret: Type.String({ minLength: 8, maxLength: 256 }) })).properties,
      id: Type.Optional(Name),
      org_id: keyFields.org_id,
      kind: Kind,
    },
    { additionalProperties: false },
  ),
);
export const keyPatchBody = Compile(Type.Partial(Type.Object(keyFields), { additionalProperties: false }));
export const adminTokenBody = Compile(
  Type.Object({ org: Name, expires_in: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000 })) }),
);

export type Lookup = { hash: string } | { id: string };
export const nameOfLookup = (lookup: Lookup): string => ("hash" in lookup ? lookup.hash : lookup.id);

const found = Compile(
  Type.Object({ of: Type.String(), found: Type.Literal(true), key: KeySchema, org: OrganizationSchema }),
);
const missing = Compile(Type.Object({ of: Type.String(), found: Type.Literal(false) }));

/** Throws unless the answer is one to this look-up. */
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
const isOrganization = Compile(OrganizationSchema);

/** Throws unless it is a record of a key. */
export const readKey = (value: unknown): KeyRecord => {
  if (!isKey.Check(value)) throw new Error("expected a key record");
  return value as KeyRecord;
};

/** Throws unless it is a record of an organization. */
export const readOrganization = (value: unknown): Organization => {
  if (!isOrganization.Check(value)) throw new Error("expected an organization");
  const { id, tier, map_load_allowance, key_limit, basemap_style_id, in_flight_cap } = value;
  return { id, tier, map_load_allowance, key_limit, basemap_style_id, in_flight_cap };
};

export const readManagementRefusal = (value: unknown): ManagementRefusal | null => {
  const refuse = (value as { refuse?: unknown } | null)?.refuse;
  return typeof refuse === "string" && REFUSALS.includes(refuse) ? ({ refuse } as ManagementRefusal) : null;
};
