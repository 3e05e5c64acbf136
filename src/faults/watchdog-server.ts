/** HTTP server of `chaos --watchdog`: takes heartbeats, returns the lease's state. JSON, with a token. */
import { createHash, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { dirname, resolve } from "node:path";
import { parseHttpUrl } from "../contract/address.ts";
import { parseJson } from "../contract/envelopes.ts";
import { whyForeign } from "../contract/private-door.ts";
import type { Held } from "../deployments/remote-watch.ts";
import { runShellCommand } from "../supervision/bounded-child.ts";
import type { Target } from "../target/target.ts";
import { targetName } from "../target/target-urls.ts";
import { openToxiproxy } from "../tools/toxiproxy.ts";
import { UNDO_PORTS } from "./healing.ts";
import { createWatchdogLease, LeaseRefused, type WatchdogLease } from "./watchdog-lease.ts";

const CALL_MS = 1_000;
const HEAL_MS = 5_000;
const COMMAND_MS = 30_000;
const BODY_MOST = 64_000;
const HOLDS_MOST = 64;

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Safe in a log. */
const isName = (value: unknown): value is string => typeof value === "string" && /^[\x20-\x7e]{1,200}$/.test(value);

/** An own property of the body. */
const field = (body: unknown, name: string): unknown =>
  typeof body === "object" && body !== null && Object.hasOwn(body, name)
    ? (body as Record<string, unknown>)[name]
    : undefined;

/** Rebuilt from known fields; `null` for anything else. */
const heldOf = (value: unknown): Held | null => {
  const [proxy, fault, disables] = ["proxy", "fault", "disables"].map((name) => field(value, name));
  if (isName(fault) && proxy === undefined) return { fault };
  return isName(proxy) && fault === undefined && typeof disables === "boolean" ? { proxy, disables } : null;
};

const EXPECTED = `expected {"holder": NAME, "holds": [{"proxy", "disables"} or {"fault"}]}, at most ${HOLDS_MOST} of them`;

const readBody = async (request: IncomingMessage): Promise<{ holder: string; holds: Held[] }> => {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) {
    text += chunk;
    if (text.length > BODY_MOST) throw new LeaseRefused(413, `expected at most ${BODY_MOST} characters`);
  }
  const body = parseJson(text);
  const [holder, stated] = [field(body, "holder"), field(body, "holds")];
  const holds = Array.isArray(stated) && stated.length <= HOLDS_MOST ? stated.map(heldOf) : [null];
  if (!isName(holder) || holds.includes(null)) throw new LeaseRefused(422, EXPECTED);
  return { holder, holds: holds as Held[] };
};

/** What this machine can heal, by its own target file. */
const keepingOf = (target: Target, file: string, say: (text: string) => void) => {
  const { toxiproxy, faults = {} } = target;
  const ours = Object.values(toxiproxy?.proxies ?? {});
  const cwd = dirname(resolve(file));
  return {
    say,
    whyNot: async (held: Held): Promise<string | null> => {
      if ("fault" in held) {
        return Object.hasOwn(faults, held.fault) ? null : `the watchdog's target file has no faults.${held.fault}`;
      }
      const { proxy } = held;
      if (toxiproxy === undefined || !ours.includes(proxy)) {
        return `the watchdog's target file names no proxy "${proxy}" under toxiproxy.proxies`;
      }
      const control = openToxiproxy(toxiproxy.api_url, { callMs: CALL_MS });
      const read = (async () => control.proxy(proxy).read())();
      return read
        .then(
          () => null,
          (error: Error) => `the watchdog cannot reach the proxy "${proxy}": ${error.message}`,
        )
        .finally(() => control.close());
    },
    healOne: async (held: Held): Promise<string> => {
      if ("proxy" in held) {
        const about = { api_url: toxiproxy?.api_url ?? "", target: targetName(target, file) };
        const limits = { signal: AbortSignal.timeout(HEAL_MS), callMs: CALL_MS };
        return UNDO_PORTS.proxy({ how: "heal-proxy", ...held, ...about }, limits);
      }
      const commands = faults[held.fault]?.heal ?? [];
      for (const command of commands) {
        await runShellCommand(command, { what: "heal command", cwd, signal: AbortSignal.timeout(COMMAND_MS) });
      }
      return `ran ${commands.length} heal command(s)`;
    },
  };
};

/** Throws `LeaseRefused`. */
const handle = async (lease: WatchdogLease, request: IncomingMessage): Promise<void> => {
  if (request.url?.split("?")[0] !== "/lease") throw new LeaseRefused(404, "there is only /lease here");
  if (request.method === "GET") return;
  if (request.method !== "PUT" && request.method !== "DELETE")
    throw new LeaseRefused(405, "expected GET, PUT or DELETE");
  const { holder, holds } = await readBody(request);
  if (request.method === "PUT") await lease.beat(holder, holds);
  else await lease.end(holder);
};

export type WatchdogServer = { url: string; close(): Promise<void> };

export const startWatchdogServer = async (options: {
  target: Target;
  file: string;
  host: string;
  port: number;
  token: string;
  say(text: string): void;
}): Promise<WatchdogServer> => {
  const { target, file, host, port, token, say } = options;
  const lease = createWatchdogLease(keepingOf(target, file, say));
  const stated = target.watchdog === undefined ? [] : [parseHttpUrl(target.watchdog.url).host];
  const door = { bound: host, names: [hostname().toLowerCase(), ...stated] };
  const wanted = digest(`Bearer ${token}`);
  const answerTo = async (request: IncomingMessage): Promise<{ status: number; body: unknown }> => {
    try {
      const foreign = whyForeign(request, door);
      if (foreign !== null) throw new LeaseRefused(foreign.status, foreign.error);
      if (!timingSafeEqual(digest(request.headers.authorization ?? ""), wanted))
        throw new LeaseRefused(401, "expected Authorization: Bearer with the watchdog's token");
      await handle(lease, request);
      return { status: 200, body: { lease: lease.state() } };
    } catch (error) {
      request.resume();
      const { message } = error as Error;
      return { status: error instanceof LeaseRefused ? error.status : 500, body: { error: message } };
    }
  };
  const server = createServer((request, response) => {
    void answerTo(request).then(({ status, body }) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body)),
    );
  });
  await once(server.listen(port, host), "listening");
  const { address, family, port: own } = server.address() as AddressInfo;
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${own}`,
    close: async () => {
      await lease.close();
      await new Promise<void>((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      });
    },
  };
};
