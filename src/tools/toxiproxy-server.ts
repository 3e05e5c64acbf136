/** Starts toxiproxy on a free port. A proxy of a random name in its configuration proves that this server answers. */
import { randomBytes } from "node:crypto";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ChildSpec, NODE_ARGUMENTS } from "../supervision/child.ts";
import { waitUntil } from "../supervision/waiting.ts";
import { freePort } from "./link-probe.ts";
import { openToxiproxy, type Toxiproxy } from "./toxiproxy.ts";

export const STAND_IN_PROXY: readonly string[] = [
  process.execPath,
  ...NODE_ARGUMENTS,
  join(import.meta.dirname, "stand-in-proxy.ts"),
];

type ServerChild = { readonly pid: number; readonly exited: Promise<unknown>; stop: () => Promise<unknown> };
export type StartChild = (spec: ChildSpec) => Promise<ServerChild>;

export type ToxiproxyServer = Awaited<ReturnType<typeof startToxiproxy>>;

type ServerOptions = {
  /** `toxiproxy-server`, or a program with the same options and API, with its leading arguments. */
  command: readonly string[];
  start: StartChild;
  /** Folder of its configuration during the start, where a killed run leaves it (default: the OS's temporary one). */
  folder?: string;
};

const READY_MS = 5_000;
const CALL_MS = 1_000;
const TRIES = 3;

/** Resolves once the server answers and lists the proxy `mark`. Throws if it does not in time. */
const waitUntilOurs = async (toxiproxy: Toxiproxy, child: ServerChild, mark: string): Promise<void> => {
  let exited = false;
  void child.exited.then(() => {
    exited = true;
  });
  const isOurs = async (): Promise<boolean> => {
    const known = exited ? [] : await toxiproxy.list({ callMs: CALL_MS });
    if (exited || known.some(({ name }) => name === mark)) return true;
    throw new Error("another toxiproxy answers on its port");
  };
  const { met, lastError } = await waitUntil(isOurs, { forMs: READY_MS, pollMs: 20 });
  if (exited) throw new Error("it ended at once (its port may have been taken)");
  if (!met) throw new Error(`not ready within ${READY_MS} ms: ${lastError ?? "it did not answer"}`);
  await toxiproxy.removeProxy(mark);
};

type Link = { name: string; listen: string; upstream: string; enabled: boolean };

const openServer = async (port: number, { command, start, folder: parent = tmpdir() }: ServerOptions) => {
  const [program = "", ...first] = command;
  const toxiproxy = openToxiproxy(`http://127.0.0.1:${port}`);
  /** Kept to restart a hanging server with the same links. */
  const links = new Map<string, Link>();
  const begin = async (): Promise<ServerChild> => {
    const mark = `floodgate-${randomBytes(6).toString("hex")}`;
    await using folder = await mkdtempDisposable(join(parent, "floodgate-toxiproxy-"));
    const config = join(folder.path, "proxies.json");
    let child: ServerChild | undefined;
    try {
      const marked: Link = { name: mark, listen: "127.0.0.1:0", upstream: "127.0.0.1:1", enabled: false };
      await writeFile(config, JSON.stringify([...links.values(), marked]));
      child = await start({
        name: "toxiproxy",
        command: program,
        args: [...first, "-host", "127.0.0.1", "-port", String(port), "-config", config],
        // At "info" it writes a line for each accepted connection.
        env: { LOG_LEVEL: "error" },
        // It ends last, because its proxies carry the links of other processes and its API is needed for healing.
        ends: "by-signal",
        endLast: true,
      });
      await waitUntilOurs(toxiproxy, child, mark);
      return child;
    } catch (error) {
      await child?.stop();
      throw error;
    }
  };
  let running = await begin().catch((error) => toxiproxy.close().then(() => Promise.reject(error)));
  let restarting: Promise<void> | undefined;
  const beginAgain = async (): Promise<void> => {
    await running.stop();
    running = await begin();
  };
  return {
    toxiproxy: {
      ...toxiproxy,
      createProxy: async (asked: Parameters<Toxiproxy["createProxy"]>[0]) => {
        const state = await toxiproxy.createProxy(asked);
        const { name, listen, upstream } = state;
        links.set(name, { name, listen, upstream, enabled: true });
        return state;
      },
      removeProxy: async (name: string) => {
        await toxiproxy.removeProxy(name);
        links.delete(name);
      },
    },
    apiUrl: toxiproxy.apiUrl,
    pid: () => running.pid,
    /** Restarts the server on the same ports, with every link enabled and no toxics: the last way to heal. */
    restart: (): Promise<void> => {
      restarting ??= beginAgain().finally(() => {
        restarting = undefined;
      });
      return restarting;
    },
    stop: async (): Promise<void> => {
      await restarting?.catch(() => {});
      await toxiproxy.close();
      await running.stop();
    },
  };
};

export const startToxiproxy = async (options: ServerOptions) => {
  const troubles = new Set<string>();
  for (let attempt = 1; attempt <= TRIES; attempt += 1) {
    try {
      return await openServer(await freePort(), options);
    } catch (error) {
      troubles.add((error as Error).message);
    }
  }
  const command = options.command.join(" ");
  throw new Error(`toxiproxy (${command}) did not start in ${TRIES} tries: ${[...troubles].join("; ")}`);
};
