/**
 * The commands of docker-compose.yml as plain processes on loopback: each name in them is replaced by where that service
 * listens, each folder by one of ours. Containers, networks and toxiproxy's proxies are not tried here.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { ENTRY, type ServeProcess, startServe } from "../src/platform/serve-process.fixture.ts";

const ROOT = join(import.meta.dirname, "..");
const TOKEN = "t".repeat(32);
const VARIABLES: Record<string, string> = {
  FLOODGATE_SESSION_SECRET: "s".repeat(32),
  FLOODGATE_ADMIN_SECRET: "a".repeat(32),
  FLOODGATE_CONTROL_TOKEN: TOKEN,
};

type Service = { command: string[]; environment: Record<string, string>; healthcheck: { test: string[] } };
type Compose = { services: Record<string, Service>; configs: { operator: { content: string } } };

/** `${NAME}`, `${NAME:?message}`, `${NAME:-default}`. */
const interpolated = readFileSync(join(ROOT, "docker-compose.yml"), "utf8").replace(
  /\$\{(\w+)(?::[?-]([^}]*))?\}/g,
  (_, name: string, word = "") => VARIABLES[name] ?? word,
);
const file = parse(interpolated, { merge: true }) as Compose;
const STATED = "src/platform/compose-target.json";

const folder = mkdtempSync(join(tmpdir(), "floodgate-compose-"));
const running: ServeProcess[] = [];
/** `name:port` of the file -> `host:port` here. */
const places = new Map<string, string>();
const here = (text: string): string => {
  let localized = text.replaceAll("/data/", `${folder}/`).replaceAll("/target/", `${folder}/`);
  for (const [name, place] of places) localized = localized.replaceAll(name, place);
  return localized;
};

const serviceOf = (name: string): Service => file.services[name] as Service;

/** Starts a service as its command says; `names`: how others call it, with the port. */
const up = async (name: string, ...names: string[]): Promise<void> => {
  const { command, environment } = serviceOf(name);
  const args = command
    .slice(1)
    .map((word) =>
      word.replace(/^(--(?:control-)?host)=.*/, "$1=127.0.0.1").replace(/^(--(?:control-)?port)=.*/, "$1=0"),
    )
    .map((word) => (word.startsWith("--target-from=") ? `--target-from=${join(ROOT, STATED)}` : here(word)));
  const started = await startServe(args, environment);
  running.push(started);
  const { control, ...urls } = started.urls;
  for (const one of names) places.set(one, new URL(Object.values(urls)[0] as string).host);
  places.set(`${name}-control:9000`, new URL(Object.values(control ?? {})[0] as string).host);
};

/** The exit code of its health check, which asks `place` in place of the address that stands there. */
const healthOf = (name: string, place: string): number | null => {
  const [, program, ...args] = serviceOf(name).healthcheck.test;
  expect(program).toBe("node");
  const command = args.map((word) => word.replace(/(?<=http:\/\/)[^/]+/, place));
  return spawnSync(process.execPath, command, { stdio: "ignore" }).status;
};

/** What the service `floodgate` runs, or another command of Floodgate with its target and its hosts. */
const judge = async (command: readonly string[], ...more: string[]): Promise<{ code: number; said: string }> => {
  const options = serviceOf("floodgate").command.filter((word) => word !== "run" && word !== "smoke");
  const env = { ...process.env, ...serviceOf("floodgate").environment };
  const child = spawn(process.execPath, [ENTRY, ...command, ...options.map(here), ...more], { env, stdio: "pipe" });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text) => {
      said += text;
    });
  }
  const [code] = (await once(child, "close")) as [number];
  return { code, said };
};

beforeAll(async () => {
  await up("limiter", "limiter-service:7002", "limiter-link:7002");
  await up("keys", "keys-service:7001", "keys-link:7001");
  await up("api-1", "edge:8080", "api-1:8080");
  await up("api-2", "api-2:8080");
});
afterAll(async () => {
  for (const one of running.reverse()) await one.stop();
  rmSync(folder, { recursive: true });
});

const hasCurl = spawnSync("curl", ["--version"], { stdio: "ignore" }).status === 0;
if (!hasCurl) process.stderr.write("SKIPPED: no curl; the operator of docker-compose.yml is not run\n");
/** A phase of `verify` that needs a few dozen calls. */
const SOME_RULES = "management";

describe("the services of docker-compose.yml, run as processes", () => {
  test.each([
    ["limiter", "limiter-service:7002"],
    ["keys", "keys-service:7001"],
    ["api-1", "api-1:8080"],
    ["api-2", "api-2:8080"],
  ])("%s is healthy, and is not where nobody listens", (name, at) => {
    expect(healthOf(name, places.get(at) as string)).toBe(0);
    expect(healthOf(name, "127.0.0.1:9")).toBe(1);
  });

  test.skipIf(!hasCurl)("the operator's curl has the token, and nobody gets in without it", () => {
    const config = join(folder, "operator.curlrc");
    writeFileSync(config, file.configs.operator.content);
    const ask = (...options: string[]) =>
      JSON.parse(
        spawnSync("curl", [...options, here("http://keys-control:9000/orgs/org_a")], { encoding: "utf8" }).stdout,
      );
    expect(ask("--config", config)).toMatchObject({ id: "org_a", tier: "Pro" });
    expect(ask("--silent")).toEqual({ error: expect.stringContaining("expected Authorization: Bearer") });
  });

  test("floodgate owns every host of the target file that the key service wrote, and passes on the deployment", async () => {
    expect(serviceOf("floodgate").command.slice(0, 2)).toEqual(["run", "smoke"]);
    const planned = await judge(["run", "smoke"], "--dry-run");
    expect([planned.code, planned.said]).toEqual([0, expect.not.stringContaining("refused by the safety guard")]);
    const target = join(folder, "target.json");
    writeFileSync(target, here(readFileSync(target, "utf8")));
    const out = join(folder, "reports");
    const judged = await judge(
      ["verify", "--allow-writes", "--rate", "100"],
      "--only",
      SOME_RULES,
      "--out",
      out,
      "--quiet",
    );
    expect(judged.code, judged.said).toBe(0);
  });
});
