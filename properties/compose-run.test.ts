/**
 * docker-compose.yml as far as it can be run without a container engine: its commands, health checks, relays, proxies and the
 * operator's one-liner, as processes; names are resolved by the file's networks. What an engine adds is not tried here.
 */
import { spawnSync } from "node:child_process";
import { afterEach, describe, expect, test } from "vitest";
import { toxiproxyOrSkip } from "../src/chaos/toxiproxy.fixture.ts";
import { readCompose } from "./rigs/compose-file.ts";
import { type ComposeRun, openComposeRun } from "./rigs/compose-run.ts";

const toxiproxy = toxiproxyOrSkip();
const hasRedis = spawnSync("redis-server", ["--version"], { stdio: "ignore" }).status === 0;
if (!hasRedis) process.stderr.write("SKIPPED: no redis-server; the profile redis is not run\n");

let run: ComposeRun | undefined;
afterEach(async () => {
  await run?.stop();
  run = undefined;
});

const SECRETS = { FLOODGATE_SESSION_SECRET: "s".repeat(32), FLOODGATE_ADMIN_SECRET: "a".repeat(32) };

describe("the services of docker-compose.yml, run as processes", () => {
  const profiles = ["limiter", ...(hasRedis ? ["redis"] : [])];

  test.skipIf(toxiproxy === null).each(profiles)(
    "two replicas keep one quota, behind toxiproxy: profile %s",
    async (profile) => {
      const protocol = profile === "redis" ? "redis" : "http";
      const file = readCompose({ ...SECRETS, FLOODGATE_LIMITER_PROTOCOL: protocol });
      run = await openComposeRun(file, profile);
      const { start, relay, health, operator, url } = run;

      await start(profile);
      await start("keys");
      await run.toxiproxy(toxiproxy as string);
      await run.link("keys", "limiter");
      const replicas = ["api-1", "api-2"];
      for (const replica of replicas) await start(replica);
      await run.link("edge");
      const roles = ["keys", ...replicas, ...(profile === "limiter" ? ["limiter"] : [])];
      for (const role of roles) {
        expect([role, health(role)]).toEqual([role, 0]);
        await relay(role);
      }

      const ask = (method: string, place: string, body?: object) => {
        const { ok, text } = operator(method, place, body);
        expect(ok, text).toBe(true);
        return JSON.parse(text);
      };
      const { id } = ask("POST", "http://keys-control:9000/orgs", { tier: "Free", map_load_allowance: 5 });
      const record = { org_id: id, kind: "publishable", scopes: ["maps"], allowed_origins: ["https://app.example"] };
      const { key } = ask("POST", "http://keys-control:9000/keys", record);
      const mint = async (at: string): Promise<string> => {
        const answer = await fetch(`${at}/v1/sdk/sessions`, {
          method: "POST",
          headers: { "x-api-key": key, origin: "https://app.example" },
          body: JSON.stringify({ product: "tile" }),
        });
        const { detail, error } = (await answer.json()) as { detail?: string; error?: string };
        return [answer.status, detail ?? error ?? ""].join(" ").trim();
      };
      const ways = [url("toxiproxy", 8080), ...replicas.map((replica) => url(replica, 8080))];
      const minted = await Promise.all(Array.from({ length: 12 }, (_, i) => mint(ways[i % 3] as string)));
      expect(minted.sort()).toEqual([...Array(5).fill("200"), ...Array(7).fill("429 map_load_quota_exceeded")]);
      expect(ask("GET", `http://keys-control:9000/orgs/${id}`).map_loads_used).toBe(5);
      for (const replica of replicas) {
        expect(ask("GET", `http://${replica}-control:9000/gauges`)).toMatchObject({ in_flight: 0 });
      }
      const { ok } = operator("GET", `http://${profile === "redis" ? "api-1" : "limiter"}-control:9000/ledger?run=x`);
      expect(ok).toBe(true);

      // Both links go through toxiproxy: with one of them cut nobody gets in.
      ask("POST", "http://toxiproxy-control:8474/proxies/limiter", { enabled: false });
      for (const way of ways) expect(await mint(way)).toBe("429 limiter_unavailable");
      ask("POST", "http://toxiproxy-control:8474/proxies/keys", { enabled: false });
      for (const way of ways) {
        const unknown = await fetch(`${way}/v1/design/styles`, {
          headers: { "x-api-key": `svc_sk_live_${"k".repeat(24)}` },
        });
        expect(unknown.status).toBe(503);
      }
    },
    // A dozen processes, most of them Node.
    90_000,
  );
});
