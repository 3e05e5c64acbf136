/** Scenarios as a user of k6 runs them, without the runner. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Asked, type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import type { Target } from "../../target/target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { k6OrSkip, ROOT } from "./run-k6.fixture.ts";

const binary = k6OrSkip();

let stub: StubApi;
let folder: string;
beforeEach(async () => {
  stub = await startStubApi();
  folder = await mkdtemp(join(tmpdir(), "floodgate-test-"));
});
afterEach(async () => {
  await stub.close();
  await rm(folder, { recursive: true });
});

type Ended = { code: number; out: string };

const k6 = (script: string, options: Record<string, string>, environment: Record<string, string> = {}) =>
  new Promise<Ended>((resolve) => {
    const given = Object.entries(options).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
    const env = { HOME: folder, PWD: folder, K6_NO_USAGE_REPORT: "true", ...environment };
    const all = { cwd: folder, env: { ...env, K6_AUTO_EXTENSION_RESOLUTION: "false" } };
    execFile(binary as string, ["run", "--quiet", "--no-color", ...given, script], all, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), out: stdout + stderr });
    });
  });

const alone = async (
  story: string,
  more: Partial<Target> = {},
  options: Record<string, string> = {},
  from = join(ROOT, "scenarios"),
): Promise<Ended> => {
  // Whole at every moment, because two of these may run at a time.
  const written = join(folder, `${story}.target.json`);
  await writeFile(written, JSON.stringify(stub.target(more)));
  await rename(written, join(folder, "target.json"));
  const said = { FLOODGATE_TARGET: "target.json", DURATION: "1s", ...options };
  return k6(join(from, `${story}.ts`), said, { SERVER_KEY: "svc_sk_live_from_environment" });
};

/** Played again where nothing but our own lag was over its threshold: how late this machine is, is not asked here. */
const inTime = async (play: () => Promise<Ended>): Promise<Ended> => {
  for (let left = 5; ; left -= 1) {
    stub.asked.length = 0;
    const ended = await play();
    const unmet = ended.out.match(/floodgate_\w+(?:\{.*?\})?: expected/g) ?? [];
    if (left === 0 || unmet.length !== 1 || !unmet[0].startsWith("floodgate_schedule_lag")) return ended;
  }
};

/** Twenty streams a second fit, so that sixty are an overload. */
const SMALL: Partial<Target> = {
  limits: { slots: 8, service_ms: 400, global_in_flight: 8, org_in_flight: 8, rate_per_s: 50, burst: 100 },
};

/** Every third stream is shed, as by a deployment that is full. */
const shedding = (): ((asked: Asked, res: ServerResponse) => boolean) => {
  let n = 0;
  return ({ path }, res) => {
    if (!path.includes("/stream") || n++ % 3 !== 0) return false;
    res.writeHead(429, { "retry-after": "1" }).end('{"error":"b2b_overloaded"}');
    return true;
  };
};

describe.skipIf(binary === null)("a scenario without the runner", () => {
  test("shows what it is for, says so in a summary, and ends with 0", async () => {
    stub.instead = shedding();
    const { code, out } = await inTime(() => alone("chat-past-capacity", SMALL, { RATE: "60" }));
    expect(out).toMatch(/verdict by thresholds: pass/);
    expect(out).toMatch(/\d+ {2}200\n/);
    expect(out).toMatch(/\d+ {2}429 b2b_overloaded\n/);
    expect(out).toMatch(/\d+ {2}done\n/);
    expect(out).toMatch(new RegExp(`spent: ${stub.asked.length} requests`));
    expect(code).toBe(0);
  });

  test("fails where what it is for was not seen, and where an answer is none of the contract", async () => {
    const unseen = await alone("chat-past-capacity", SMALL, { RATE: "60" });
    expect(unseen.out).toMatch(/floodgate_expected\{outcome:429 b2b_overloaded\}: expected count>0/);
    expect(unseen.code).toBe(99);
    stub.instead = ({ id }, res) => {
      if (!id.endsWith("-7")) return false;
      res.writeHead(502).end("<html>");
      return true;
    };
    const edge = await alone("catalog-reads");
    expect(edge.out).toMatch(/1 {2}outside the contract/);
    expect(edge.out).toMatch(/design\.\w+: edge 502 was not expected/);
    expect(edge.code).toBe(99);
  });

  test("fails for a stream that ends without its last event, where that is stated, and for one without any event", async () => {
    const ends = ["event: token\ndata: {}\n\n", "", null];
    // A busy machine makes fewer calls than the rate has it.
    const ended = [0, 0, 0];
    let n = 0;
    stub.instead = ({ path }, res) => {
      if (!path.includes("/stream")) return false;
      const kind = n++ % ends.length;
      ended[kind] = (ended[kind] as number) + 1;
      const body = ends[kind];
      if (typeof body !== "string") res.writeHead(429).end('{"error":"b2b_overloaded"}');
      else res.writeHead(200, { "content-type": "text/event-stream" }).end(body);
      return true;
    };
    const { code, out } = await alone(
      "chat-past-capacity",
      { ...SMALL, stream_end: { control: "done" } },
      { RATE: "60" },
    );
    expect(out).toMatch(/expected a stream with one last event; got truncated after 1 events/);
    expect(out).toMatch(/floodgate_calls\{outcome:200 empty\}: expected count==0/);
    expect(out).toMatch(new RegExp(`${ended[1]} {2}200 empty`));
    expect(out).toMatch(new RegExp(`${ended[0]} {2}truncated`));
    expect(code).toBe(99);
  });

  test("fails for a call without an answer, and not for an end in order where no last event is stated", async () => {
    let n = 0;
    stub.instead = ({ path }, res) => {
      if (!path.includes("/stream")) return false;
      n += 1;
      if (n % 3 === 0) res.writeHead(429).end('{"error":"b2b_overloaded"}');
      else if (n % 3 === 1)
        res.writeHead(200, { "content-type": "text/event-stream" }).end("event: token\ndata: {}\n\n");
      else res.socket!.resetAndDestroy();
      return true;
    };
    const { code, out } = await alone("chat-past-capacity", SMALL, { RATE: "60" });
    expect(out).not.toMatch(/expected a stream with one last event/);
    expect(out).toMatch(/floodgate_calls\{outcome:indeterminate\}: expected count==0/);
    expect(out).toMatch(/\d+ {2}eof/);
    expect(code).toBe(99);
  });

  test("mints its sessions first, and again before they end", async () => {
    // The VU's own copy is too old at its first use.
    stub.expiresIn = 1;
    const { code, out } = await alone("smoke", {}, { DURATION: "3s", RATE: "30" });
    const minted = stub.asked.filter(({ id }) => /-s\d+$/.test(id)).length;
    expect(minted).toBeGreaterThan(0);
    expect(stub.asked.filter(({ id }) => /-v\d+s\d+$/.test(id)).length).toBeGreaterThan(0);
    expect(stub.asked.some(({ headers }) => /svc_sess_live/.test(JSON.stringify(headers)))).toBe(true);
    expect(out).not.toMatch(/svc_(pk|sk|sess)_live_\w/);
    // This server refuses nobody, which the story wants to see; nothing else is wrong.
    expect(out).toMatch(/floodgate_expected\{outcome:401\}: expected count>0/);
    expect(out).not.toMatch(/(checks|floodgate_faults|floodgate_calls\{outcome:\w+\}): expected/);
    expect(code).toBe(99);
  });

  test("keeps to the budget and the rate of the file", async () => {
    const spent = await alone("catalog-reads", { budget: { requests: 15 } }, { RATE: "50" });
    expect(stub.asked).toHaveLength(15);
    expect(spent.out).toMatch(/stopped: budget\.requests of the target file \(15\) is spent/);
    expect(spent.code).not.toBe(0);
    const scaled = await inTime(() => alone("catalog-reads", { permits: { load_max_rps: 20 } }));
    expect(scaled.out).toMatch(/permits\.load_max_rps is 20 .* scaled down/);
    expect(stub.asked.length).toBeLessThanOrEqual(21);
    expect(scaled.code).toBe(0);
  });

  test("reads keys from the environment and from files beside the target file", async () => {
    await writeFile(join(folder, "key"), "svc_sk_live_from_file\n");
    const tenants = stub
      .target()
      .tenants!.slice(1, 3)
      .map((tenant, n) => ({
        ...tenant,
        server: { key: n === 0 ? "env:SERVER_KEY" : "file:key" },
      }));
    expect((await inTime(() => alone("catalog-reads", { tenants }, { RATE: "20" }))).code).toBe(0);
    const sent = JSON.stringify(stub.asked.map(({ headers }) => headers));
    expect(sent).toMatch(/svc_sk_live_from_environment/);
    expect(sent).toMatch(/svc_sk_live_from_file/);
  });

  test("asks for the canonical host, whatever spelling the file has", async () => {
    const port = new URL(stub.url).port;
    const { out, code } = await inTime(() => alone("catalog-reads", { base_url: `http://0x7f.1:${port}/v1/` }));
    expect([code, out]).toEqual([0, expect.any(String)]);
    expect(new Set(stub.asked.map(({ headers }) => headers.host))).toEqual(new Set([`127.0.0.1:${port}`]));
  });

  const withKey = (key: string): Partial<Target> => ({ tenants: [{ org: "org_a", server: { key } }] });
  test.each([
    ["a host that is not ours", { base_url: "http://staging.example/v1" }, {}, /staging\.example.*-e I_OWN=staging/],
    [
      "no permit there",
      { base_url: "http://staging.example/v1" },
      { I_OWN: "staging.example" },
      /permits\.load_max_rps/,
    ],
    [
      "a host hidden behind a user",
      { base_url: "http://127.0.0.1@staging.example/" },
      {},
      /base_url: expected a URL without user and password/,
    ],
    ["a host that a resolver would be asked for", { base_url: "http://127.0.0.1./v1" }, {}, /without a dot at its end/],
    ["a name that begins like loopback", { base_url: "http://127.0.0.1.nip.io/v1" }, {}, /is not loopback/],
    ["a blank owner", {}, { I_OWN: " " }, /-e I_OWN: expected a host name/],
    [
      "a proxy that is not ours",
      { transport: { proxy: "http://proxy.example:1" } },
      {},
      /transport\.proxy is on proxy/,
    ],
    ["a proxy that k6 would pass by", { transport: { proxy: "env:PROXY" } }, { PROXY: "http://127.1:1" }, /past any/],
    ["a command", withKey("exec:cat key"), {}, /tenants \(org_a\)\.server\.key: k6 cannot run commands/],
    [
      "HTTP/1.1 by a k6 that would agree upon HTTP/2",
      { base_url: "https://127.0.0.1:9/v1" },
      {},
      /set GODEBUG=http2client=0/,
    ],
    ["a variable that is not set", withKey("env:NOWHERE"), {}, /expected a value from env:NOWHERE/],
    ["a file that is not there", withKey("file:nowhere"), {}, /expected a readable file .*nowhere/],
    ["nobody who could call", { tenants: [], credentials: {} }, {}, /catalog-reads cannot run: the target file lacks/],
    [
      "a rate over the permit",
      { permits: { load_max_rps: 20 } },
      { RATE: "50" },
      /load_max_rps of the target file allows 20/,
    ],
    ["a rate that is none", {}, { RATE: "fast" }, /-e RATE: expected a number above 0; got .*fast/],
    ["a length that is none", {}, { DURATION: "soon" }, /-e DURATION: expected a length/],
    ["a misspelt field", { permit: {} } as object, {}, /permit: no such field is known; did you mean permits/],
    ["no target", {}, { FLOODGATE_TARGET: "" }, /no target was given/],
    ["another target", {}, { FLOODGATE_TARGET: "other.json" }, /expected a readable file .*other\.json/],
  ] as [string, Partial<Target>, Record<string, string>, RegExp][])(
    "refuses %s in a sentence, and sends nothing",
    async (_, more, options, sentence) => {
      const { code, out } = await alone("catalog-reads", more, options);
      expect(out).toMatch(sentence);
      expect(code).not.toBe(0);
      expect(stub.asked).toEqual([]);
    },
  );

  test("burns allowances only where the file permits it", async () => {
    const tenants: Target["tenants"] = [
      { org: "org_f", tier: "Free", limit: 5, publishable: { key: "svc_pk_live_f", origin: "https://f.example" } },
      { org: "org_p", tier: "Pro", limit: 5, publishable: { key: "svc_pk_live_p", origin: "https://p.example" } },
      ...["org_n", "org_m"].map((org) => ({ org, tier: "Pro" as const, server: { key: `svc_sk_live_${org}` } })),
    ];
    const { out, code } = await alone("tile-quota-stampede", { tenants });
    expect(out).toMatch(/the target file lacks .*permits\.quota_burn/);
    expect(code).not.toBe(0);
    expect(stub.asked).toEqual([]);
  });

  test("every scenario starts from a target file", async () => {
    const SHORT = { RATE: "10", DURATION: "200ms" };
    const names = [...STORIES.keys()];
    const all = await Promise.all(
      [0, 1].map(async (half) => {
        const seen: [string, string][] = [];
        for (const name of names.filter((_, n) => n % 2 === half)) {
          seen.push([name, (await alone(name, { permits: { quota_burn: true } }, SHORT)).out]);
        }
        return seen;
      }),
    );
    for (const [name, out] of all.flat()) {
      expect(out, name).toMatch(new RegExp(`${name} (on |cannot run: the target file lacks)`));
      expect(out, name).not.toMatch(/\bTypeError|ReferenceError|script exception/);
    }
  });
});

test.skipIf(binary === null)("on a k6 without our extension it says how to get one that has it", async () => {
  const copy = await mkdtemp(join(tmpdir(), "floodgate-stock-"));
  try {
    for (const part of ["scenarios", "src/workload", "src/contract"]) {
      await cp(join(ROOT, part), join(copy, part), { recursive: true });
    }
    const path = join(copy, "scenarios/shared/extension.ts");
    // A name that this k6 knows as little as another knows ours.
    await writeFile(path, (await readFile(path, "utf8")).replaceAll("k6/x/floodgate", "k6/x/of-nobody"));
    const { code, out } = await alone("catalog-reads", {}, {}, join(copy, "scenarios"));
    expect(out).toMatch(
      /this k6 lacks Floodgate's extension: build one .* npx floodgate dev tools, and run .* \.tools\/k6/,
    );
    expect(code).not.toBe(0);
    expect(stub.asked).toEqual([]);
  } finally {
    await rm(copy, { recursive: true });
  }
});
