/** The platform for benchmarks: three processes over real TCP, one organization, keys, caps that nothing reaches; its calls. */
import { randomBytes } from "node:crypto";
import { controlSend, knowControlToken } from "../client/control-planes.ts";
import { routeOf } from "../contract/routes.ts";
import { loadTenants, seedNow, sendSeed } from "../deployments/tenants.ts";
import type { Role, RoleOptions, Urls } from "../platform/start-role.ts";
import { makeToken } from "../supervision/private-file.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import type { LoadCall } from "./closed-loop.ts";
import { type Server, startServer } from "./server-process.ts";

export type Deployment = Awaited<ReturnType<typeof startDeployment>>;

type DeploymentOptions = {
  /** Store of the limiter service, or `redis://…`. */
  limiter?: string | undefined;
  api?: RoleOptions;
  nodeArguments?: readonly string[];
};

/** High enough to refuse nothing; the limiter decides every call all the same. */
const RATE = { perS: 1e9, burst: 1e9 };
const CAP = 1_000_000;

/** The processes end in reverse order, as soon as one could not be started. */
export const startDeployment = async (
  supervisor: Supervisor,
  { limiter: store = "memory", api: ofApi, nodeArguments }: DeploymentOptions = {},
) => {
  await using started = new AsyncDisposableStack();
  const controlToken = makeToken();
  const secrets = { sessionSecret: randomBytes(32).toString("hex"), adminSecret: randomBytes(32).toString("hex") };
  const start = async (role: Role, asked: RoleOptions, more?: readonly string[]): Promise<Server<Urls>> => {
    const options = { controlPort: 0, controlToken, ...secrets, ...asked };
    const server = started.use(await startServer<Urls>(supervisor, { kind: "role", role, options }, more));
    for (const url of Object.values(server.made.control ?? {})) knowControlToken(url, controlToken);
    return server;
  };
  const limiter = store.startsWith("redis:") ? undefined : await start("limiter", { limiter: store });
  const links = { limiter: limiter?.made.limiter ?? store };
  const keys = await start("keys", { keys: "memory", ...links });
  const caps = { rateLimit: RATE, globalInFlight: CAP, orgInFlight: CAP };
  const api = await start("api", { keys: keys.made.keys as string, ...links, ...caps, ...ofApi }, nodeArguments);
  const seed = seedNow(loadTenants(1), secrets.adminSecret);
  await sendSeed(keys.made.control?.keys as string, seed);
  const [tenant] = seed.target.tenants;
  const processes = started.move();
  return {
    api,
    limiter,
    keys,
    calls: callsOf(api.made.api as string, tenant?.server?.key ?? "", tenant?.publishable.key ?? ""),
    patch: (body: Record<string, unknown>) => controlSend("PATCH", `${api.made.control?.api}/deployment`, body),
    [Symbol.asyncDispose]: () => processes.disposeAsync(),
  };
};

/** A call of every kind that is measured, by a full-scope server key and a full-scope publishable key. */
const callsOf = (url: string, serverKey: string, publishableKey: string) => {
  const by = (secret: string, more = {}) => ({ authorization: `Bearer ${secret}`, ...more });
  const read = (secret: string) => ({ method: "GET", url: `${url}/design/styles`, headers: by(secret) }) as const;
  const json = { "content-type": "application/json" };
  const mint = { url: `${url}/sdk/sessions`, headers: by(publishableKey, { origin: "https://app.example", ...json }) };
  return {
    read: read(serverKey),
    refused: read("garbage"),
    mintChat: { method: "POST", ...mint, body: '{"product":"chat"}' },
    mintTile: { method: "POST", ...mint, body: '{"product":"tile"}' },
    load: { method: "POST", url: `${url}/maps/loads`, headers: by(serverKey, json), body: "{}" },
    stream: {
      ...{ method: "POST", url: url + routeOf("chat.control").path, headers: by(serverKey, json) },
      body: JSON.stringify({ messages: [{ role: "user", content: "where is the station?" }] }),
    },
  } satisfies Record<string, LoadCall>;
};
