/**
 * The reference platform whole and in this process, for tests: three services on loopback over real links, and calls over
 * undici. Nothing is replaced. What makes it a target, puts links in between or makes keys stands with those who need it.
 */
import { Agent, request } from "undici";
import { HEALTHY, type Parts } from "./parts.ts";
import { type RoleOptions, type Running, startRole } from "./start-role.ts";

export type Heard = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  json: any;
};

export type CallOptions = {
  method?: string;
  path: string;
  /** Sent as JSON unless it is text or bytes. */
  body?: unknown;
  credential?: string | undefined;
  apiKey?: string;
  origin?: string | undefined;
  headers?: Record<string, string>;
};

export type Platform = {
  running: Running;
  api: string;
  control: string;
  /** What the control plane is sent with every request. */
  operator: { authorization: string; "content-type": string };
  call(options: CallOptions): Promise<Heard>;
  /** The control plane. */
  ask(method: string, path: string, body?: unknown): Promise<Heard>;
  close(): Promise<void>;
};

/** Waits for a condition, 10 s at most. */
export const until = async (what: string, holds: () => boolean | Promise<boolean>): Promise<void> => {
  const untilMs = performance.now() + 10_000;
  while (!(await holds())) {
    if (performance.now() > untilMs) throw new Error(`waited 10 s for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};

/** `callers`: how the calls are made. */
export const startPlatform = async (
  options: RoleOptions = {},
  parts: Parts = HEALTHY,
  callers: Agent.Options = {},
): Promise<Platform> => {
  const running = await startRole("all", { controlPort: 0, logLevel: "silent", ...options }, parts);
  const api = running.urls.api as string;
  const control = running.urls.control?.api as string;
  const operator = { authorization: `Bearer ${running.controlToken}`, "content-type": "application/json" };
  const dispatcher = new Agent({ connections: 512, ...callers });
  const read = async (url: string, method: string, headers: Record<string, string>, body: unknown): Promise<Heard> => {
    const isRaw = typeof body === "string" || Buffer.isBuffer(body);
    const answer = await request(url, {
      method: method as "GET",
      dispatcher,
      headers,
      ...(body === undefined ? {} : { body: isRaw ? (body as string) : JSON.stringify(body) }),
    });
    const text = await answer.body.text();
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {}
    return { status: answer.statusCode, headers: answer.headers, text, json };
  };
  return {
    running,
    api,
    control,
    operator,
    ask: (method, path, body) => read(control + path, method, operator, JSON.stringify(body)),
    call: ({ method = "GET", path, body, credential, apiKey, origin, headers }) =>
      read(
        api + path,
        method,
        {
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
          ...(apiKey === undefined ? {} : { "x-api-key": apiKey }),
          ...(origin === undefined ? {} : { origin }),
          ...headers,
        },
        body,
      ),
    close: async () => {
      // A caller that has given up is not waited for.
      await dispatcher.destroy();
      await running.close();
    },
  };
};
