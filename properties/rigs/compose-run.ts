/**
 * The services of docker-compose.yml as plain processes on loopback: the commands that stand there, with each name in them
 * replaced by where that service listens, if the file's networks let it be reached, and each port by a free one.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { startBySpawn } from "../../src/chaos/toxiproxy.fixture.ts";
import { startToxiproxy, type ToxiproxyServer } from "../../src/chaos/toxiproxy-server.ts";
import { type ComposeFile, type ComposeService, ROOT, resolveName } from "./compose-file.ts";

const ENTRY = join(ROOT, "src/cli/floodgate.mjs");
/** Stands for the addresses of the inner network: not the loopback address that the control planes have. */
const INNER = "127.0.0.2";

export type ComposeRun = {
  /** One of the platform's roles, or Redis. */
  start(service: string): Promise<void>;
  /** toxiproxy itself, without proxies. */
  toxiproxy(path: string): Promise<void>;
  /** Proxies of its configuration, whose upstreams must be there. */
  link(...names: string[]): Promise<void>;
  /** Its relay, which must be running before somebody asks `…-control`. */
  relay(service: string): Promise<void>;
  /** Exit code of a service's health check. */
  health(service: string): number | null;
  /** What `docker compose run --rm operator …` says. */
  operator(method: string, url: string, body?: object): { ok: boolean; text: string };
  /** Where a port of a service is now, `http://…`. */
  url(service: string, port: number): string;
  stop(): Promise<void>;
};

type Proxy = { name: string; listen: string; upstream: string };

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
};

const until = async (what: string, holds: () => Promise<boolean>): Promise<void> => {
  const deadline = performance.now() + 10_000;
  while (!(await holds().catch(() => false))) {
    if (performance.now() > deadline) throw new Error(`waited 10 s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

const ADDRESS = /([a-z][\w-]*):(\d+)/g;

export const openComposeRun = async (file: ComposeFile, profile: string): Promise<ComposeRun> => {
  const folder = await mkdtemp(join(tmpdir(), "floodgate-compose-"));
  const children: ChildProcess[] = [];
  /** `service:port` of the file -> `host:port` here. */
  const places = new Map<string, string>();
  const controls = new Map<string, string>();
  let proxies: ToxiproxyServer | undefined;

  const serviceOf = (name: string): ComposeService => file.services[name] as ComposeService;
  const place = (service: string, port: number | string): string => {
    const here = places.get(`${service}:${port}`);
    if (here === undefined) throw new Error(`expected ${service} to listen on ${port} before it is asked`);
    return here;
  };
  /** `name:port` in a text as `from` would reach it. */
  const localized = (from: string, text: string): string =>
    text.replace(ADDRESS, (whole, name: string, port: string) => {
      if (name === "localhost") return whole;
      const [service] = resolveName(file, from, name, profile);
      if (service === undefined) throw new Error(`expected ${from} to reach ${name}: no network of both knows it`);
      return place(service, port);
    });

  const launch = (command: string, args: string[], environment: Record<string, string> = {}): ChildProcess => {
    const child = spawn(command, args, {
      cwd: folder,
      stdio: ["pipe", "pipe", "ignore"],
      // Ours end with us, however we end.
      env: { ...process.env, ...environment, FLOODGATE_END_WITH_STDIN: "1" },
    });
    children.push(child);
    return child;
  };

  const startRole = async (name: string): Promise<void> => {
    const { command = [], environment } = serviceOf(name);
    const port = command.find((word) => word.startsWith("--port="))?.slice("--port=".length) as string;
    const args = command.map((word) => {
      if (word.startsWith("--host=")) return "--host=127.0.0.1";
      if (/^--(control-)?port=/.test(word)) return word.replace(/=.*/, "=0");
      return word.startsWith("--keys=sqlite:/data/") || word.startsWith("--limiter=sqlite:/data/")
        ? word.replace("/data/", `${folder}/`)
        : localized(name, word);
    });
    const child = launch(process.execPath, [ENTRY, ...args, "--log-level=silent"], environment);
    for await (const line of createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })) {
      const { control, ...urls } = JSON.parse(line);
      places.set(`${name}:${port}`, new URL(Object.values(urls)[0] as string).host);
      controls.set(name, new URL(Object.values(control)[0] as string).port);
      return;
    }
    throw new Error(`${name} did not start: ${args.join(" ")}`);
  };

  const startRedis = async (): Promise<void> => {
    const [program, ...words] = serviceOf("redis").command as [string, ...string[]];
    const port = await freePort();
    const at = words.indexOf("--port") + 1;
    const told = words[at] as string;
    const args = words.with(at, String(port));
    launch(program, [...args, "--bind", "127.0.0.1", "--dir", folder]);
    const ping = ["-p", String(port), "ping"];
    await until("Redis", async () => spawnSync("redis-cli", ping, { encoding: "utf8" }).stdout.includes("PONG"));
    places.set(`redis:${told}`, `127.0.0.1:${port}`);
  };

  return {
    start: (name) => (name === "redis" ? startRedis() : startRole(name)),
    toxiproxy: async (path) => {
      proxies = await startToxiproxy({ path, start: startBySpawn });
      places.set("toxiproxy:8474", new URL(proxies.apiUrl).host);
    },
    link: async (...names) => {
      if (proxies === undefined) throw new Error("expected toxiproxy to be running");
      const { content } = file.configs.proxies as { content: string };
      for (const proxy of (JSON.parse(content) as Proxy[]).filter(({ name }) => names.includes(name))) {
        const here = { ...proxy, listen: "127.0.0.1:0", upstream: localized("toxiproxy", proxy.upstream) };
        const made = await fetch(`${proxies.apiUrl}/proxies`, { method: "POST", body: JSON.stringify(here) });
        const { listen, error } = (await made.json()) as Proxy & { error?: string };
        if (!made.ok) throw new Error(`toxiproxy does not take ${JSON.stringify(proxy)}: ${error}`);
        places.set(`toxiproxy:${proxy.listen.split(":")[1]}`, listen);
      }
    },
    relay: async (name) => {
      const [relay, { entrypoint = [], command = [] }] = Object.entries(file.services).find(
        ([, { network_mode: mode }]) => mode === `service:${name}`,
      ) as [string, ComposeService];
      const [alias, told] = command as [string, string];
      if (resolveName(file, relay, alias, profile).join() !== name) {
        throw new Error(`expected ${alias} to be an address of ${name}`);
      }
      const port = controls.get(name) as string;
      launch(process.execPath, [...entrypoint.slice(1), INNER, port]);
      places.set(`${name}:${told}`, `${INNER}:${port}`);
      await until(`the relay of ${name}`, async () => (await fetch(`http://${INNER}:${port}/health`)).ok);
    },
    health: (name) => {
      const { healthcheck = { test: [] } } = serviceOf(name);
      const [, program, ...args] = healthcheck.test;
      if (program !== "node") throw new Error(`expected node to check the health of ${name}, got ${program}`);
      const here = args.map((word) => word.replace(/127\.0\.0\.1:(\d+)/, (_, port: string) => place(name, port)));
      return spawnSync(process.execPath, here, { stdio: "ignore" }).status;
    },
    operator: (method, url, body) => {
      const { entrypoint = [] } = serviceOf("operator");
      const words = [method, localized("operator", url), ...(body === undefined ? [] : [JSON.stringify(body)])];
      const asked = spawnSync(process.execPath, [...entrypoint.slice(1), ...words], { encoding: "utf8" });
      return { ok: asked.status === 0, text: asked.stdout + asked.stderr };
    },
    url: (service, port) => `http://${place(service, port)}`,
    stop: async () => {
      for (const child of children.reverse()) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        // Nobody waits for what they still have to settle with one another.
        child.kill("SIGKILL");
        await once(child, "exit");
      }
      await proxies?.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
};
