/** The key service: look-ups and key management on one listener, the control plane on another (interface.md section 4). */
import type { KeyCreation, KeyUpdate } from "../../core/management.ts";
import { type Clock, shiftableClock } from "../clock.ts";
import { type ControlPart, startControlPlane } from "../control-plane.ts";
import type { Limiter } from "../limiter.ts";
import { RequestError, type ServiceRoute, startHttpService } from "../links/http-service.ts";
import type { Network } from "../links/network.ts";
import { keyControl } from "./key-control.ts";
import type { KeyStore } from "./store.ts";
import { creationBody, lookupsBody, nameOfLookup, revocationBody, updateBody } from "./wire.ts";

export type KeyService = {
  url: string;
  controlUrl?: string;
  /** For a control plane that several roles share. */
  control: ControlPart;
  /** Lets running calls finish, then closes the store. */
  close(): Promise<void>;
};

const keyRoutes = (store: KeyStore, clock: Clock, looked: () => void): ServiceRoute[] => [
  {
    method: "POST",
    path: "/lookups",
    handle: async ({ body }) => {
      if (!lookupsBody.Check(body)) throw new RequestError(422, "expected {lookups:[{hash}|{id}]}");
      const answers: unknown[] = [];
      for (const lookup of body.lookups) {
        looked();
        const snapshot = await ("hash" in lookup ? store.byHash(lookup.hash) : store.byId(lookup.id));
        const of = nameOfLookup(lookup);
        answers.push(snapshot === null ? { of, found: false } : { of, found: true, ...snapshot });
      }
      return { status: 200, body: { answers } };
    },
  },
  {
    method: "POST",
    path: "/creations",
    handle: async ({ body }) => {
      if (!creationBody.Check(body)) throw new RequestError(422, "expected {org, request}");
      return { status: 200, body: await store.create(body.org, body.request as KeyCreation, clock.nowMs()) };
    },
  },
  {
    method: "POST",
    path: "/updates",
    handle: async ({ body }) => {
      if (!updateBody.Check(body)) throw new RequestError(422, "expected {org, id, request}");
      return { status: 200, body: await store.update(body.org, body.id, body.request as KeyUpdate, clock.nowMs()) };
    },
  },
  {
    method: "POST",
    path: "/revocations",
    handle: async ({ body }) => {
      if (!revocationBody.Check(body)) throw new RequestError(422, "expected {org, id}");
      return { status: 200, body: await store.revoke(body.org, body.id) };
    },
  },
];

/**
 * `control` absent: no control plane of its own. `port: 0` lets the system choose. `limiter` is needed to set what an
 * organization has used, `adminSecret` to make admin tokens.
 */
export const startKeyService = async (options: {
  store: KeyStore;
  host?: string;
  port: number;
  control?: { port: number; token: string };
  clock?: Clock;
  network?: Network | undefined;
  adminSecret?: string;
  limiter?: Limiter;
}): Promise<KeyService> => {
  const { store, clock = shiftableClock() } = options;
  let lookups = 0;
  const control = keyControl({
    store,
    clock,
    lookups: () => lookups,
    ...(options.adminSecret === undefined ? {} : { adminSecret: options.adminSecret }),
    ...(options.limiter === undefined ? {} : { limiter: options.limiter }),
  });
  const service = await startHttpService({
    host: options.host ?? "127.0.0.1",
    port: options.port,
    network: options.network,
    routes: keyRoutes(store, clock, () => {
      lookups += 1;
    }),
  });
  const plane =
    options.control === undefined ? null : await startControlPlane({ ...options.control, parts: [control] });
  return {
    url: service.url,
    ...(plane === null ? {} : { controlUrl: plane.url }),
    control,
    close: async () => {
      await Promise.all([service.close(), plane?.close()]);
      store.close();
    },
  };
};
