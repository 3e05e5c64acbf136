/** Starts one role, or API, key service and limiter in one process, joined by HTTP over TCP, so that proxies fit in. */
import { randomBytes } from "node:crypto";
import { isLoopbackHost } from "../contract/address.ts";
import { isBlock } from "../core/origin.ts";
import type { ApiOptions } from "./api/context.ts";
import type { Gauges } from "./api/control.ts";
import { type ApiService, startApiService } from "./api/server.ts";
import { type ControlPart, isUsableToken, type SaveOffset, type Service, startControlPlane } from "./control-plane.ts";
import { startFront } from "./front.ts";
import { openKeyStore, startKeyService } from "./keys/store.ts";
import { ledgerRoute, openLimiterStore, startLimiterService } from "./limiter/store.ts";
import { countedNetwork, type Network, reasonOf, TCP } from "./links/http-service.ts";
import { HEALTHY, type Parts } from "./parts.ts";
import { createHttpKeys, createHttpLimiter, type Limiter, type OperableLimiter, shiftableClock } from "./ports.ts";
import type { Administration } from "./seed.ts";

export const ROLES = ["all", "api", "keys", "limiter", "front"] as const;
export type Role = (typeof ROLES)[number];

type PartUrls = { [part in Exclude<Role, "all">]?: string };
/** `control` has one entry for each part; in one process they all name the same listener. */
export type Urls = PartUrls & { control?: PartUrls };

export type RoleOptions = Omit<ApiOptions, "sessionSecret" | "adminSecret" | "clock"> & {
  upstreams?: readonly string[];
  /** Port of the role's public listener, of the API in `all`; 0 lets the system choose. */
  port?: number;
  controlPort?: number;
  /** The host of the control plane, default 127.0.0.1; beyond loopback only with a token. */
  controlHost?: string;
  /** What callers of the control plane must send as `Authorization: Bearer`; absent: nothing. */
  controlToken?: string;
  /** `sqlite:PATH`, `memory`, or the URL of a key service; default `memory`. */
  keys?: string;
  /** `sqlite:PATH`, `memory`, the URL of a limiter service, or `redis://…`; default `memory`. */
  limiter?: string;
  /** Other addresses for the API's two links; called when the services of this process listen. */
  links?: (services: Links) => Links | Promise<Links>;
  /** Generated for the role `all` if absent; every other role requires it. */
  sessionSecret?: string;
  adminSecret?: string;
};

export type Links = { keys: string; limiter: string };

export type Running = {
  urls: Urls;
  /** The token of the control plane, generated if none was given. */
  controlToken?: string;
  gauges(): Gauges | undefined;
  api?: ApiService;
  /** Absent if this role does not own the key records or does not know the limiter. */
  administration?: Administration;
  /** Stops all parts, the API first, so that it can settle refunds with the limiter. */
  close(): Promise<void>;
};

export class RoleOptionsError extends Error {
  override name = "RoleOptionsError";
}

type Store = "keys" | "limiter";

const isRedis = (text: string): boolean => /^rediss?:\/\//.test(text);
const isAddress = (kind: Store, text: string) => /^https?:\/\//.test(text) || (kind === "limiter" && isRedis(text));

const limiterAt = async (url: string, network: Network | undefined): Promise<Limiter> =>
  isRedis(url)
    ? (await import("./limiter/redis-limiter.ts")).createRedisLimiter({ url })
    : createHttpLimiter({ url, network });

const demand: (holds: boolean, otherwise: string) => asserts holds = (holds, otherwise) => {
  if (!holds) throw new RoleOptionsError(otherwise);
};

const addressOf = (kind: Store, address: string): string => {
  const also = kind === "limiter" ? " or redis://…" : "";
  demand(isAddress(kind, address), `expected --${kind} http://HOST:PORT${also} for --role api, got "${address}"`);
  return address;
};

const openStore = <S>(option: string, kind: Store, open: (path: string) => S): S => {
  const path = option === "memory" ? ":memory:" : /^sqlite:(.+)$/s.exec(option)?.[1];
  demand(path !== undefined, `expected --${kind} sqlite:PATH or memory for a store of its own, got "${option}"`);
  try {
    return open(path);
  } catch (error) {
    throw new RoleOptionsError(`--${kind} ${option}: ${reasonOf(error)}`);
  }
};

/** Item 24: no session lives longer than 30 minutes, whatever the configuration says. */
const SESSION_LIFETIME_MAX_S = 1_800;

const checkOptions = (options: RoleOptions): void => {
  const { sessionLifetimeS: lifetimeS = 1, trustedProxies = [] } = options;
  const { controlHost = "127.0.0.1", controlPort, controlToken } = options;
  const range = `expected a session lifetime of 1 to ${SESSION_LIFETIME_MAX_S} seconds, got ${lifetimeS}`;
  demand(lifetimeS > 0 && lifetimeS <= SESSION_LIFETIME_MAX_S, range);
  const wrong = trustedProxies.find((block) => !isBlock(block));
  demand(wrong === undefined, `expected a trusted proxy as an address or a CIDR block, got "${wrong}"`);
  demand(
    controlToken === undefined || isUsableToken(controlToken),
    "expected FLOODGATE_CONTROL_TOKEN to be 16 or more visible ASCII characters without a blank, got something else; e.g. openssl rand -hex 32",
  );
  if (isLoopbackHost(controlHost)) return;
  const remote = `--control-host ${controlHost}`;
  demand(controlPort !== undefined, `${remote} needs --control-port: without it there is no control plane`);
  demand(
    controlToken !== undefined,
    `${remote} is not loopback: expected FLOODGATE_CONTROL_TOKEN in the environment, got none; set it (e.g. openssl rand -hex 32), or leave the control plane on loopback`,
  );
};

const secretOf = (role: Role, name: "session" | "admin", given: string | undefined): string => {
  if (role === "all" && !given) return randomBytes(32).toString("hex");
  const variable = `FLOODGATE_${name.toUpperCase()}_SECRET`;
  demand(!!given, `expected ${variable} for --role ${role}: replicas share it, so it is never made up`);
  return given;
};

/** Starts a role. Its parts share one control listener, which `urls.control` lists under each part. */
export const startRole = async (role: Role, options: RoleOptions, parts: Parts = HEALTHY): Promise<Running> => {
  checkOptions(options);
  const { host = "127.0.0.1", network, port = 0 } = options;
  /** Where key service and limiter listen; in `all`, only the API is for callers outside this process. */
  const serviceAt = role === "all" ? { host: "127.0.0.1", port: 0, network } : { host, port, network };
  const clock = shiftableClock();
  const controls: ControlPart[] = [];
  const urls: Urls = {};
  const started = new AsyncDisposableStack();
  const kept = <T extends { close(): Promise<void> }>(one: T): T => started.adopt(one, () => one.close());
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= started.disposeAsync();
    return closing;
  };
  const running: Running = { urls, gauges: () => running.api?.gauges(), close };
  const add = (part: Exclude<Role, "all">, service: Service): void => {
    controls.push(kept(service).control);
    urls[part] = service.url;
  };

  const limiterOption = options.limiter ?? "memory";
  const keysOption = options.keys ?? "memory";
  const adminSecret = role === "limiter" || role === "front" ? "" : secretOf(role, "admin", options.adminSecret);
  let saveOffset: SaveOffset | undefined;

  try {
    if (role === "front") {
      const { upstreams = [] } = options;
      demand(upstreams.length > 0, "expected --upstream http://HOST:PORT for --role front, got none");
      add("front", await startFront(upstreams, { host, port }));
    }
    if (role === "limiter" || (role === "all" && !isAddress("limiter", limiterOption))) {
      const store = openStore(limiterOption, "limiter", (path) => openLimiterStore(path, parts.limiterDecisions));
      add("limiter", await startLimiterService({ store: parts.limiterStore(store), clock }, serviceAt));
    }
    if (role === "keys" || (role === "all" && !isAddress("keys", keysOption))) {
      const store = openStore(keysOption, "keys", (path) => openKeyStore(path, parts.keyDecisions));
      const metersAt = urls.limiter ?? limiterOption;
      const limiter = isAddress("limiter", metersAt) ? kept(await limiterAt(metersAt, network)) : undefined;
      if (limiter !== undefined) running.administration = { keys: store, limiter };
      add("keys", await startKeyService({ store: parts.keyStore(store), clock, adminSecret, limiter }, serviceAt));
    }
    if (role === "all" || role === "api") {
      const services = { keys: urls.keys ?? keysOption, limiter: urls.limiter ?? limiterOption };
      const links = (await options.links?.(services)) ?? services;
      const counted = countedNetwork(network ?? TCP);
      const dials = parts.linkNetwork(counted);
      const keys = kept(createHttpKeys({ url: addressOf("keys", links.keys), network: dials }));
      const limiter = kept(await limiterAt(addressOf("limiter", links.limiter), dials));
      // With Redis there is no limiter service, so the API's control plane serves the ledger.
      if (isRedis(services.limiter)) {
        const { ledger, setClockOffset } = limiter as OperableLimiter;
        controls.push({ routes: [ledgerRoute(ledger)] });
        saveOffset = setClockOffset;
      }
      const sessionSecret = secretOf(role, "session", options.sessionSecret);
      const made = { ...options, host, clock, sessionSecret, adminSecret };
      running.api = await startApiService(made, { keys, limiter, sockets: counted.open }, parts);
      add("api", running.api);
    }
    const { controlHost, controlPort, controlToken = randomBytes(32).toString("hex") } = options;
    if (controlPort !== undefined) {
      const at = { host: controlHost, port: controlPort };
      const plane = kept(await startControlPlane({ ...at, token: controlToken, parts: controls, clock, saveOffset }));
      running.controlToken = controlToken;
      urls.control = {};
      for (const part of ["api", "keys", "limiter", "front"] as const) {
        if (urls[part] !== undefined || (part === "limiter" && isRedis(limiterOption))) urls.control[part] = plane.url;
      }
    }
    return running;
  } catch (error) {
    await close();
    throw error;
  }
};
