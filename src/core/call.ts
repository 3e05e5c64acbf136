/** One call. The core never waits: it returns an `Ask`, and its runner puts the answer into the call and continues. */

import { type Static, Type } from "typebox";
import { type CredentialKind, credentialKind } from "../contract/credentials.ts";
import type { AnyRefusalName, BodyError, QuotaFields } from "../contract/refusals.ts";
import { type Meter, PRODUCTS, type Product, type Route, SCOPES, type Scope } from "../contract/routes.ts";
import type { Rate } from "./rate-limit.ts";
import type { Shedder } from "./shedding.ts";

/** A session token whose signature and time are valid (items 20-29). */
export type Session = { keyId: string; orgId: string; product: Product; expiresAtS: number; id: string };

/** An administrator whose token's signature and time are valid (items 124-125). Only the role `org_admin` manages keys. */
export type Admin = { org_id: string; role: string };

/** `cap: null` counts and never refuses. */
export type MeterTake = { name: Meter; amount: number; cap: number | null };

export type TakeOutcome =
  | { verdict: "taken"; used: number | null; window: string }
  | { verdict: "rate_limited"; wait_ms: number }
  | { verdict: "over_cap"; used: number; window: string };

/** No valid answer within the budget: the core fails closed on it (B4). */
export const UNAVAILABLE = "unavailable";

export type BodyRead = { ok: true; value: unknown } | { ok: false; errors: BodyError[] };

/** What the core needs next. The answer goes into the field named in the comment. */
export type Ask =
  | { ask: "session"; token: string } //                            call.session: Session | null
  | { ask: "key"; secret: string } //                               call.lookup: KeySnapshot | null | UNAVAILABLE
  | { ask: "key-by-id"; id: string } //                             call.lookup
  | { ask: "admin"; token: string } //                              call.admin: Admin | null
  | { ask: "body" } //                                              call.body: BodyRead
  | { ask: "take"; rate: Rate | null; meter: MeterTake | null } //  call.taken: TakeOutcome | UNAVAILABLE
  | { ask: "change" }; //                                           call.changed: ChangedKey | Refuse | UNAVAILABLE

export type Refuse = {
  refuse: AnyRefusalName;
  quota?: QuotaFields;
  errors?: BodyError[];
  /** Seconds for `Retry-After`, if they differ from the catalogue. */
  retryAfterS?: number;
};

/** The secret of a new key is shown once, here. */
export type ChangedKey = { key: KeyRecord; secret?: string };

export type Deployment = {
  sessions: "enabled" | "disabled" | "not_configured";
  rate: Rate | null;
  /** Optional cap of design analyses; `null` counts only (item 122). */
  designCap: number | null;
};

export type Caller = {
  readonly credential: string | null;
  readonly origin: string | null;
  readonly address: string;
};

/** Caller and time, each read once when a check first needs it, so that a shed call reads neither. */
export type Head = {
  readCaller(): Caller;
  /** Milliseconds since 1970, by the deployment's clock. */
  nowMs(): number;
};

export class Call {
  readonly route: Route;
  readonly #head: Head;
  #caller: Caller | null = null;
  #kind: CredentialKind | null = null;
  #nowMs: number | null = null;
  readonly deployment: Deployment;
  readonly shedder: Shedder;

  session: Session | null | undefined = undefined;
  lookup: KeySnapshot | null | typeof UNAVAILABLE | undefined = undefined;
  body: BodyRead | undefined = undefined;
  taken: TakeOutcome | typeof UNAVAILABLE | undefined = undefined;
  admin: Admin | null | undefined = undefined;
  changed: ChangedKey | Refuse | typeof UNAVAILABLE | undefined = undefined;

  /** Slots held, until the runner calls `leave`. */
  holdsSlot = false;
  holdsOrganizationSlot = false;
  step = 0;

  constructor(route: Route, head: Head, deployment: Deployment, shedder: Shedder) {
    this.route = route;
    this.#head = head;
    this.deployment = deployment;
    this.shedder = shedder;
  }

  get caller(): Caller {
    this.#caller ??= this.#head.readCaller();
    return this.#caller;
  }

  get nowMs(): number {
    this.#nowMs ??= this.#head.nowMs();
    return this.#nowMs;
  }

  get kind(): CredentialKind {
    const { credential } = this.caller;
    this.#kind ??= credential === null ? "unknown" : credentialKind(credential);
    return this.#kind;
  }

  /** Key and organization; only for checks after `keyIsGood`. */
  get snapshot(): KeySnapshot {
    return this.lookup as KeySnapshot;
  }

  /** The organization behind the credential; `null` until it is known. */
  get organization(): string | null {
    const { admin, lookup } = this;
    return admin?.org_id ?? (typeof lookup === "object" ? lookup?.org.id : undefined) ?? null;
  }

  get product(): Product | null {
    if (this.route.surface === "exchange") {
      return this.body?.ok === true ? (this.body.value as { product: Product }).product : null;
    }
    return this.session?.product ?? null;
  }

  /** Releases the call's slots; idempotent. */
  leave(): void {
    if (this.holdsOrganizationSlot) {
      this.holdsOrganizationSlot = false;
      this.shedder.leaveOrganization(this.snapshot.org.id);
    }
    if (this.holdsSlot) {
      this.holdsSlot = false;
      this.shedder.leave();
    }
  }
}

// The records behind a decision: key, organization, and what a tier admits (specification 2.3, 3; items 40-63, 75).
// Each is written once, as a schema: stores, links, control plane and API description read the fields here.

const Text = Type.String();
const Id = Type.String({ minLength: 1 });
const Count = Type.Integer({ minimum: 0 });

const TIERS = ["Free", "Pro"] as const;
export type Tier = (typeof TIERS)[number];

export const ORGANIZATION = Type.Object({
  id: Id,
  /** `null`: no recognized API plan record (items 14, 130, 158). */
  tier: Type.Union([Type.Enum(TIERS), Type.Null()]),
  /** Map loads a month (item 228). */
  map_load_allowance: Count,
  /** Live keys that the plan allows (item 140). */
  key_limit: Count,
  basemap_style_id: Type.Union([Text, Type.Null()]),
  /** Cap on calls in flight; `null`: the deployment's default. */
  in_flight_cap: Type.Union([Count, Type.Null()]),
});
export type Organization = Static<typeof ORGANIZATION>;

/** A key record as it is stored, sent and shown (item 50). */
export const KEY_RECORD = Type.Object({
  id: Id,
  org_id: Id,
  kind: Type.Enum(["publishable", "server"]),
  /** Environment in the key's text (item 51). */
  env: Type.Enum(["live", "test"]),
  name: Text,
  scopes: Type.Array(Type.Enum([...SCOPES])),
  /** Empty: no key-level restriction except `viewer` (item 57). */
  products: Type.Array(Type.Enum([...PRODUCTS])),
  /** Exact origins, scheme, host and port (item 52). */
  allowed_origins: Type.Array(Text),
  /** Addresses or CIDR blocks; empty: no restriction (item 55). */
  allowed_ips: Type.Array(Text),
  vendor_acknowledged: Type.Boolean(),
  status: Type.Enum(["valid", "revoked", "expired"]),
  created_at: Type.Number(),
  expires_at: Type.Union([Type.Null(), Type.Number()]),
  /** The last four characters of the secret, to recognise the key by. */
  last4: Text,
});
export type KeyRecord = Static<typeof KEY_RECORD>;
export type KeyKind = KeyRecord["kind"];

export type KeySnapshot = { key: KeyRecord; org: Organization };

/** What each tier admits (items 13, 48, 75; A15): Free only publishable keys and the product `tile`. */
export const TIER_ADMITS: Readonly<
  Record<Tier, { products: readonly Product[]; scopes: readonly Scope[]; kinds: readonly KeyKind[] }>
> = {
  Free: { products: ["tile"], scopes: ["maps"], kinds: ["publishable"] },
  Pro: { products: PRODUCTS, scopes: SCOPES, kinds: ["publishable", "server"] },
};

/** Defaults by tier (items 140, 228). */
export const TIER_DEFAULTS: Readonly<Record<Tier, { map_load_allowance: number; key_limit: number }>> = {
  Free: { map_load_allowance: 1_000, key_limit: 3 },
  Pro: { map_load_allowance: 100_000, key_limit: 25 },
};
