import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { unknownField } from "../../scenarios/shared/target-fields.ts";
import { TARGET_SCHEMA } from "./target.ts";
import { checkTarget, readTargetFile, TargetFileError } from "./target-file.ts";

const minimal = {
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:8080/v1",
  credentials: { server: { key: "env:SERVER_KEY" } },
};

const problemsOf = (value: unknown): readonly string[] => {
  try {
    checkTarget(value, "target.json");
  } catch (error) {
    if (error instanceof TargetFileError) return error.problems;
    throw error;
  }
  return [];
};

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-target-"));
});
afterAll(() => rm(folder, { recursive: true }));

describe("a target file", () => {
  test("needs no more than its schema, a base URL and one credential", () => {
    expect(checkTarget(minimal, "t").warnings).toEqual([]);
    expect(checkTarget({ ...minimal, base_url: `${minimal.base_url}/` }, "t").target.base_url).toBe(minimal.base_url);
    const tenants = [{ org: "org_a", server: { key: "file:key" } }];
    expect(problemsOf({ schema: minimal.schema, base_url: minimal.base_url, tenants })).toEqual([]);
  });

  test("may have comments, at any depth and of any shape: members whose name begins with //, and $schema", () => {
    const commented = {
      "//": "the file of the staging deployment",
      $schema: "./target.schema.json",
      ...minimal,
      "//tenants": [{ org: 1 }],
      credentials: { ...minimal.credentials, "//publishable": { key: 5 }, "// later": "the other organization" },
      permits: { "// writes": "not yet", chaos: false },
    };
    const { target, warnings } = checkTarget(commented, "t");
    expect(warnings).toEqual([]);
    expect(target).toEqual({ ...minimal, permits: { chaos: false } });
    // One slash is no comment, and what is under a comment is no credential.
    expect(problemsOf({ ...minimal, "/": 1 })).toHaveLength(1);
    expect(problemsOf({ ...commented, credentials: { "//server": minimal.credentials.server } })).toHaveLength(1);
  });

  test("has no key under a role of another kind, as far as it is written there", () => {
    const problems = problemsOf({
      ...minimal,
      credentials: {
        publishable: { key: "svc_sk_live_0123456789", origin: "https://a.example" },
        server_downgraded: { key: "svc_pk_live_0123456789" },
        revoked: { key: "svc_sk_live_0123456789" },
        expired: { key: "svc_sess_live_a.b.c" },
        server: { key: "env:SERVER_KEY" },
        publishable_no_ai: { key: "another-prefix", origin: "https://a.example" },
        admin_pro: { token: "svc_sk_live_0123456789" },
      },
      tenants: [{ org: "org_a", server: { key: "svc_pk_live_0123456789" } }],
    });
    expect(problems.map((problem) => problem.split(":")[0])).toEqual([
      "credentials.publishable.key",
      "credentials.server_downgraded.key",
      "credentials.expired.key",
      "credentials.admin_pro.token",
      "tenants[0].server.key",
    ]);
    expect(problems[0]).toContain("expected a publishable key (svc_pk_...); got a server key (svc_sk_...)");
    expect(problems.join()).not.toContain("0123456789");
  });

  test("may use every field that the interface names, without a warning", () => {
    const whole = {
      ...minimal,
      name: "staging",
      key_management_url: "https://api.example/v1",
      tile_url: "https://tiles.example/{z}/{x}/{y}",
      transport: {
        ca: "file:ca.pem",
        cert: null,
        key: null,
        proxy: null,
        headers: { "x-canary": "1" },
        protocol: "h1",
        connections: 256,
      },
      control: { keys: null, limiter: null, api: [] },
      toxiproxy: { api_url: "http://127.0.0.1:8474", proxies: { limiter: "limiter", keys: "keys", edge: "edge" } },
      faults: { "limiter.refused": { inject: ["exec:a"], heal: ["exec:b"] } },
      scale: { set: ["./scale {replicas}", "./wait"], ready: "./ready {replicas}" },
      observers: { prometheus: { url: "http://p", queries: { cpu: "up" } }, ledger: "exec:c" },
      shedding: "fixed",
      limits: {
        replicas: 1,
        slots: 64,
        service_ms: 200,
        global_in_flight: 64,
        org_in_flight: 32,
        rate_per_s: 50,
        burst: 100,
        limiter_budget_ms: 250,
        key_service_budget_ms: 1000,
        revocation_budget_ms: 1000,
      },
      slo: { chat: "ttfe_p99<=800ms" },
      permits: { writes: false, quota_burn: false, chaos: false, load_max_rps: 200 },
      budget: { requests: 200000, map_loads: 500, analyses: 0, stream_seconds: 20000 },
      stop_when: { error_rate: 0.2 },
      required: ["verify"],
      fixtures: { provision: null, reset: null },
      tenants: [
        {
          org: "org_t01",
          tier: "Pro",
          limit: 100000,
          publishable: { key: "x", origin: "https://a.example" },
          server: { key: "y" },
        },
      ],
      credentials: {
        ...minimal.credentials,
        publishable_expendable: { key: "k", origin: "https://a.example", limit: 5, tier: "Free", org: "o" },
        publishable_basemap: { key: "k", origin: "https://a.example", basemap_style_id: "svc-dusk" },
        admin_pro: { token: "t", org: "org_a" },
      },
    };
    expect(checkTarget(whole, "t").warnings).toEqual([]);
  });

  test("complaints name the field by its path, what was expected and what came", () => {
    expect(problemsOf({})).toEqual(
      expect.arrayContaining([
        'schema: expected the text "floodgate/target@1"; got nothing',
        expect.stringMatching(/^base_url: expected .* a URL that begins with http.*; got nothing$/),
      ]),
    );
    expect(problemsOf({ ...minimal, shedding: "sometimes" })).toEqual([
      'shedding: expected one of "fixed", "adaptive", "unknown"; got "sometimes"',
    ]);
    expect(problemsOf({ ...minimal, limits: { slots: -1 } })[0]).toMatch(
      /^limits\.slots: expected .*at least 0; got -1/,
    );
    expect(problemsOf({ ...minimal, tenants: [{ org: "a" }, { server: { key: 4 } }] })).toEqual(
      expect.arrayContaining([
        "tenants[1].org: expected its name; got nothing",
        expect.stringMatching(/^tenants\[1\]\.server\.key: expected a key, or where it is.*; got 4$/),
      ]),
    );
    expect(problemsOf({ ...minimal, transport: { ca: 3 } })[0]).toMatch(/^transport\.ca: expected .*PEM.*; got 3$/);
    expect(problemsOf([])[0]).toMatch(/^\(the whole file\): expected an object/);
  });

  test("without any credential says which field to fill", () => {
    expect(problemsOf({ schema: minimal.schema, base_url: minimal.base_url })[0]).toMatch(
      /^credentials: expected at least one role/,
    );
  });

  test("an organization that stands in it twice would be counted twice", () => {
    expect(problemsOf({ ...minimal, tenants: [{ org: "a" }, { org: "a" }] })[0]).toMatch(/"a" twice/);
  });

  test("publishable and publishable_other_org are of two organizations", () => {
    const withOrgs = (own?: string, other?: string) => {
      const [publishable, publishable_other_org] = [own, other].map((org) => ({ key: "env:KEY", org }));
      return problemsOf({ ...minimal, credentials: { publishable, publishable_other_org } });
    };
    expect(withOrgs("a", "a")).toEqual([expect.stringMatching(/^credentials\.publishable_other_org\.org: .*"a"/)]);
    expect([withOrgs("a", "b"), withOrgs("a"), withOrgs()]).toEqual([[], [], []]);
  });

  test.each(["$SERVER_KEY", "$".concat("{SERVER_KEY}"), "env:$SERVER_KEY", "SERVER_KEY"])(
    "a variable that is no reference is not sent as a key: %s",
    (key) => {
      expect(problemsOf({ ...minimal, credentials: { server: { key } } })).toEqual([
        `credentials.server.key: expected "env:SERVER_KEY" for the environment variable; got "${key}"`,
      ]);
    },
  );

  test("a field that is not known is refused at every depth, and the known field that it resembles is named", () => {
    const hintsOf = (more: object): string[] =>
      problemsOf({ ...minimal, ...more }).map((text) =>
        text.replace(/^(\S+): .*?(?:(did you mean \S+)\?|take it out.*)$/, "$1 $2"),
      );
    expect(problemsOf({ ...minimal, credentials: undefined, credentals: {} }).join()).toContain("mean credentials?");
    expect(hintsOf({ permis: {} })).toEqual(["permis did you mean permits"]);
    expect(hintsOf({ requird: ["verify"], whatever: null, metadata: 1 })).toEqual([
      "requird did you mean required",
      "metadata ",
    ]);
    expect(hintsOf({ limts: { slot: 1 } })).toEqual(["limts did you mean limits"]);
    expect(hintsOf({ limits: { slot: 1 } })).toEqual(["limits.slot did you mean slots"]);
    expect(hintsOf({ tenants: [{ org: "a", teir: "Pro" }] })).toEqual(["tenants[0].teir did you mean tier"]);
    expect(hintsOf({ credentials: { server: { key: "y", orgg: "a" } } })).toEqual([
      "credentials.server.orgg did you mean org",
    ]);
    expect(hintsOf({ faults: { "limiter.refused": { inject: ["a"], heal: ["b"], staus: "c" } } })).toEqual([
      "faults.limiter.refused.staus did you mean status",
    ]);
    expect(hintsOf({ scale: { set: ["./scale 2"], ready: "./ready {replicas}" } })).toHaveLength(1);
    expect(hintsOf({ scale: { set: [], ready: "./ready" } })).toHaveLength(2);
    expect(hintsOf({ observers: { prometheus: { url: "http://p", queries: {}, querys: {} } } })).toEqual([
      "observers.prometheus.querys did you mean queries",
    ]);
  });

  test("a member that is null is as if it were absent", () => {
    const nulls = { limits: null, permits: { writes: null }, credentials: { ...minimal.credentials, revoked: null } };
    expect(checkTarget({ ...minimal, ...nulls }, "t").target).toEqual({ ...minimal, permits: {} });
    expect(problemsOf({ ...minimal, base_url: null }).join()).toContain("got nothing");
  });

  test("every mistake is named, however many unknown fields stand before it", () => {
    const unknown = Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`x${at}`, at]));
    const wrong = { writes: 1, quota_burn: 2, chaos: 3 };
    const permits = { permits: { ...wrong, load_max_rps: -1 }, budget: { requests: -1, map_loads: -1, analyses: -1 } };
    const problems = problemsOf({ ...unknown, ...minimal, ...permits, exclusive: 1, name: 2, slo: 3 });
    expect(problems.filter((text) => text.includes("expected"))).toHaveLength(10);
    expect(problems.filter((text) => text.includes("no such field"))).toHaveLength(12);
  });

  test("no complaint shows a key", () => {
    const shown = problemsOf({ ...minimal, credentials: "svc_sk_live_abcdefghijklmnop" }).join();
    expect(shown).toMatch(/^credentials: expected an object/);
    expect(shown).not.toMatch(/abcdefghij/);
  });

  test("is read from a file, whose folder references start from", async () => {
    const path = join(folder, "target.json");
    await writeFile(path, JSON.stringify(minimal));
    expect(await readTargetFile(path)).toMatchObject({ target: minimal, folder, warnings: [] });
  });

  test("states hosts in any spelling, and is read with one", () => {
    const { target } = checkTarget(
      {
        ...minimal,
        base_url: "HTTP://0x7f.1:8080/v1/",
        key_management_url: "http://2130706433:8080/v1",
        tile_url: "http://[::FFFF:127.0.0.1]/{z}/{x}/{y}.png?k=1",
        transport: { proxy: "http://user:word@127.1:3128" },
        control: { keys: "http://0177.0.0.1:1", limiter: null, api: ["http://LOCALHOST:2"] },
        toxiproxy: { api_url: "http://127.1:8474", proxies: {} },
        watchdog: { url: "http://[0:0::1]:8475/" },
        observers: { prometheus: { url: "http://127.0.1:9090", queries: {} } },
      },
      "t",
    );
    expect(target).toMatchObject({
      base_url: "http://127.0.0.1:8080/v1",
      key_management_url: "http://127.0.0.1:8080/v1",
      tile_url: "http://127.0.0.1/{z}/{x}/{y}.png?k=1",
      transport: { proxy: "http://user:word@127.0.0.1:3128" },
      control: { keys: "http://127.0.0.1:1", api: ["http://localhost:2"] },
      toxiproxy: { api_url: "http://127.0.0.1:8474" },
      watchdog: { url: "http://[::1]:8475" },
      observers: { prometheus: { url: "http://127.0.0.1:9090" } },
    });
  });

  test.each<[string, object]>([
    ["base_url", { base_url: "http://user:hunter2secret@127.0.0.1/v1" }],
    ["key_management_url", { key_management_url: "http://user:hunter2secret@127.0.0.1/v1" }],
    ["tile_url", { tile_url: "http://hunter2secret@127.0.0.1/{z}/{x}/{y}" }],
    ["control.keys", { control: { keys: "http://user:hunter2secret@127.0.0.1:1" } }],
    ["control.api[0]", { control: { api: ["http://user:hunter2secret@127.0.0.1:1"] } }],
    ["toxiproxy.api_url", { toxiproxy: { api_url: "http://user:hunter2secret@127.0.0.1:1", proxies: {} } }],
    ["watchdog.url", { watchdog: { url: "http://user:hunter2secret@127.0.0.1:1" } }],
    ["observers.prometheus.url", { observers: { prometheus: { url: "http://user:hunter2secret@h", queries: {} } } }],
  ])("has no user and password in %s, and no message repeats them", (field, more) => {
    const [problem] = problemsOf({ ...minimal, ...more });
    expect(problem).toContain(`${field}: expected a URL without user and password`);
    expect(problem).not.toContain("hunter2secret");
  });

  test.each<[string, object, string]>([
    ["no host of its own", { base_url: "http://127.0.0.1.:1/v1" }, "without a dot at its end"],
    ["a backslash", { base_url: "http://127.0.0.1\\@evil.example/v1" }, "without blanks and backslashes"],
    ["another scheme", { base_url: "ftp://127.0.0.1/v1" }, "begins with http:// or https://"],
    ["a query", { base_url: "http://127.0.0.1/v1?key=x" }, "without a query"],
    ["a fragment", { tile_url: "http://127.0.0.1/{z}/{x}/{y}#x" }, "without a fragment"],
    ["a variable in the host", { tile_url: "http://{z}.evil.example/{x}/{y}/{z}" }, "expected a host name"],
    ["no place for y", { tile_url: "http://127.0.0.1/{z}/{x}" }, "expected {z}, {x} and {y}"],
  ])("a URL with %s is refused", (_name, more, expected) => {
    expect(problemsOf({ ...minimal, ...more }).join()).toContain(expected);
  });

  test("takes any URL from a reference, and what is read is checked as what is written", async () => {
    const path = join(folder, "referring.json");
    await writeFile(join(folder, "where"), "http://0x7f.1:8080/v1\n");
    const referring = { ...minimal, base_url: "file:where", transport: { proxy: "env:FLOODGATE_TEST_PROXY" } };
    await writeFile(path, JSON.stringify(referring));
    try {
      process.env.FLOODGATE_TEST_PROXY = "http://a:hunter2secret@127.1:3128";
      const { target } = await readTargetFile(path);
      expect(target.base_url).toBe("http://127.0.0.1:8080/v1");
      expect(target.transport?.proxy).toBe("http://a:hunter2secret@127.0.0.1:3128");
      process.env.FLOODGATE_TEST_PROXY = "socks5://a:hunter2secret@127.1:3128";
      const refused = await readTargetFile(path).catch((error: Error) => error.message);
      expect(refused).toContain("transport.proxy: expected a URL that begins with http");
      expect(refused).not.toContain("hunter2secret");
    } finally {
      delete process.env.FLOODGATE_TEST_PROXY;
    }
    await expect(readTargetFile(path)).rejects.toThrow(
      "transport.proxy: expected the environment variable FLOODGATE_TEST_PROXY",
    );
  });

  test("that still has the origin that init writes is warned of", () => {
    const role = { key: "env:KEY", origin: "https://your-app.example" };
    const file = {
      schema: "floodgate/target@1",
      base_url: "https://maps.example/v1",
      credentials: { publishable: role },
    };
    expect(checkTarget(file, "t").warnings.join()).toMatch(
      /^credentials\.publishable\.origin: .* is what init wrote; write/,
    );
  });

  test("that lacks a field because it is misspelt is told what was meant", () => {
    const misspelt = { schema: "floodgate/target@1", base_ulr: "https://maps.example/v1" };
    expect(() => checkTarget(misspelt, "t.json")).toThrow(/base_url: expected .*base_ulr: .*did you mean base_url\?/s);
  });

  test("that is not there, or no JSON, is told without quoting it", async () => {
    await expect(readTargetFile(join(folder, "none.json"))).rejects.toThrow(
      /expected a readable file.*there is no such file\. npx floodgate init/s,
    );
    await expect(readTargetFile("https://maps.example")).rejects.toThrow(
      /init --target https:\/\/maps.example writes one/,
    );
    const path = join(folder, "broken.json");
    await writeFile(path, '{"schema": "floodgate/target@1", "key": "svc_sk_live_abcdefghijklmnop" "x"}');
    await expect(readTargetFile(path)).rejects.toThrow(/it is not JSON: it breaks off at line 1, column \d+/);
    await expect(readTargetFile(path)).rejects.not.toThrow(/abcdefghij/);
  });
});

type Node = { properties?: Record<string, Node>; items?: Node; patternProperties?: Record<string, Node> };

/** The path to each field of the schema; `[]` stands for a place in a list. */
const fieldsOf = ({ properties, items, patternProperties }: Node): string[][] => {
  const named: Record<string, Node> = { ...properties, ...(items && { "[]": items }) };
  for (const inner of Object.values(patternProperties ?? {})) named["any.name"] = inner;
  return Object.entries(named).flatMap(([name, inner]) => [[name], ...fieldsOf(inner).map((path) => [name, ...path])]);
};

test("k6 by itself refuses the same fields as the runner", () => {
  const fileWith = (path: string[]): unknown =>
    path.reduceRight<unknown>((inner, name) => (name === "[]" ? [inner] : { [name]: inner }), {});
  const fields = fieldsOf(TARGET_SCHEMA as Node);
  expect(fields.length).toBeGreaterThan(100);
  for (const path of fields) {
    expect(unknownField(fileWith(path)), path.join(".")).toBeNull();
    if (path.at(-1) === "[]") continue;
    const misspelt = fileWith([...path.slice(0, -1), "zzz"]);
    const isRefused = problemsOf(misspelt).some((problem) => problem.includes("no such field"));
    expect(unknownField(misspelt) !== null, path.join(".")).toBe(isRefused);
  }
});
