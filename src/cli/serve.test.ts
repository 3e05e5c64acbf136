/** `serve` as a user starts it: a process of its own, its options as they stand on the command line. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { lstat, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { readGauges } from "../client/control-planes.ts";
import { ENTRY, OPERATOR, type ServeProcess, startServe } from "../platform/serve-process.fixture.ts";
import { tokenOfDoor } from "../supervision/private-file.ts";

let running: ServeProcess[] = [];
let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-serve-"));
});
afterEach(async () => {
  for (const one of running.reverse()) await one.stop();
  running = [];
  await rm(folder, { recursive: true });
});

type Urls = { api: string; keys: string; limiter: string; control: { api: string; keys: string } };

const start = async (...args: string[]): Promise<ServeProcess & { urls: Urls }> => {
  const started = await startServe([...args, "--log-level", "silent"]);
  running.push(started);
  return started as ServeProcess & { urls: Urls };
};

const serve = async (...more: string[]): Promise<{ urls: Urls; serverKey: string }> => {
  const target = join(folder, "target.json");
  const { urls } = await start("--write-target", target, "--tenants", "0", ...more);
  return { urls, serverKey: JSON.parse(await readFile(target, "utf8")).credentials.server.key };
};

/** Of a `serve` that cannot start. */
const mistake = async (...args: string[]): Promise<{ code: number; printed: string; said: string }> => {
  const child = spawn(process.execPath, [ENTRY, "serve", "--log-level", "silent", ...args], {
    // One that starts all the same ends at once: its stdin is empty.
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, FLOODGATE_CONTROL_TOKEN: "", FLOODGATE_END_WITH_STDIN: "1" },
  });
  let [said, printed] = ["", ""];
  child.stderr.on("data", (chunk) => {
    said += chunk;
  });
  child.stdout.on("data", (chunk) => {
    printed += chunk;
  });
  const [code] = (await once(child, "close")) as [number];
  return { code, printed, said };
};

test("--rate-limit off lets through what the default would have limited", async () => {
  const { urls, serverKey } = await serve("--rate-limit", "off");
  const call = () => fetch(`${urls.api}/design/styles`, { headers: { "X-Api-Key": serverKey } });
  const statuses = new Set<number>();
  // Two and a half times the default burst, in waves below the organization's in-flight cap.
  for (let wave = 0; wave < 25; wave += 1) {
    for (const { status } of await Promise.all(Array.from({ length: 10 }, call))) statuses.add(status);
  }
  expect([...statuses]).toEqual([200]);
});

test.each([
  [["--write-target", "/nowhere/target.json"], "expected a file that can be written"],
  [["--host", "192.0.2.1"], "expected an address that can be listened on"],
  [["--trusted-proxy", "proxy"], "expected a trusted proxy"],
  [["--keys", "sqlite:/nowhere/keys.db"], "expected /nowhere/keys.db to be an SQLite file"],
  [["--control-port", "0", "--control-host", "0.0.0.0"], "expected FLOODGATE_CONTROL_TOKEN in the environment"],
  [["--service-ms", "1e12"], "expected at most 600000"],
  [["--capacity-change", "1e9:slots=1"], "expected S:slots=N"],
  [["--target-from", "/nowhere/target.json"], "--target-from needs --write-target"],
])("%j is a mistake reported in a sentence, with exit code 2", async (options, sentence) => {
  const { code, printed, said } = await mistake(...options);
  expect([code, printed]).toEqual([2, ""]);
  expect(said).toContain(sentence);
  expect(said).not.toContain("    at ");
});

test("--host moves the API alone: its services and the control plane stay on loopback", async () => {
  const { urls } = await serve("--host", "127.0.0.2");
  const hostOf = (url: string): string => new URL(url).hostname;
  expect([urls.api, urls.keys, urls.limiter, urls.control.api].map(hostOf)).toEqual([
    "127.0.0.2",
    "127.0.0.1",
    "127.0.0.1",
    "127.0.0.1",
  ]);
});

test.each([
  ["0.0.0.0", "127.0.0.1"],
  ["::", "[::1]"],
  ["127.0.0.2", "127.0.0.2"],
])("what listens on %s is reached, and written into the target file, as %s", async (host, reached) => {
  const { urls, serverKey } = await serve("--host", host);
  expect(new URL(urls.api).hostname).toBe(reached);
  expect(JSON.parse(await readFile(join(folder, "target.json"), "utf8")).base_url).toBe(urls.api);
  const answer = await fetch(`${urls.api}/design/styles`, { headers: { "x-api-key": serverKey } });
  await answer.text();
  expect(answer.status).toBe(200);
});

test("--write-target writes a file for its owner alone, and serve ends with its stdin", async () => {
  const file = join(folder, "target.json");
  const { child, urls } = await start("--tenants", "3", "--write-target", file);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const { tenants, credentials } = JSON.parse(await readFile(file, "utf8"));
  expect(tenants).toHaveLength(3);
  const answer = await fetch(`${urls.api}/design/styles`, { headers: { "x-api-key": credentials.server.key } });
  expect(answer.status).toBe(200);
  await answer.text();
  child.stdin?.end();
  expect((await once(child, "exit"))[0]).toBe(0);
});

test("a front hands connections to its replicas, and its operator says which", async () => {
  const [one, other] = [await start("--role", "limiter"), await start("--role", "limiter")];
  const upstreams = [one.urls.limiter, other.urls.limiter];
  const { urls } = await start("--role", "front", "--upstream", ...upstreams);
  const { front, control } = urls as unknown as { front: string; control: { front: string } };
  // A connection that was kept would still lead to the replica that is killed.
  const health = () => fetch(`${front}/health`, { headers: { connection: "close" } });
  expect(await (await health()).json()).toEqual({ healthy: true });
  await one.kill();
  expect((await health()).status).toBe(200);
  const change = (upstreams: string[]) =>
    fetch(`${control.front}/deployment`, { method: "PATCH", headers: OPERATOR, body: JSON.stringify({ upstreams }) });
  expect((await change([upstreams[1] as string])).status).toBe(200);
  expect((await change([])).status).toBe(422);
  expect((await mistake("--role", "front")).said).toContain("expected --upstream");
});

test("the key service writes a target file for a deployment that it is told of, with credentials that work there", async () => {
  const stated = join(folder, "stated.json");
  const file = join(folder, "target.json");
  const limiter = (await start("--role", "limiter")).urls.limiter;
  const about = { schema: "floodgate/target@1", name: "two", base_url: "http://edge/v1", limits: { replicas: 2 } };
  await writeFile(stated, JSON.stringify(about));
  const seeding = ["--role", "keys", "--limiter", limiter, "--write-target", file, "--tenants", "1"];
  const { urls } = await start(...seeding, "--target-from", stated);
  const { tenants, credentials, ...rest } = JSON.parse(await readFile(file, "utf8"));
  expect([rest, tenants.length]).toEqual([about, 1]);
  const { urls: api } = await start("--role", "api", "--limiter", limiter, "--keys", urls.keys);
  const answer = await fetch(`${api.api}/design/styles`, { headers: { "x-api-key": credentials.server.key } });
  expect(answer.status).toBe(200);
});

test.each([
  ["no file", null, "expected a target file without tenants and credentials, but there is no such file"],
  ["no JSON", "{", "but it is not JSON"],
  ["a list", "[]", "but it is no JSON object"],
  ["credentials", '{"credentials":{}}', "but it has credentials: take them out"],
  ["no base_url", '{"schema":"floodgate/target@1"}', "base_url: expected"],
])("--target-from with %s is a mistake reported in a sentence", async (_what, text, sentence) => {
  const stated = join(folder, "stated.json");
  if (text !== null) await writeFile(stated, text);
  const file = join(folder, "target.json");
  const { code, said } = await mistake("--write-target", file, "--target-from", stated);
  expect([code, said]).toEqual([2, expect.stringContaining(sentence)]);
  await expect(stat(file)).rejects.toThrow("ENOENT");
});

test("a control plane without a token makes one up, and hands it to the same user alone", async () => {
  const started = await startServe(["--log-level", "silent"], { FLOODGATE_CONTROL_TOKEN: "" });
  running.push(started);
  const control = started.urls.control?.api as string;
  expect((await fetch(`${control}/gauges`)).status).toBe(401);
  expect((await fetch(`${control}/gauges`, { headers: OPERATOR })).status).toBe(401);
  vi.stubEnv("FLOODGATE_CONTROL_TOKEN", "");
  expect(await readGauges([control])).toMatchObject([{ in_flight: 0 }]);
  await started.stop();
  expect(await tokenOfDoor(control)).toBeNull();
  vi.unstubAllEnvs();
});

test("--write-target replaces a link that was planted, and the file is for its owner alone", async () => {
  const victim = join(folder, "victim");
  const file = join(folder, "planted.json");
  await writeFile(victim, "mine");
  await symlink(victim, file);
  await start("--write-target", file, "--tenants", "0");
  expect(await readFile(victim, "utf8")).toBe("mine");
  const found = await lstat(file);
  expect([found.isFile(), found.mode & 0o777]).toEqual([true, 0o600]);
});
