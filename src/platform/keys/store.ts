/** The key service: keys and organizations in SQLite, as JSON. The core decides inside the transaction, so a key limit holds. */
import type { SQLOutputValue } from "node:sqlite";
import { type Static, type TProperties, Type } from "typebox";
import {
  type ChangedKey,
  KEY_RECORD,
  type KeyRecord,
  type KeySnapshot,
  ORGANIZATION,
  type Organization,
  TIER_DEFAULTS,
  type Tier,
} from "../../core/call.ts";
import {
  decideCreation,
  decideRevocation,
  decideUpdate,
  type ManagementRefusal,
  NEW_KEY,
} from "../../core/management.ts";
import type { ControlPart, Service } from "../control-plane.ts";
import { type ListenAt, RequestError, reasonOf, route, routeWith, startHttpService } from "../links/http-service.ts";
import { type Clock, KEY_CHANGE, type KeyChange, type Limiter, LOOKUP, type Lookup, nameOfLookup } from "../ports.ts";
import { openSqlite } from "../sqlite.ts";
import { base62, hashSecret, makeKeyId, makeSecret, mintAdminToken } from "./secret.ts";

export type OrganizationInput = Partial<Organization>;
export type KeyInput = Partial<KeyRecord> & { org_id: string; kind: KeyRecord["kind"]; secret?: string };

const unstorable = (message: string): RequestError => new RequestError(422, message);

/** A promise, because a mutant's store may answer later than the healthy one. */
type Answer<T> = T | Promise<T>;

export type KeyStore = ReturnType<typeof openKeyStore>;

export const KEY_DECISIONS = { decideCreation, decideUpdate, decideRevocation };
export type KeyDecisions = typeof KEY_DECISIONS;

const SCHEMA = `
  CREATE TABLE organizations (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE keys (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, org TEXT NOT NULL, status TEXT NOT NULL, expires_at INTEGER,
    record TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX keys_of_organization ON keys (org);
`;

const recordOf = <T>(row: Record<string, SQLOutputValue> | undefined): T | undefined =>
  row === undefined ? undefined : (JSON.parse(row.record as string) as T);

const defaultsOf = (tier: Tier | null) =>
  tier === null ? { map_load_allowance: 0, key_limit: 0 } : TIER_DEFAULTS[tier];

const organizationOf = (id: string, tier: Tier | null): Organization => ({
  ...{ id, tier, basemap_style_id: null, in_flight_cap: null, ...defaultsOf(tier) },
});

/** Values that equal the old tier's default change to the new tier's default; other values stay. */
const changeOrganization = (before: Organization, input: OrganizationInput): Organization => {
  const after = { ...before, ...input, id: before.id };
  const [old, next] = [defaultsOf(before.tier), defaultsOf(after.tier)];
  for (const field of ["map_load_allowance", "key_limit"] as const) {
    if (input[field] === undefined) after[field] = before[field] === old[field] ? next[field] : before[field];
  }
  return after;
};

const newOrganization = (input: OrganizationInput): Organization => {
  const { tier } = input;
  if (tier === undefined) throw unstorable('expected a tier for a new organization: "Free", "Pro" or null');
  return { ...organizationOf(`org_${base62(12)}`, tier), ...input };
};

const newKey = ({ secret: _secret, ...input }: KeyInput, secret: string, nowMs: number): KeyRecord => ({
  ...{ id: makeKeyId(), env: "live", status: "valid", created_at: nowMs, ...NEW_KEY },
  ...input,
  last4: secret.slice(-4),
});

/** The control plane may store any record, even one that key management would refuse. */
export const openKeyStore = (path: string, { decideCreation, decideUpdate, decideRevocation } = KEY_DECISIONS) => {
  const { db, transaction } = openSqlite(path, SCHEMA);
  const organizationById = db.prepare("SELECT record FROM organizations WHERE id = ?");
  const storeOrganization = db.prepare(
    "INSERT INTO organizations (id, record) VALUES (?, ?) ON CONFLICT DO UPDATE SET record = excluded.record",
  );
  const keyById = db.prepare("SELECT record FROM keys WHERE id = ?");
  const keyByHash = db.prepare("SELECT record FROM keys WHERE hash = ?");
  // Replaces a key of the same id, whose old secret then no longer works.
  const insertKey = db.prepare(
    "INSERT OR REPLACE INTO keys (id, hash, org, status, expires_at, record) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const updateKey = db.prepare("UPDATE keys SET status = ?, expires_at = ?, record = ? WHERE id = ?");
  const countLive = db.prepare(
    "SELECT count(*) AS live FROM keys WHERE org = ? AND status = 'valid' AND (expires_at IS NULL OR expires_at > ?)",
  );

  const keyOf = (id: string): KeyRecord | undefined => recordOf(keyById.get(id));
  const organization = (id: string): Organization | undefined => recordOf(organizationById.get(id));
  const ownerOf = (id: string): Organization => organization(id) ?? organizationOf(id, null);
  const addKey = (key: KeyRecord, secret: string): Required<ChangedKey> => {
    insertKey.run(key.id, hashSecret(secret), key.org_id, key.status, key.expires_at, JSON.stringify(key));
    return { key, secret };
  };
  const putKey = (key: KeyRecord): KeyRecord => {
    updateKey.run(key.status, key.expires_at, JSON.stringify(key), key.id);
    return key;
  };

  return {
    find: (lookup: Lookup): Answer<KeySnapshot | null> => {
      const key = "hash" in lookup ? recordOf<KeyRecord>(keyByHash.get(lookup.hash)) : keyOf(lookup.id);
      return key === undefined ? null : { key, org: ownerOf(key.org_id) };
    },
    change: (change: KeyChange, nowMs: number): Answer<ChangedKey | ManagementRefusal> =>
      transaction(() => {
        const owner = ownerOf(change.org);
        if (change.does === "create") {
          const live = Number(countLive.get(owner.id, Math.floor(nowMs))?.live ?? 0);
          const decided = decideCreation(owner, live, change.request);
          if ("refuse" in decided) return decided;
          const secret = makeSecret(decided);
          return addKey({ ...decided, id: makeKeyId(), created_at: nowMs, last4: secret.slice(-4) }, secret);
        }
        const before = keyOf(change.id) ?? null;
        // Expired is terminal (item 63): a change must not bring a key back.
        const expired = before !== null && before.expires_at !== null && before.expires_at <= nowMs;
        const decided =
          change.does === "revoke"
            ? decideRevocation(owner, before)
            : decideUpdate(owner, expired ? null : before, change.request);
        return "refuse" in decided ? decided : { key: putKey(decided) };
      }),
    /** Makes the organization, or changes the fields that are given. A new one needs a tier. */
    putOrganization: (input: OrganizationInput): Organization =>
      transaction(() => {
        const before = input.id === undefined ? undefined : organization(input.id);
        const after = before === undefined ? newOrganization(input) : changeOrganization(before, input);
        storeOrganization.run(after.id, JSON.stringify(after));
        return after;
      }),
    organization: (id: string): Organization | null => organization(id) ?? null,
    /** Makes a key, or replaces the one with that id and its secret. The secret is generated unless given. */
    putKey: (input: KeyInput, nowMs: number): Required<ChangedKey> =>
      transaction(() => {
        if (organization(input.org_id) === undefined) {
          throw unstorable(`expected an organization that exists, got ${input.org_id}: make it first`);
        }
        const secret = input.secret ?? makeSecret({ kind: input.kind, env: input.env ?? "live" });
        const key = newKey(input, secret, nowMs);
        const other = recordOf<KeyRecord>(keyByHash.get(hashSecret(secret)));
        if (other !== undefined && other.id !== key.id) {
          throw unstorable("there is another key with this secret already");
        }
        return addKey(key, secret);
      }),
    /** Changes the given fields except id and owner. `null`: there is no such key. */
    patchKey: (id: string, patch: Partial<KeyRecord>): KeyRecord | null =>
      transaction(() => {
        const before = keyOf(id);
        if (before === undefined) return null;
        const { org_id, last4 } = before;
        return putKey({ ...before, ...patch, id, org_id, last4 });
      }),
    close: () => db.close(),
  };
};

// The key service and its control plane, which stores any record, even one that key management would refuse.

const LOOKUPS = Type.Object({ lookups: Type.Array(LOOKUP) });

/** Bounded, so that sums stay exact integers in every store. */
const Loads = Type.Integer({ minimum: 0, maximum: 1_000_000_000_000 });
/** Refuses text with a lone surrogate: a store would change it, and two names might become one. */
const Name = Type.Refine(
  Type.String({ minLength: 1, maxLength: 200 }),
  (name) => name.isWellFormed(),
  () => "must be text",
);

/** Some fields of a record, for the control plane. An unknown field is an error and is not ignored. */
const some = <F extends TProperties>(fields: F) => Type.Partial(Type.Object(fields), { additionalProperties: false });
const ORGANIZATION_INPUT = some({
  ...ORGANIZATION.properties,
  ...{ id: Name, map_load_allowance: Loads, map_loads_used: Loads },
});
const KEY_PATCH = some(KEY_RECORD.properties);
const Secret = Type.String({ minLength: 8, maxLength: 256 });
const { org_id, kind } = KEY_RECORD.properties;
const KEY_INPUT = Type.Object(
  { ...KEY_PATCH.properties, id: Type.Optional(Name), secret: Type.Optional(Secret), org_id, kind },
  { additionalProperties: false },
);
const ADMIN_TOKEN = Type.Object({
  org: Name,
  expires_in: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000 })),
});

/** Waits for the limiter, which stores part of an organization. If it does not answer, the error says what has been stored. */
const ofLimiter = <T>(stored: string, answer: Promise<T>): Promise<T> =>
  answer.catch((error: unknown) => {
    throw new RequestError(503, `${stored}, but the limiter did not answer (${reasonOf(error)}): send it again`);
  });

/** `limiter` is needed to set what an organization has used, `adminSecret` to make admin tokens. */
type Options = { store: KeyStore; clock: Clock; adminSecret?: string; limiter?: Limiter };

const keyControl = ({ store, clock, limiter, adminSecret }: Options, lookups: () => number): ControlPart => {
  const putOrganization = async (input: Static<typeof ORGANIZATION_INPUT>): Promise<Organization> => {
    const { map_loads_used, ...fields } = input;
    if (map_loads_used !== undefined && limiter === undefined) {
      throw new RequestError(409, "map_loads_used is kept by the limiter: start the key service with --limiter");
    }
    const organization = store.putOrganization(fields);
    if (map_loads_used !== undefined) {
      const set = (limiter as Limiter).setUsed(organization.id, "map_loads", map_loads_used);
      await ofLimiter("the organization is stored and map_loads_used may not be", set);
    }
    return organization;
  };

  const withUsed = async (organization: Organization): Promise<object> => {
    if (limiter === undefined) return organization;
    const used = limiter.used(organization.id, "map_loads");
    return { ...organization, map_loads_used: await ofLimiter("the organization is as asked", used) };
  };

  const known = <T>(record: T | null, what: string, id: string): T => {
    if (record === null) throw new RequestError(404, `there is no ${what} ${id}`);
    return record;
  };

  const making = [
    routeWith(ORGANIZATION_INPUT, "POST", "/orgs", async (input) => withUsed(await putOrganization(input))),
    routeWith(KEY_INPUT, "POST", "/keys", (input) => {
      const { key, secret } = store.putKey(input, clock.nowMs());
      return { ...key, key: secret };
    }),
    routeWith(ADMIN_TOKEN, "POST", "/admin-tokens", ({ org, expires_in: expiresInS }) => {
      if (adminSecret === undefined) {
        throw new RequestError(409, "admin tokens need a secret: start the key service with FLOODGATE_ADMIN_SECRET");
      }
      return { token: mintAdminToken({ secret: adminSecret, org, nowMs: clock.nowMs(), expiresInS }) };
    }),
  ];
  return {
    routes: [
      ...making.map((one) => ({ ...one, status: 201 })),
      route("GET", "/lookups", () => ({ lookups: lookups() })),
      route("GET", "/orgs/:id", ({ id }) => withUsed(known(store.organization(id), "organization", id))),
      routeWith(ORGANIZATION_INPUT, "PATCH", "/orgs/:id", async (input, id) => {
        known(store.organization(id), "organization", id);
        return withUsed(await putOrganization({ ...input, id }));
      }),
      routeWith(KEY_PATCH, "PATCH", "/keys/:id", (patch, id) => known(store.patchKey(id, patch), "key", id)),
    ],
  };
};

export const startKeyService = async (options: Options, at: ListenAt): Promise<Service> => {
  const { store, clock } = options;
  let lookups = 0;
  const routes = [
    routeWith(LOOKUPS, "POST", "/lookups", async (asked) => {
      const answers: unknown[] = [];
      for (const lookup of asked.lookups) {
        lookups += 1;
        const snapshot = await store.find(lookup);
        answers.push({ of: nameOfLookup(lookup), found: snapshot !== null, ...snapshot });
      }
      return { answers };
    }),
    routeWith(KEY_CHANGE, "POST", "/changes", (change) => store.change(change, clock.nowMs())),
  ];
  const service = await startHttpService({ ...at, routes });
  const close = async (): Promise<void> => {
    await service.close();
    store.close();
  };
  return { url: service.url, control: keyControl(options, () => lookups), close };
};
