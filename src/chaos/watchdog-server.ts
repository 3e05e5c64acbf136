/** The listener of `chaos --watchdog`: heartbeats in, the state of the lease out. JSON, with a token beyond loopback. */
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, resolve } from "node:path";
import { runShellCommand } from "../supervision/shell-command.ts";
import type { Target } from "../target/target.ts";
import { targetName } from "../target/target-name.ts";
import { TAKE_BACK } from "./take-back.ts";
import { openToxiproxy } from "./toxiproxy.ts";
import { createWatchdogLease, type Held, LeaseRefused, type WatchdogLease } from "./watchdog-lease.ts";

const CALL_MS = 1_000;
const HEAL_MS = 5_000;
const COMMAND_MS = 30_000;
const BODY_MOST = 64_000;

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

const isHeld = (value: unknown): value is Held => {
  const { proxy, fault, disables } = (value ?? {}) as Record<string, unknown>;
  return typeof fault === "string" || (typeof proxy === "string" && typeof disables === "boolean");
};

const readBody = async (request: IncomingMessage): Promise<{ holder: string; holds: Held[] }> => {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) {
    text += chunk;
    if (text.length > BODY_MOST) throw new LeaseRefused(413, `expected at most ${BODY_MOST} characters`);
  }
  let body: { holder?: unknown; holds?: unknown } = {};
  try {
    body = JSON.parse(text) as typeof body;
  } catch {
    // Said below.
  }
  const { holder, holds } = body ?? {};
  if (typeof holder !== "string" || !Array.isArray(holds) || !holds.every(isHeld)) {
    throw new LeaseRefused(422, 'expected {"holder": TEXT, "holds": [{"proxy", "disables"} or {"fault"}]}');
  }
  return { holder, holds };
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
        return held.fault in faults ? null : `the watchdog's target file has no faults.${held.fault}`;
      }
      if (toxiproxy === undefined || !ours.includes(held.proxy)) {
        return `the watchdog's target file names no proxy "${held.proxy}" under toxiproxy.proxies`;
      }
      const control = openToxiproxy(toxiproxy.api_url, { callMs: CALL_MS });
      try {
        await control.proxy(held.proxy).read();
        return null;
      } catch (error) {
        return `the watchdog cannot reach the proxy "${held.proxy}": ${(error as Error).message}`;
      } finally {
        await control.close();
      }
    },
    healOne: async (held: Held): Promise<string> => {
      if ("proxy" in held) {
        const { proxy, disables } = held;
        const api_url = toxiproxy?.api_url ?? "";
        const undo = { how: "heal-proxy", api_url, proxy, disables, target: targetName(target, file) } as const;
        return TAKE_BACK.proxy(undo, { signal: AbortSignal.timeout(HEAL_MS), callMs: CALL_MS });
      }
      const commands = faults[held.fault]?.heal ?? [];
      for (const command of commands) {
        await runShellCommand(command, { what: "heal command", cwd, signal: AbortSignal.timeout(COMMAND_MS) });
      }
      return `ran ${commands.length} heal command(s)`;
    },
  };
};

const answer = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
};

const handle = async (lease: WatchdogLease, request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const { pathname } = new URL(request.url ?? "/", "http://watchdog");
  if (pathname !== "/lease") throw new LeaseRefused(404, "there is only /lease here");
  if (request.method === "GET") return answer(response, 200, { lease: lease.state() });
  if (request.method !== "PUT" && request.method !== "DELETE")
    throw new LeaseRefused(405, "expected GET, PUT or DELETE");
  const { holder, holds } = await readBody(request);
  if (request.method === "PUT") await lease.beat(holder, holds);
  else await lease.end(holder);
  answer(response, 200, { lease: lease.state() });
};

export type WatchdogServer = { url: string; close(): Promise<void> };

/** `token` is needed beyond loopback; whoever starts it sees to that. */
export const startWatchdogServer = async (options: {
  target: Target;
  file: string;
  host: string;
  port: number;
  token: string | null;
  say(text: string): void;
}): Promise<WatchdogServer> => {
  const { target, file, host, port, token, say } = options;
  const lease = createWatchdogLease(keepingOf(target, file, say));
  const wanted = token === null ? null : digest(`Bearer ${token}`);
  const server: Server = createServer((request, response) => {
    if (wanted !== null && !timingSafeEqual(digest(request.headers.authorization ?? ""), wanted)) {
      request.resume();
      return answer(response, 401, { error: "expected Authorization: Bearer with the watchdog's token" });
    }
    handle(lease, request, response).catch((error: unknown) => {
      const status = error instanceof LeaseRefused ? error.status : 500;
      answer(response, status, { error: error instanceof Error ? error.message : String(error) });
    });
  });
  await new Promise<void>((listening, failed) => {
    server.once("error", failed).listen(port, host, () => {
      server.off("error", failed);
      listening();
    });
  });
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
