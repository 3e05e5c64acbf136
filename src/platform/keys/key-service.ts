/** The key service, and its control plane, which stores any record, also one that key management would refuse. */
import { type TSchema, Type } from "typebox";
import { Compile } from "typebox/compile";
import type { KeyCreation, KeyUpdate } from "../../core/management.ts";
import type { KeyRecord, Organization } from "../../core/records.ts";
import type { Clock } from "../clock.ts";
import type { ControlPart, Service } from "../control-plane.ts";
import type { Limiter } from "../limiter.ts";
import {
  bodyOf,
  type ListenAt,
  RequestError,
  route,
  type ServiceRoute,
  startHttpService,
} from "../links/http-service.ts";
import { reasonOf } from "../reason-of.ts";
import { KEY_RECORD, REQUESTS } from "../schemas.ts";
import { KeySchema, nameOfLookup, organizationFields } from "./http-keys.ts";
import { mintAdminToken } from "./secret.ts";
import { type KeyInput, KeyInputError, type KeyStore, type OrganizationInput } from "./store.ts";

const lookupsBody = Compile(
  Type.Object({
    lookups: Type.Array(Type.Union([Type.Object({ hash: Type.String() }), Type.Object({ id: Type.String() })])),
  }),
);
/** The API checks which fields a request has; the core judges their values. */
const managementBody = (name: "keys.create" | "keys.update") => REQUESTS[name]?.schema as TSchema;
const creationBody = Compile(Type.Object({ org: Type.String(), request: managementBody("keys.create") }));
const updateBody = Compile(
  Type.Object({ org: Type.String(), id: Type.String(), request: managementBody("keys.update") }),
);
const revocationBody = Compile(Type.Object({ org: Type.String(), id: Type.String() }));

/** Bounded, so that sums stay exact integers in every store. */
const Loads = Type.Integer({ minimum: 0, maximum: 1_000_000_000_000 });
/** Refuses text with a lone surrogate: a store would change it, and two names might become one. */
const Name = Type.Refine(
  Type.String({ minLength: 1, maxLength: 200 }),
  (name) => name.isWellFormed(),
  () => "must be text",
);

/** A body of the control plane. An unknown field is an error and is not ignored. */
const organizationBody = Compile(
  Type.Partial(Type.Object({ ...organizationFields, id: Name, map_load_allowance: Loads, map_loads_used: Loads }), {
    additionalProperties: false,
  }),
);
const keyBody = Compile(
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
const keyPatchBody = Compile(Type.Partial(KeySchema, { additionalProperties: false }));
const adminTokenBody = Compile(
  Type.Object({ org: Name, expires_in: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000 })) }),
);

/** Turns a record that cannot be stored into an error of the caller. */
const stored = <T>(work: () => T): T => {
  try {
    return work();
  } catch (error) {
    if (error instanceof KeyInputError) throw new RequestError(422, error.message);
    throw error;
  }
};

/** Waits for the limiter, which stores part of an organization. If it does not answer, the error says what has been stored. */
const ofLimiter = <T>(stored: string, answer: Promise<T>): Promise<T> =>
  answer.catch((error: unknown) => {
    throw new RequestError(503, `${stored}, but the limiter did not answer (${reasonOf(error)}): send it again`);
  });

const made = (path: string, make: (body: unknown) => unknown): ServiceRoute =>
  route("POST", path, ({ body }) => make(body), 201);

/** `limiter` is needed to set what an organization has used, `adminSecret` to make admin tokens. */
type Options = { store: KeyStore; clock: Clock; adminSecret?: string; limiter?: Limiter };

const keyControl = ({ store, clock, limiter, adminSecret }: Options, lookups: () => number): ControlPart => {
  const putOrganization = async (input: OrganizationInput & { map_loads_used?: number }): Promise<Organization> => {
    const { map_loads_used, ...fields } = input;
    if (map_loads_used !== undefined && limiter === undefined) {
      throw new RequestError(409, "map_loads_used is kept by the limiter: start the key service with --limiter");
    }
    const organization = stored(() => store.putOrganization(fields));
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

  return {
    routes: [
      route("GET", "/lookups", () => ({ lookups: lookups() })),
      made("/orgs", async (body) => withUsed(await putOrganization(bodyOf(organizationBody, body)))),
      route("PATCH", "/orgs/:id", async ({ params: { id }, body }) => {
        const input = bodyOf(organizationBody, body);
        known(store.organization(id), "organization", id);
        return withUsed(await putOrganization({ ...input, id }));
      }),
      route("GET", "/orgs/:id", ({ params: { id } }) => withUsed(known(store.organization(id), "organization", id))),
      made("/keys", (body) => {
        const input = bodyOf(keyBody, body) as KeyInput;
        const { key, secret } = stored(() => store.putKey(input, clock.nowMs()));
        return { ...key, key: secret };
      }),
      route("PATCH", "/keys/:id", ({ params: { id }, body }) => {
        const patch = bodyOf(keyPatchBody, body) as Partial<KeyRecord>;
        return known(store.patchKey(id, patch), "key", id);
      }),
      made("/admin-tokens", (body) => {
        const { org, expires_in: expiresInS } = bodyOf(adminTokenBody, body);
        if (adminSecret === undefined) {
          throw new RequestError(409, "admin tokens need a secret: start the key service with FLOODGATE_ADMIN_SECRET");
        }
        return { token: mintAdminToken({ secret: adminSecret, org, nowMs: clock.nowMs(), expiresInS }) };
      }),
    ],
  };
};

export const startKeyService = async (options: Options, at: ListenAt): Promise<Service> => {
  const { store, clock } = options;
  let lookups = 0;
  const routes = [
    route("POST", "/lookups", async ({ body }) => {
      const answers: unknown[] = [];
      for (const lookup of bodyOf(lookupsBody, body).lookups) {
        lookups += 1;
        const snapshot = await ("hash" in lookup ? store.byHash(lookup.hash) : store.byId(lookup.id));
        answers.push({ of: nameOfLookup(lookup), found: snapshot !== null, ...snapshot });
      }
      return { answers };
    }),
    route("POST", "/creations", ({ body }) => {
      const { org, request } = bodyOf(creationBody, body);
      return store.create(org, request as KeyCreation, clock.nowMs());
    }),
    route("POST", "/updates", ({ body }) => {
      const { org, id, request } = bodyOf(updateBody, body);
      return store.update(org, id, request as KeyUpdate, clock.nowMs());
    }),
    route("POST", "/revocations", ({ body }) => {
      const { org, id } = bodyOf(revocationBody, body);
      return store.revoke(org, id);
    }),
  ];
  const service = await startHttpService({ ...at, routes });
  const close = async (): Promise<void> => {
    await service.close();
    store.close();
  };
  return { url: service.url, control: keyControl(options, () => lookups), close };
};
