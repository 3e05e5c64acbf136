/** `serve` as a user starts it: a process of its own, its options as they stand on the command line. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, expect, test } from "vitest";

const ENTRY = new URL("floodgate.mjs", import.meta.url).pathname;

let child: ChildProcess | undefined;
let folder: string | undefined;

afterEach(async () => {
  if (child !== undefined && child.exitCode === null && child.signalCode === null) {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
  if (folder !== undefined) await rm(folder, { recursive: true });
  child = undefined;
  folder = undefined;
});

type Urls = { api: string; keys: string; limiter: string; control: { api: string } };

const serve = async (...more: string[]): Promise<{ urls: Urls; serverKey: string }> => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-serve-"));
  const target = join(folder, "target.json");
  const fixed = ["--role", "all", "--write-target", target, "--tenants", "0", "--control-port", "0"];
  const started = spawn(process.execPath, [ENTRY, "serve", ...fixed, "--log-level", "silent", ...more], {
    stdio: ["pipe", "pipe", "ignore"],
    // It ends with us, however we end.
    env: { ...process.env, FLOODGATE_END_WITH_STDIN: "1" },
  });
  child = started;
  for await (const line of createInterface({ input: started.stdout })) {
    const { credentials } = JSON.parse(await readFile(target, "utf8"));
    return { urls: JSON.parse(line), serverKey: credentials.server.key };
  }
  throw new Error("expected one line of JSON on stdout, got none");
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
])("%j is a mistake told in a sentence, with exit code 2", async (options, sentence) => {
  child = spawn(process.execPath, [ENTRY, "serve", "--log-level", "silent", ...options], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [told, printed] = ["", ""];
  child.stderr?.on("data", (chunk) => {
    told += chunk;
  });
  child.stdout?.on("data", (chunk) => {
    printed += chunk;
  });
  const [code] = await once(child, "close");
  expect([code, printed]).toEqual([2, ""]);
  expect(told).toContain(sentence);
  expect(told).not.toContain("    at ");
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
