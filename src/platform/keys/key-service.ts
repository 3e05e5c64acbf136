/** The key service and its control plane, which stores any record, even one that key management would refuse. */
import { type Static, type TProperties, Type } from "typebox";
import { KEY_RECORD, ORGANIZATION, type Organization } from "../../core/call.ts";
import type { Clock } from "../clock.ts";
import type { ControlPart, Service } from "../control-plane.ts";
import { type ListenAt, RequestError, reasonOf, route, routeWith, startHttpService } from "../links/http-service.ts";
import { KEY_CHANGE, type Limiter, LOOKUP, nameOfLookup } from "../ports.ts";
import { mintAdminToken } from "./secret.ts";
import type { KeyStore } from "./store.ts";

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
