/**
 * The key service, and its control plane, which stores any organization and any key, also one that key management would
 * refuse.
 */
import type { KeyCreation, KeyUpdate } from "../../core/management.ts";
import type { KeyRecord, Organization } from "../../core/records.ts";
import { type Clock, shiftableClock } from "../clock.ts";
import { type ControlPart, readClockOffset, type Service } from "../control-plane.ts";
import type { Limiter } from "../limiter.ts";
import {
  bodyOf,
  type ListenAt,
  RequestError,
  route,
  type ServiceRoute,
  startHttpService,
} from "../links/http-service.ts";
import { mintAdminToken } from "./secret.ts";
import { type KeyInput, KeyInputError, type KeyStore, type OrganizationInput } from "./store.ts";
import {
  adminTokenBody,
  creationBody,
  keyBody,
  keyPatchBody,
  lookupsBody,
  nameOfLookup,
  organizationBody,
  revocationBody,
  updateBody,
} from "./wire.ts";

/** A record that cannot be stored is the caller's mistake. */
const stored = <T>(work: () => T): T => {
  try {
    return work();
  } catch (error) {
    if (error instanceof KeyInputError) throw new RequestError(422, error.message);
    throw error;
  }
};

/** What the limiter keeps of an organization. Without its answer an operator must know what was done all the same. */
const ofLimiter = async <T>(stored: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new RequestError(503, `${stored}, but the limiter did not answer (${why}): send it again when it does`);
  }
};

const made = (path: string, make: (body: unknown) => unknown): ServiceRoute => ({
  method: "POST",
  path,
  handle: async ({ body }) => ({ status: 201, body: await make(body) }),
});

const keyControl = (options: {
  store: KeyStore;
  clock: Clock;
  lookups(): number;
  limiter?: Limiter;
  adminSecret?: string;
}): ControlPart => {
  const { store, clock, lookups, limiter, adminSecret } = options;

  const putOrganization = async (input: OrganizationInput & { map_loads_used?: number }): Promise<Organization> => {
    const { map_loads_used, ...fields } = input;
    if (map_loads_used !== undefined && limiter === undefined) {
      throw new RequestError(409, "map_loads_used is kept by the limiter: start the key service with --limiter");
    }
    const organization = stored(() => store.putOrganization(fields));
    if (map_loads_used !== undefined) {
      await ofLimiter("the organization is stored and map_loads_used may not be", async () =>
        limiter?.setUsed(organization.id, "map_loads", map_loads_used),
      );
    }
    return organization;
  };

  const withUsed = async (organization: Organization): Promise<object> => {
    if (limiter === undefined) return organization;
    const used = limiter.used(organization.id, "map_loads");
    return { ...organization, map_loads_used: await ofLimiter("the organization is as asked", () => used) };
  };

  const known = <T>(record: T | null, what: string, id: string | undefined): T => {
    if (record === null) throw new RequestError(404, `there is no ${what} ${id}`);
    return record;
  };

  return {
    routes: [
      route("GET", "/lookups", () => ({ lookups: lookups() })),
      made("/orgs", async (body) => withUsed(await putOrganization(bodyOf(organizationBody, body)))),
      route("PATCH", "/orgs/{id}", async ({ params: { id }, body }) => {
        const input = bodyOf(organizationBody, body);
        known(store.organization(id as string), "organization", id);
        return withUsed(await putOrganization({ ...input, id: id as string }));
      }),
      route("GET", "/orgs/{id}", ({ params: { id } }) =>
        withUsed(known(store.organization(id as string), "organization", id)),
      ),
      made("/keys", (body) => {
        const input = bodyOf(keyBody, body) as KeyInput;
        const { key, secret } = stored(() => store.putKey(input, clock.nowMs()));
        return { ...key, key: secret };
      }),
      route("PATCH", "/keys/{id}", ({ params: { id }, body }) => {
        const patch = bodyOf(keyPatchBody, body) as Partial<KeyRecord>;
        return known(store.patchKey(id as string, patch), "key", id);
      }),
      made("/admin-tokens", (body) => {
        const { org, expires_in: expiresInS } = bodyOf(adminTokenBody, body);
        if (adminSecret === undefined) {
          throw new RequestError(409, "admin tokens need a secret: start the key service with FLOODGATE_ADMIN_SECRET");
        }
        return { token: mintAdminToken({ secret: adminSecret, org, nowMs: clock.nowMs(), expiresInS }) };
      }),
    ],
    deployment: () => ({ clock_offset_ms: clock.offsetMs() }),
    readDeployment: (body) => {
      const offset = readClockOffset(body);
      return {
        apply: () => {
          if (offset !== undefined) clock.setOffsetMs(offset);
          return { clock_offset_ms: clock.offsetMs() };
        },
      };
    },
  };
};

const keyRoutes = (store: KeyStore, clock: Clock, looked: () => void): ServiceRoute[] => [
  route("POST", "/lookups", async ({ body }) => {
    const answers: unknown[] = [];
    for (const lookup of bodyOf(lookupsBody, body).lookups) {
      looked();
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

/** `limiter` is needed to set what an organization has used, `adminSecret` to make admin tokens. */
export const startKeyService = async (
  options: { store: KeyStore; clock?: Clock; adminSecret?: string; limiter?: Limiter },
  at: ListenAt,
): Promise<Service> => {
  const { store, clock = shiftableClock() } = options;
  let lookups = 0;
  const control = keyControl({ ...options, clock, lookups: () => lookups });
  const looked = (): void => {
    lookups += 1;
  };
  const service = await startHttpService({ ...at, routes: keyRoutes(store, clock, looked) });
  return {
    url: service.url,
    control,
    close: async () => {
      await service.close();
      store.close();
    },
  };
};
