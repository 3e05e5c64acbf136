/**
 * Commands as a user runs them, in whose process something throws that nobody expects: in each layer from the command itself
 * to the writer of its reports. Exit code 1 is a verdict, and none of them may end with it.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunDocument } from "../history/run-document.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { ENTRY, runCommand, startCommand } from "./command.fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-exit-cli-"));
const KEY = "svc_sk_live_0123456789abcdef";
let server: Server;

beforeAll(async () => {
  // Refuses everybody, as the contract has it: enough for a rule to be played.
  server = createServer((_, res) => res.writeHead(401, { "content-type": "application/json" }).end("{}"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Replaces one function of Node in the command's own process, not in what it starts. */
const planted = (module: string, name: string, when: string, act = "throw new TypeError('planted')"): string => {
  const code = `
    import module from "${module}";
    import { syncBuiltinESMExports } from "node:module";
    if (process.argv[1] === ${JSON.stringify(ENTRY)}) {
      const real = module.${name};
      module.${name} = function (...args) {
        if (${when}) { ${act}; }
        return real.apply(this, args);
      };
      syncBuiltinESMExports();
    }`;
  return `--import=data:text/javascript,${encodeURIComponent(code)}`;
};

const isFile = (name: string): string => `String(args[0]).includes(${JSON.stringify(name)})`;
const FULL = "throw Object.assign(new Error('ENOSPC: planted'), { code: 'ENOSPC' })";
const LATER = "setImmediate(() => { throw new TypeError('planted'); })";
const LATER_REJECTED = "setImmediate(() => void Promise.reject(new TypeError('planted')))";

/** A folder that no attempt before has written to. */
const fresh = (name: string): string => join(mkdtempSync(join(folder, "out-")), name);

/** Each on a deployment of its own, since one is run on once at a time. */
let deployments = 0;
const runs = (out: string): string[] => {
  const { port } = server.address() as AddressInfo;
  const n = deployments++;
  const file = join(folder, `${n}-target.json`);
  const base_url = `http://127.0.0.1:${port}/${n}/v1`;
  writeFileSync(
    file,
    JSON.stringify({ schema: "floodgate/target@1", base_url, credentials: { server: { key: KEY } } }),
  );
  return ["verify", "--target", file, "--only", "missing-credential", "--out", out];
};

type Layer = [layer: string, plant: string, args?: (out: string) => string[]];
const LAYERS: Layer[] = [
  ["the file of a target", planted("node:fs", "openSync", isFile("target.json"))],
  [
    "the command itself",
    planted("node:fs", "readFileSync", "args[0] instanceof URL && args[1] === 'utf8'"),
    () => ["--version"],
  ],
  ["doctor", planted("node:os", "cpus", "true"), () => ["doctor"]],
  ["report", planted("node:fs", "existsSync", isFile("run.json")), () => ["report", folder]],
  ["the lock", planted("node:fs", "writeFileSync", isFile(".lock"))],
  ["the run folder", planted("node:fs", "mkdirSync", isFile("run-"))],
  ["the journal", planted("node:fs", "writeSync", "String(args[1]).includes('phase')")],
  ["the recorder", planted("node:fs", "createWriteStream", "true")],
  ["the start of children", planted("node:child_process", "spawn", "true")],
  ["a callback of a later turn", planted("node:fs", "mkdirSync", isFile("run-"), LATER)],
  ["a promise that nobody waits for", planted("node:fs", "mkdirSync", isFile("run-"), LATER_REJECTED)],
  ["a promise before there is a run", planted("node:fs", "openSync", isFile("target.json"), LATER_REJECTED)],
  ["the writer of a report", planted("node:fs/promises", "rename", "String(args[1]).endsWith('junit.xml')")],
  ["the writer of run.json", planted("node:fs/promises", "rename", "String(args[1]).endsWith('run.json')")],
];

describe.concurrent("a command in which something unexpected is thrown", () => {
  test.each(LAYERS)(
    "in %s does not end with 1, and shows neither a stack nor a key",
    async (_layer, plant, args = runs) => {
      const out = fresh("run-of-it");
      const { code, said } = await runCommand(args(out), { env: { NODE_OPTIONS: plant } });
      expect(said).not.toMatch(/\n\s+at .*:\d+/);
      expect(said).not.toContain(KEY);
      expect([2, 3, 4]).toContain(code);
      let verdict = "none";
      try {
        verdict = (JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument).verdict;
      } catch {
        // Nothing was begun, or nothing could be written.
      }
      expect(verdict).not.toBe("pass");
    },
  );
});

test.skipIf(process.platform !== "linux")("without /proc a command begins as it does with it", async () => {
  const plant = planted(
    "node:fs",
    "readFileSync",
    isFile("/proc/"),
    "throw Object.assign(new Error('planted'), { code: 'ENOENT' })",
  );
  const none = planted("node:fs", "existsSync", isFile("/proc/"), "return false");
  const args = ["-c", 'unset NODE_COMPILE_CACHE; exec "$0" "$@"', process.execPath, plant, none, ENTRY, "--version"];
  expect(await commandOf("/bin/bash", args)).toMatchObject({ code: 0, said: expect.stringMatching(/^\d+\.\d+/) });
});

describe.skipIf(process.platform !== "linux")("a place that takes nothing", () => {
  test("a disk that is full ends with 4 and a sentence, whatever could be written", async () => {
    const out = fresh("small");
    // Node writes the cache of its compiler when nothing handles SIGXFSZ any more.
    const limit = ["-c", `unset NODE_COMPILE_CACHE; ulimit -f 4; exec "$0" "$@"`];
    const args = [process.execPath, "--disable-warning=ExperimentalWarning", ENTRY, ...runs(out)];
    const { code, said } = await commandOf("/bin/bash", [...limit, ...args]);
    expect([code, said]).toEqual([4, expect.stringMatching(/EFBIG/)]);
    const nothing = ["-c", `unset NODE_COMPILE_CACHE; ulimit -f 0; exec "$0" "$@"`];
    const none = await commandOf("/bin/bash", [...nothing, ...args.slice(0, -1), fresh("none")]);
    expect(none.code).toBe(4);
    expect(none.said).toMatch(/a file may not grow any further here \(ulimit -f\) \(EFBIG\); make room/);
    expect(said).not.toMatch(/\n\s+at .*:\d+/);
  });

  test("a run folder on a full disk is named before anything is sent", async () => {
    const out = fresh("full");
    const full = planted("node:fs", "writeFileSync", isFile(".room"), FULL);
    const { code, said } = await commandOf(process.execPath, [full, ENTRY, ...runs(out)]);
    expect([code, said]).toEqual([4, expect.stringMatching(/the run folder \S+full .*ENOSPC.*; make room, or/)]);
    // A room that cannot be made for another reason ends no run.
    const denied = planted("node:fs", "writeFileSync", isFile(".room"), FULL.replaceAll("ENOSPC", "EIO"));
    const other = await commandOf(process.execPath, [denied, ENTRY, ...runs(fresh("other"))]);
    expect(other.said).not.toContain("make room");
  });

  test.each([
    ["below /proc", "/proc/floodgate/run"],
    ["below /sys", "/sys/floodgate/run"],
    ["below a device", "/dev/null/run"],
  ])("--out %s is a sentence and exit code 2, at once", async (_where, out) => {
    const { code, said } = await runCommand(runs(out));
    expect([code, said]).toEqual([2, expect.stringContaining(`floodgate: --out ${out}: `)]);
  });

  test("--out on a folder that is not empty is a sentence and exit code 2", async () => {
    const out = join(folder, "used");
    mkdirSync(join(out, "x"), { recursive: true });
    const { code, said } = await runCommand(runs(out));
    expect([code, said]).toEqual([2, expect.stringContaining("is not an empty folder; name a new one")]);
  });

  test("a recorded run whose reports cannot be written again is judged, said and 4", async () => {
    const run = fresh("artifact");
    cpSync(join(REPOSITORY, "reports", "sample"), run, { recursive: true });
    const before = readFileSync(join(run, "run.json"), "utf8");
    const denied = "throw Object.assign(new Error('denied'), { code: 'EACCES' })";
    const env = { NODE_OPTIONS: planted("node:fs/promises", "rename", "true", denied) };
    const { code, said } = await runCommand(["report", run], { env });
    expect(code).toBe(4);
    expect(said).toMatch(/PASS {2}chaos on embedded[\s\S]*Judged again from its files/);
    expect(said).toMatch(
      /not everything could be written: this user may not do that there \(EACCES\).*copy the folder/,
    );
    expect(readFileSync(join(run, "run.json"), "utf8")).toBe(before);
  });

  test("a result that cannot be printed is 4, and one that nobody reads is no error", async () => {
    const entry = [process.execPath, ENTRY, ...runs(fresh("printed")), "--json"];
    const full = await commandOf("/bin/bash", ["-c", `exec "$0" "$@" > /dev/full`, ...entry]);
    expect([full.code, full.said]).toEqual([4, expect.stringContaining("could not be printed")]);
    const closed = startCommand(["load"]);
    closed.child.stdout?.destroy();
    expect(await closed.exited).toBe(0);
  });
});

const commandOf = async (command: string, args: readonly string[]): Promise<{ code: number | null; said: string }> => {
  const { spawn } = await import("node:child_process");
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (said += text));
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, said })));
};
