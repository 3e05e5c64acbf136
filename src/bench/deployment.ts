/** The platform for benchmarks: three processes over real TCP, one organization, keys, caps that nothing reaches; its calls. */
import { randomBytes } from "node:crypto";
import { controlSend, knowControlToken } from "../client/control-planes.ts";
import { loadTenants, seedNow, sendSeed } from "../deployments/tenants.ts";
import type { RoleOptions, Urls } from "../platform/start-role.ts";
import { makeToken } from "../supervision/private-file.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import type { LoadCall } from "./closed-loop.ts";
import { type BenchChild, startBenchChild } from "./processes/child.ts";

export type Deployment = AsyncDisposable & {
  url: string;
  /** Secrets of a full-scope server key and a full-scope publishable key of one Pro organization. */
  serverKey: string;
  publishableKey: string;
  api: BenchChild;
  limiter: BenchChild | undefined;
  keys: BenchChild;
  patch(body: Record<string, unknown>): Promise<void>;
};

/** High enough to refuse nothing; the limiter decides every call all the same. */
const RATE = { perS: 1e9, burst: 1e9 };
const CAP = 1_000_000;

export const startDeployment = async (
  supervisor: Supervisor,
  options: {
    /** Store of the limiter service, or `redis://…`; default `memory`. */
    limiter?: string | undefined;
    api?: RoleOptions;
    nodeArguments?: readonly string[];
  } = {},
): Promise<Deployment> => {
  const children: BenchChild[] = [];
  const end = async (): Promise<void> => {
    for (const child of children.reverse()) await child.end();
  };
  const controlToken = makeToken();
  const secrets = { sessionSecret: randomBytes(32).toString("hex"), adminSecret: randomBytes(32).toString("hex") };
  const start = async (role: string, asked: RoleOptions, nodeArguments?: readonly string[]): Promise<BenchChild> => {
    const roleOptions = { controlPort: 0, controlToken, ...secrets, ...asked };
    const child = await startBenchChild(supervisor, "role-process.ts", { role, options: roleOptions }, nodeArguments);
    for (const url of Object.values((child.made as Urls).control ?? {})) knowControlToken(url, controlToken);
    children.push(child);
    return child;
  };
  try {
    const store = options.limiter ?? "memory";
    const limiter = store.startsWith("redis:") ? undefined : await start("limiter", { limiter: store });
    const limiterUrl = limiter === undefined ? store : ((limiter.made as Urls).limiter as string);
    const keys = await start("keys", { keys: "memory", limiter: limiterUrl });
    const links = { keys: (keys.made as Urls).keys, limiter: limiterUrl };
    const caps = { rateLimit: RATE, globalInFlight: CAP, orgInFlight: CAP };
    const api = await start("api", { ...links, ...caps, ...options.api }, options.nodeArguments);
    const urls = api.made as Urls;
    const seed = seedNow(loadTenants(1), secrets.adminSecret);
    await sendSeed((keys.made as Urls).control?.keys as string, seed);
    const [tenant] = seed.target.tenants;
    return {
      ...{ api, limiter, keys, url: urls.api as string },
      serverKey: tenant?.server?.key ?? "",
      publishableKey: tenant?.publishable.key ?? "",
      patch: async (body) => void (await controlSend("PATCH", `${urls.control?.api}/deployment`, body)),
      [Symbol.asyncDispose]: end,
    };
  } catch (error) {
    await end();
    throw error;
  }
};

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });
const JSON_IN = { "content-type": "application/json" };
const styles = (secret: string) => ({ method: "GET", path: "/design/styles", headers: bearer(secret) }) as const;

/** A call of every kind that is measured; the path is below the deployment's URL. */
export const callsOf = ({ serverKey, publishableKey }: Pick<Deployment, "serverKey" | "publishableKey">) => {
  const mint = { ...bearer(publishableKey), origin: "https://app.example", ...JSON_IN };
  const forJson = { ...bearer(serverKey), ...JSON_IN };
  return {
    read: styles(serverKey),
    refused: styles("garbage"),
    mintChat: { method: "POST", path: "/sdk/sessions", headers: mint, body: '{"product":"chat"}' },
    mintTile: { method: "POST", path: "/sdk/sessions", headers: mint, body: '{"product":"tile"}' },
    load: { method: "POST", path: "/maps/loads", headers: forJson, body: "{}" },
  } satisfies Record<string, Omit<LoadCall, "url"> & { path: string }>;
};
