/**
 * A deployment of processes for tests: key service, limiter (or Redis) and several API replicas on stores that outlive them,
 * with fixtures, calls, and what its control planes tell.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, request } from "undici";
import type { KeyRecord, Organization } from "../core/call.ts";
import { type RedisServer, startRedisServer } from "./limiter/redis-server.fixture.ts";
import { OPERATOR, type ServeProcess, startServe } from "./serve-process.fixture.ts";

const ORIGIN = "https://app.example";

/** `null`: no answer; the call may have happened. */
export type Heard = { status: number; subcode: string; json: Record<string, unknown> } | null;
type LedgerLine = { charge_id: string; request_id: string; org: string; kind: "charge" | "refund" };

export type Replicas = {
  keys: ServeProcess;
  /** `null` where the limiter is Redis. */
  limiter: ServeProcess | null;
  redis: RedisServer | null;
  apis: ServeProcess[];
  org(fields: Partial<Organization>): Promise<string>;
  /** A secret: publishable with one origin unless it is told otherwise. */
  key(org: string, fields?: Partial<KeyRecord>): Promise<string>;
  adminToken(org: string): Promise<string>;
  /** A call to one replica. Never rejects. */
  call(
    replica: number,
    path: string,
    credential: string,
    options?: { method?: "POST" | "GET" | "DELETE"; id?: string; body?: unknown },
  ): Promise<Heard>;
  /** The sum over the replicas, as `GET /counts`. */
  counts(run: string): Promise<Record<string, Record<string, number>>>;
  ledger(run: string): Promise<LedgerLine[]>;
  used(org: string): Promise<number>;
  gauges(replica: number): Promise<{ in_flight: number; unsettled: number; rss_bytes: number }>;
  /** Until nothing is in flight and no refund unconfirmed on any replica; throws after 20 s. */
  settled(): Promise<void>;
  close(): Promise<void>;
};

const SETTLED_WITHIN_MS = 20_000;

/** Answers, or a word for none. */
export const outcomeOf = (heard: Heard): string =>
  heard === null ? "none" : heard.subcode === "" ? String(heard.status) : `${heard.status} ${heard.subcode}`;

/** Charges less refunds. */
export const netOf = (lines: readonly LedgerLine[]): number =>
  lines.reduce((sum, { kind }) => sum + (kind === "charge" ? 1 : -1), 0);

export const startReplicas = async (options: {
  replicas: number;
  limiter: "sqlite" | "redis";
  /** Options of `serve` for the API. */
  api?: readonly string[];
}): Promise<Replicas> => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-replicas-"));
  const agent = new Agent({ connections: 4_096, pipelining: 1 });
  const closers: (() => Promise<unknown>)[] = [
    async () => rmSync(folder, { recursive: true, force: true }),
    () => agent.destroy(),
  ];
  const close = async (): Promise<void> => {
    for (const one of closers.splice(0).reverse()) await one();
  };
  const keep = <P extends ServeProcess>(started: P): P => {
    closers.push(() => started.kill());
    return started;
  };
  try {
    const redis = options.limiter === "redis" ? await startRedisServer() : null;
    if (redis !== null) closers.push(() => redis.stop());
    const limiter =
      redis === null
        ? keep(await startServe(["--role", "limiter", "--limiter", `sqlite:${join(folder, "limiter.db")}`]))
        : null;
    const limiterUrl = redis?.url ?? (limiter?.urls.limiter as string);
    const keys = keep(
      await startServe(["--role", "keys", "--keys", `sqlite:${join(folder, "keys.db")}`, "--limiter", limiterUrl]),
    );
    const links = ["--keys", keys.urls.keys as string, "--limiter", limiterUrl];
    const apis: ServeProcess[] = [];
    for (let i = 0; i < options.replicas; i += 1) {
      apis.push(keep(await startServe(["--role", "api", ...links, "--rate-limit", "off", ...(options.api ?? [])])));
    }

    const operate = async (url: string | undefined, method: "GET" | "POST", body?: unknown): Promise<string> => {
      const answer = await request(url as string, {
        method,
        dispatcher: agent,
        headers: OPERATOR,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await answer.body.text();
      if (answer.statusCode > 299)
        throw new Error(`expected 2xx of ${method} ${url}, got ${answer.statusCode} ${text}`);
      return text;
    };
    const control = (role: ServeProcess): string => Object.values(role.urls.control ?? {})[0] as string;
    const made = async (path: string, body: unknown) => JSON.parse(await operate(control(keys) + path, "POST", body));
    const gauges = async (replica: number) =>
      JSON.parse(await operate(`${control(apis[replica] as ServeProcess)}/gauges`, "GET"));

    return {
      keys,
      limiter,
      redis,
      apis,
      org: async (fields) => (await made("/orgs", { tier: "Pro", ...fields })).id,
      key: async (org, fields = {}) => {
        const record = { kind: "publishable", scopes: ["ai", "design", "maps"], allowed_origins: [ORIGIN], ...fields };
        return (await made("/keys", { org_id: org, ...record })).key;
      },
      adminToken: async (org) => (await made("/admin-tokens", { org })).token,
      call: async (replica, path, credential, { method = "POST", id, body } = {}) => {
        try {
          const answer = await request(`${(apis[replica] as ServeProcess).urls.api}${path}`, {
            method,
            dispatcher: agent,
            headers: {
              authorization: `Bearer ${credential}`,
              ...(credential.startsWith("svc_pk_") ? { origin: ORIGIN } : {}),
              ...(id === undefined ? {} : { "x-request-id": id }),
            },
            ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          });
          const text = await answer.body.text();
          const json = text === "" ? {} : JSON.parse(text);
          return { status: answer.statusCode, subcode: json.detail ?? json.error ?? "", json };
        } catch {
          return null;
        }
      },
      counts: async (run) => {
        const sum: Record<string, Record<string, number>> = {};
        for (const api of apis) {
          const counts = JSON.parse(await operate(`${control(api)}/counts?run=${run}`, "GET"));
          for (const [outcome, byOrg] of Object.entries(counts as typeof sum)) {
            sum[outcome] ??= {};
            const total = sum[outcome];
            for (const [org, n] of Object.entries(byOrg)) total[org] = (total[org] ?? 0) + n;
          }
        }
        return sum;
      },
      ledger: async (run) => {
        const lines = await operate(`${control(limiter ?? (apis[0] as ServeProcess))}/ledger?run=${run}`, "GET");
        return lines
          .split("\n")
          .filter((line) => line !== "")
          .map((line) => JSON.parse(line));
      },
      used: async (org) => JSON.parse(await operate(`${control(keys)}/orgs/${org}`, "GET")).map_loads_used,
      gauges,
      settled: async () => {
        const untilMs = performance.now() + SETTLED_WITHIN_MS;
        for (;;) {
          const all = await Promise.all(apis.map((_, i) => gauges(i)));
          if (all.every(({ in_flight, unsettled }) => in_flight === 0 && unsettled === 0)) return;
          if (performance.now() > untilMs) throw new Error(`expected replicas at rest, got ${JSON.stringify(all)}`);
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
};
