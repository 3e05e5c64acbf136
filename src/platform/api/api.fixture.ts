/** The platform for the tests of its API: organizations and keys are made through its control plane, requests also as bytes. */
import { connect, type Socket } from "node:net";
import { expect } from "vitest";
import type { KeyRecord, Organization } from "../../core/call.ts";
import { HEALTHY, type Parts } from "../parts.ts";
import { type Heard, type Platform, startPlatform, until } from "../start-platform.fixture.ts";
import type { RoleOptions } from "../start-role.ts";

export const ORIGIN = "https://app.example";
export const FOREIGN = "https://elsewhere.example";
export const MESSAGES = { messages: [{ role: "user", content: "where is the station?" }] };

export type Fixture = { id: string; secret: string };

export type Deployment = Platform & {
  /** An organization; Pro unless said otherwise. */
  org(fields?: Partial<Organization> & { map_loads_used?: number }): Promise<string>;
  /** A key; by default publishable, with every scope but `vendor` and one origin. */
  key(org: string, fields?: Partial<KeyRecord>): Promise<Fixture>;
  serverKey(org: string, fields?: Partial<KeyRecord>): Promise<Fixture>;
  session(key: Fixture, product?: string): Promise<string>;
  adminToken(org: string): Promise<string>;
  gauges(): Promise<Record<string, number> & { in_flight_by_org: Record<string, number> }>;
  ledger(run: string): Promise<{ kind: string; org: string; charge_id: string; request_id: string; meter: string }[]>;
  /** Waits until nothing is in flight and nothing unsettled. */
  quiet(): Promise<void>;
  raw(): Promise<RawClient>;
};

/** A client that writes bytes and keeps what came. */
type RawClient = {
  socket: Socket;
  send(text: string | Buffer): void;
  heard(): string;
  /** Resolves once the text has come; rejects after 10 s, telling what came. */
  waitFor(text: string | RegExp): Promise<string>;
  /** Resolves when the server has closed the connection. */
  closed(): Promise<void>;
  /** The code of the error that ended the connection, if one did. */
  error(): string | undefined;
};

const rawClient = async (url: string): Promise<RawClient> => {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  let heard = "";
  let closed = false;
  socket.setEncoding("latin1");
  socket.on("data", (text) => {
    heard += text;
  });
  socket.on("end", () => {
    closed = true;
  });
  socket.on("close", () => {
    closed = true;
  });
  let error: string | undefined;
  socket.on("error", ({ code }: NodeJS.ErrnoException) => {
    closed = true;
    error = code;
  });
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  return {
    socket,
    send: (text) => {
      if (socket.writable) socket.write(text);
    },
    heard: () => heard,
    waitFor: async (text) => {
      const came = (): boolean => (typeof text === "string" ? heard.includes(text) : text.test(heard));
      await until(`${text} in what came`, came).catch(() => {
        throw new Error(`expected ${text}, got:\n${heard.slice(0, 2_000)}`);
      });
      return heard;
    },
    closed: () => until("the server to close the connection", () => closed),
    error: () => error,
  };
};

export const startDeployment = async (options: RoleOptions = {}, parts: Parts = HEALTHY): Promise<Deployment> => {
  const platform = await startPlatform(
    {
      rateLimit: null,
      stopDeadlineMs: 2_000,
      ...options,
      inference: { serviceMs: 20, tokens: 4, ...options.inference },
    },
    parts,
  );
  const { call, ask } = platform;

  const made = async (path: string, body: unknown): Promise<Heard["json"]> => {
    const heard = await ask("POST", path, body);
    expect(heard.status, heard.text).toBe(201);
    return heard.json;
  };

  const key = async (org: string, fields: Partial<KeyRecord> = {}): Promise<Fixture> => {
    const record = { kind: "publishable", scopes: ["ai", "design", "maps"], allowed_origins: [ORIGIN], ...fields };
    const { id, key: secret } = await made("/keys", { org_id: org, ...record });
    return { id, secret };
  };

  const gauges = async () => (await ask("GET", "/gauges")).json;

  return {
    ...platform,
    org: async (fields = {}) => (await made("/orgs", { tier: "Pro", ...fields })).id,
    key,
    serverKey: (org, fields = {}) => key(org, { kind: "server", allowed_origins: [], ...fields }),
    session: async ({ secret }, product = "chat") => {
      const heard = await call({
        method: "POST",
        path: "/sdk/sessions",
        body: { product },
        credential: secret,
        origin: ORIGIN,
      });
      expect(heard.status, heard.text).toBe(200);
      return heard.json.session_token;
    },
    adminToken: async (org) => (await made("/admin-tokens", { org })).token,
    gauges,
    ledger: async (run) =>
      (await ask("GET", `/ledger?run=${run}`)).text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line)),
    quiet: () =>
      until("nothing in flight", async () => {
        const { in_flight, unsettled, in_flight_by_org, inference_running, open_streams } = await gauges();
        const idle = in_flight === 0 && unsettled === 0 && inference_running === 0 && open_streams === 0;
        return idle && Object.keys(in_flight_by_org).length === 0;
      }),
    raw: () => rawClient(platform.api),
  };
};

/** A refusal as a test names it: status and subcode, or the status alone. */
export const outcomeOf = ({ status, json }: Heard): string => {
  const subcode = json?.detail ?? json?.error;
  return subcode === undefined ? String(status) : `${status} ${subcode}`;
};

/** The calls by outcome. */
export const tally = (heard: readonly Heard[]): Record<string, number> => {
  const calls: Record<string, number> = {};
  for (const one of heard) calls[outcomeOf(one)] = (calls[outcomeOf(one)] ?? 0) + 1;
  return calls;
};
