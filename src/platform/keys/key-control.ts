/**
 * The key service's part of the control plane (interface.md section 4): any organization and any key, also one that key
 * management would refuse, and tokens for an organization's admin. For fixtures and operators; on loopback only.
 */
import type { KeyRecord, Organization } from "../../core/records.ts";
import type { Clock } from "../clock.ts";
import { type ControlPart, readClockOffset } from "../control-plane.ts";
import { type KeyInput, KeyInputError, type OrganizationInput } from "../keys.ts";
import type { Limiter } from "../limiter.ts";
import { RequestError, type ServiceReply } from "../links/http-service.ts";
import { mintAdminToken } from "./admin-tokens.ts";
import type { KeyStore } from "./store.ts";
import { adminTokenBody, keyBody, keyPatchBody, organizationBody } from "./wire.ts";

type Body = { Check(value: unknown): boolean; Errors(value: unknown): { instancePath: string; message: string }[] };

/** Throws what does not fit, in a sentence. */
const expect = (schema: Body, body: unknown): void => {
  if (schema.Check(body)) return;
  const wrong = schema.Errors(body ?? null)[0];
  throw new RequestError(422, `${wrong?.instancePath || "the body"} ${wrong?.message ?? "does not fit"}`);
};

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

export const keyControl = (options: {
  store: KeyStore;
  clock: Clock;
  /** Records looked up so far by the replicas of the API. */
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

  /** With `map_loads_used` where the limiter is known. */
  const reply = async (status: number, organization: Organization): Promise<ServiceReply> => ({
    status,
    body:
      limiter === undefined
        ? organization
        : {
            ...organization,
            map_loads_used: await ofLimiter("the organization is as asked", () =>
              limiter.used(organization.id, "map_loads"),
            ),
          },
  });

  const missing = (what: string, id: string | undefined): RequestError =>
    new RequestError(404, `there is no ${what} ${id}`);

  return {
    routes: [
      { method: "GET", path: "/lookups", handle: () => ({ status: 200, body: { lookups: lookups() } }) },
      {
        method: "POST",
        path: "/orgs",
        handle: async ({ body }) => {
          expect(organizationBody, body);
          return reply(201, await putOrganization(body as OrganizationInput));
        },
      },
      {
        method: "PATCH",
        path: "/orgs/{id}",
        handle: async ({ params, body }) => {
          const id = params.id as string;
          expect(organizationBody, body);
          if (store.organization(id) === null) throw missing("organization", id);
          return reply(200, await putOrganization({ ...(body as OrganizationInput), id }));
        },
      },
      {
        method: "GET",
        path: "/orgs/{id}",
        handle: async ({ params }) => {
          const organization = store.organization(params.id as string);
          if (organization === null) throw missing("organization", params.id);
          return reply(200, organization);
        },
      },
      {
        method: "POST",
        path: "/keys",
        handle: ({ body }) => {
          expect(keyBody, body);
          const { key, secret } = stored(() => store.putKey(body as KeyInput, clock.nowMs()));
          return { status: 201, body: { ...key, key: secret } };
        },
      },
      {
        method: "PATCH",
        path: "/keys/{id}",
        handle: ({ params, body }) => {
          expect(keyPatchBody, body);
          const key = store.patchKey(params.id as string, body as Partial<KeyRecord>);
          if (key === null) throw missing("key", params.id);
          return { status: 200, body: key };
        },
      },
      {
        method: "POST",
        path: "/admin-tokens",
        handle: ({ body }) => {
          expect(adminTokenBody, body);
          if (adminSecret === undefined) {
            throw new RequestError(
              409,
              "admin tokens need a secret: start the key service with FLOODGATE_ADMIN_SECRET",
            );
          }
          const { org, expires_in } = body as { org: string; expires_in?: number };
          const token = mintAdminToken({
            secret: adminSecret,
            org,
            nowMs: clock.nowMs(),
            ...(expires_in === undefined ? {} : { expiresInS: expires_in }),
          });
          return { status: 201, body: { token } };
        },
      },
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
