import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type SecondApi, startSecondApi } from "../../properties/second-api/start-second-api.ts";
import { findSecrets } from "../contract/credentials.ts";
import type { CallLine } from "../history/line.ts";
import { mostAtOnce } from "../history/statistics/statistics.ts";
import { mergeClaims } from "../report/verdict.ts";
import { UserFileError } from "../supervision/user-file.ts";
import { createSecrets } from "../target/secrets.ts";
import { guardBudget } from "../workload/budget.ts";
import { RULES, selectRules, UnknownRuleError } from "./catalogue.ts";
import { readCrash } from "./crash.ts";
import { TargetUnreachableError } from "./reach.ts";
import { replayCrash, runVerify, type VerifyOptions, type VerifyResult } from "./run-verify.ts";

let api: SecondApi;
beforeAll(async () => {
  api = await startSecondApi();
});
afterAll(() => api.close());

const secrets = createSecrets(".");
const verify = async (more: Partial<VerifyOptions> = {}): Promise<VerifyResult & { lines: CallLine[] }> => {
  const lines: CallLine[] = [];
  const onLine = (line: CallLine): void => void lines.push(line);
  // No month begins within a day, whenever the tests run.
  const wallMs = (): number => Date.UTC(2026, 5, 15);
  const usual = { target: api.target, secrets, seed: 5, ratePerS: 400, wallMs, onLine };
  return { ...(await runVerify({ ...usual, ...more })), lines };
};

test("an option that is undefined takes its default", async () => {
  const unstated = {
    stage: undefined,
    onLine: undefined,
    patienceMs: undefined,
    wallMs: undefined,
    leewayMs: undefined,
  };
  const { claims } = await verify({ only: ["missing-credential"], ...unstated });
  expect(claims.map(({ id, stage, verdict }) => [id, stage, verdict])).toEqual([
    ["verify/missing-credential", "verify", "pass"],
  ]);
});

describe("the catalogue", () => {
  test("has ids that are unique and kebab-case, a sentence and item numbers for each rule", () => {
    const ids = RULES.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { id, spec, title } of RULES) {
      expect(id).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/);
      expect(spec.length).toBeGreaterThan(0);
      expect(spec.every((item) => item >= 1 && item <= 234)).toBe(true);
      expect(title.length).toBeGreaterThan(15);
    }
  });

  test("lets a rule be found by its id: one file under rules/ has it as a text", () => {
    const folder = join(import.meta.dirname, "rules");
    const texts = readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => readFileSync(join(folder, name), "utf8"));
    const homes = (id: string): number => texts.filter((text) => text.includes(`"${id}"`)).length;
    expect(RULES.map(({ id }) => id).filter((id) => homes(id) !== 1)).toEqual([]);
  });

  test("is chosen from by rule, by claim id and by phase", () => {
    expect(selectRules(["verify/hard-stop", "order"], ["mixed-calls"]).rules.map(({ id }) => id)).toContain(
      "hard-stop",
    );
    expect(selectRules([], ["load"]).rules.some(({ phase }) => phase === "load")).toBe(false);
    expect(selectRules(["no-such"], []).unknown).toEqual(["no-such"]);
  });
});

describe("a run of verify", () => {
  test("sends no more calls at the same moment than permits.load_max_rps allows", async () => {
    const target = { ...api.target, permits: { ...api.target.permits, load_max_rps: 4 } };
    const { claims, lines } = await verify({ target, only: ["simultaneous-calls-keep-apart"] });
    expect(claims[0]?.verdict).toBe("pass");
    expect(mostAtOnce(lines.map(({ sent_us, done_us }) => [sent_us, done_us]))).toBeLessThanOrEqual(4);
  });

  test("skips by the name of the role, the option or the budget that is missing", async () => {
    const { publishable_no_ai: _, ...credentials } = api.target.credentials ?? {};
    const target = { ...api.target, credentials, budget: { map_loads: 0 }, permits: { writes: false } };
    const only = ["exchange-insufficient-scope", "tile-foreign-origin", "keys-plan-required", "allowance-is-exact"];
    const { claims } = await verify({ target, only, allowWrites: true });
    const reasons = Object.fromEntries(claims.map(({ id, verdict, reason }) => [id.slice(7), `${verdict} ${reason}`]));
    expect(reasons["exchange-insufficient-scope"]).toMatch(/^skipped .*the role publishable_no_ai/);
    expect(reasons["tile-foreign-origin"]).toMatch(/^skipped .*budget.map_loads/);
    expect(reasons["keys-plan-required"]).toMatch(/^skipped .*permits.writes of the target file/);
    expect(reasons["allowance-is-exact"]).toMatch(/^skipped .*--allow-quota-burn/);
  });

  test("never sends more than the budget allows", async () => {
    const target = { ...api.target, budget: { requests: 25 } };
    const { lines, claims, spent } = await verify({ target, only: ["lattice"] });
    expect(lines.length).toBeLessThanOrEqual(25);
    expect(spent.requests).toBe(25);
    const open = claims.filter(({ verdict }) => verdict === "inconclusive");
    expect(open.length).toBeGreaterThan(20);
    expect(open.map(({ reason }) => reason)).toContain("budget.requests of the target file (25) is spent");
    // What is missing from the start is still named, and nothing that was not tried passes or fails.
    expect(claims.filter(({ verdict }) => verdict === "fail")).toEqual([]);
    expect(claims.filter(({ verdict }) => verdict === "pass").length).toBeLessThan(15);
    expect(mergeClaims(claims, [])).toMatchObject({ verdict: "inconclusive" });
  });

  test("is open where a stated budget ran out, also where only a should was left untried", async () => {
    const target = { ...api.target, budget: { map_loads: 1 } };
    const only = ["exchange-mints", "exchange-restricted-key-mints-tile", "answers-are-json"];
    const { claims } = await verify({ target, only });
    const said = Object.fromEntries(claims.map(({ id, verdict, reason }) => [id, `${verdict} ${reason}`]));
    expect(said["verify/exchange-mints"]).toMatch(/^pass/);
    expect(said["verify/exchange-restricted-key-mints-tile"]).toBe(
      "inconclusive budget.map_loads of the target file (1) is spent",
    );
    expect(said["verify/budget"]).toMatch(/^inconclusive budget.map_loads .* \(1\) is spent, so 1 rule/);
    const { requests } = (await verify({ only: ["either-header-at-the-exchange"] })).spent;
    const short = await verify({
      target: { ...api.target, budget: { requests } },
      only: ["either-header-at-the-exchange", "gap-unknown-path"],
    });
    expect(short.claims.map(({ verdict }) => verdict)).toEqual(["inconclusive", "pass", "inconclusive"]);
    expect(mergeClaims(short.claims, []).verdict).toBe("inconclusive");
  });

  test.each(["rate-limit-is-reported", "overload-is-reported"])(
    "leaves %s open when its burst spends the budget",
    async (id) => {
      const own = await startSecondApi({ variants: ["no-rate-limit"] });
      try {
        const target = { ...own.target, budget: { requests: 20 } };
        const { claims, spent } = await verify({ target, only: [id], allowLoad: true });
        expect(spent.requests).toBe(20);
        expect(claims.map(({ verdict }) => verdict)).toEqual(["inconclusive", "inconclusive"]);
      } finally {
        await own.close();
      }
    },
  );

  test("keeps to the runBudget of a whole run, and is not ended by calls that must be refused", async () => {
    const budget = { map_loads: 0, requests: 200 };
    const runBudget = guardBudget(budget);
    const only = ["exchange-order-origin-before-quota", "quota-exceeded", "exchange-mints"];
    const { claims } = await verify({ target: { ...api.target, budget }, only, runBudget });
    expect(claims.map(({ verdict }) => verdict)).toEqual(["pass", "pass", "pass"]);
    expect(runBudget.stopped).toBeNull();
    const one = guardBudget({ map_loads: 1 });
    const spent = await verify({
      target: { ...api.target, budget: { map_loads: 5 } },
      only: ["exchange-mints"],
      runBudget: one,
    });
    expect(spent.claims.map(({ verdict }) => verdict)).toEqual(["pass"]);
    expect(one.left().map_loads).toBe(0);
    const more = await verify({
      target: { ...api.target, budget: { map_loads: 5 } },
      only: ["exchange-restricted-key-mints-tile"],
      runBudget: one,
    });
    expect(more.claims.map(({ reason }) => reason).join()).toMatch(
      /budget.map_loads of the target file \(5\) is spent/,
    );
  });

  test("judges what one analysis shows within a budget of one, and names the routes that a budget of none leaves out", async () => {
    const only = ["analysis-needs-a-dataset", "runtime-admits", "answers-are-json", "analysis-prompt-is-optional"];
    const one = await verify({ target: { ...api.target, budget: { analyses: 1 } }, only });
    expect(one.claims.map(({ verdict }) => verdict)).toEqual(["pass", "pass", "pass", "pass"]);
    expect(one.spent.analyses).toBe(1);
    const none = await verify({ target: { ...api.target, budget: { analyses: 0 } }, only });
    expect(none.claims.map(({ verdict }) => verdict)).toEqual(["skipped", "pass", "pass", "skipped"]);
    expect(none.claims[1]?.reason).toMatch(/design.analyze: not tried, budget.analyses of the target file \(0\)/);
    expect(none.spent.analyses).toBe(0);
  });

  test.each([
    ["restart", "forged-session"],
    ["loseTheKeys", "deleted-key-is-dead"],
  ] as const)("survives a deployment that is away for seconds: %s in the midst of %s", async (disturb, during) => {
    const away = await startSecondApi();
    let gone: unknown = null;
    const again: string[] = [];
    try {
      const { claims, leftOver } = await verify({
        target: away.target,
        only: ["lattice", "management"],
        allowWrites: true,
        // Others' overload is not waited for here: what it leaves open is tried again.
        patienceMs: 0,
        onProgress: (progress) => {
          if (progress.at === "again") again.push(progress.claim.verdict);
          if (progress.at !== "rule" || progress.rule.id !== during || gone !== null) return;
          gone = away[disturb](2_500);
        },
      });
      await gone;
      expect(
        claims.filter(({ verdict }) => /fail|inconclusive/.test(verdict)).map(({ id, got }) => `${id} ${got}`),
      ).toEqual([]);
      if (disturb === "loseTheKeys") expect(again).toContain("pass");
      expect(leftOver).toEqual([]);
    } finally {
      await gone;
      await away.close();
    }
  });

  test("writes a line for every call, with the facts that judges read, and no secret in lines, claims or crash files", async () => {
    const broken = await startSecondApi({ defects: ["any-origin", "detail-on-401", "any-signature"] });
    try {
      const { lines, claims, crashes, spent } = await verify({
        target: broken.target,
        only: ["lattice", "every-answer"],
      });
      expect(lines).toHaveLength(spent.requests);
      expect(new Set(lines.map(({ id }) => id)).size).toBe(lines.length);
      expect(lines.filter(({ facts }) => facts !== undefined).length).toBeGreaterThan(lines.length * 0.8);
      expect(crashes.length).toBeGreaterThan(2);
      expect(findSecrets(JSON.stringify([lines, claims, crashes]))).toEqual([]);
      const crash = crashes.find(({ rule }) => rule === "exchange-origin-mismatch");
      expect(crash?.curl).toMatch(/^curl -sS -i -X POST '.*\/sdk\/sessions' .*\$KEY_PUBLISHABLE/);
      expect(crash?.variables.$KEY_PUBLISHABLE).toBe("credentials.publishable of the target file");
    } finally {
      await broken.close();
    }
  });

  test("judges rules about every answer alone by making calls for them", async () => {
    const { claims } = await verify({ only: ["envelope-fits-subcode"] });
    expect(claims.map(({ id, verdict }) => [id, verdict])).toEqual([["verify/envelope-fits-subcode", "pass"]]);
  });

  test("takes back the keys it made when it is stopped in the middle, and journals them first", async () => {
    const stop = new AbortController();
    const journal: string[] = [];
    const live = api.liveKeys();
    const result = await verify({
      only: ["key-is-created", "key-is-narrowed-and-widened"],
      allowWrites: true,
      signal: stop.signal,
      journal: {
        about: ({ kind, name }) => {
          journal.push(`about ${kind} ${name} with ${api.liveKeys() - live} keys made`);
          return String(journal.length);
        },
        done: (_id, { detail } = {}) => {
          journal.push(`done ${detail?.replace(/\S+$/, "…")}`);
          // The key is there now; whatever comes next is not sent any more.
          stop.abort(new Error("stopped by hand"));
        },
        undone: (_id, detail) => journal.push(`undone ${detail}`),
      },
    });
    expect(journal).toEqual([
      "about key key floodgate-verify of admin_pro with 0 keys made",
      "done id …",
      "undone taken back",
    ]);
    expect(api.liveKeys()).toBe(live);
    expect(result.stopped).toBe(true);
    expect(result.leftOver).toEqual([]);
    expect(result.claims.map(({ verdict }) => verdict)).toEqual(["inconclusive", "inconclusive"]);
  });

  test("journals no key whose creation a stop holds back", async () => {
    const stop = new AbortController();
    const journal: string[] = [];
    const result = await verify({
      // Slow enough that the creation waits for its turn when the stop comes.
      only: ["key-is-created"],
      allowWrites: true,
      ratePerS: 1,
      signal: stop.signal,
      onProgress: ({ at }) => {
        if (at === "rule") setTimeout(() => stop.abort(new Error("stopped by hand")), 50);
      },
      journal: {
        about: ({ name }) => `${journal.push(`about ${name}`)}`,
        done: (id) => journal.push(`done ${id}`),
        undone: (id) => journal.push(`undone ${id}`),
      },
    });
    expect(journal).toEqual([]);
    expect(result.claims.map(({ verdict }) => verdict)).toEqual(["inconclusive"]);
    expect(result.leftOver).toEqual([]);
  });

  test("waits for no stream when it is stopped, and makes claims even if nothing was reached yet", async () => {
    const slow = await startSecondApi({ streamMs: 60_000 });
    try {
      for (const afterMs of [0, 400]) {
        const stop = new AbortController();
        setTimeout(() => stop.abort(new Error("stopped by hand")), afterMs);
        const result = await verify({ target: slow.target, only: ["stream-frames"], signal: stop.signal });
        expect(result.claims.map(({ verdict, reason }) => `${verdict}: ${reason}`)).toEqual([
          "inconclusive: the run was stopped",
        ]);
        expect(result.stopped).toBe(true);
      }
    } finally {
      await slow.close();
    }
  });

  test("sends ids that begin with the run's own, also where a rule has one in mind", async () => {
    const { lines } = await verify({
      only: ["allowance-is-exact"],
      allowQuotaBurn: true,
      idPrefix: "abc123.verify.c",
    });
    expect(new Set(lines.map(({ id }) => id)).size).toBe(lines.length);
    const own = api.requestIds();
    expect(own.filter((id) => id.startsWith("abc123.verify.c-twins"))).toHaveLength(2);
    expect(lines.every(({ id }) => id.startsWith("abc123.verify.c-"))).toBe(true);
  });

  test("waits once for a target that takes connections and never answers", async () => {
    let asked = 0;
    const silent = createServer(() => {
      asked += 1;
    });
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const base_url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/v1`;
    await expect(verify({ target: { ...api.target, base_url } })).rejects.toThrow(/sent no answer in time; is the/);
    expect(asked).toBe(1);
    silent.closeAllConnections();
    await new Promise((resolve) => silent.close(resolve));
  });

  test("says that a target is not there, and that a rule is not known", async () => {
    const target = { ...api.target, base_url: "http://127.0.0.1:9/v1" };
    await expect(verify({ target })).rejects.toThrow(TargetUnreachableError);
    await expect(verify({ only: ["no-such-rule"] })).rejects.toThrow(UnknownRuleError);
  });
});

describe("a target file that is wrong", () => {
  type Roles = NonNullable<VerifyOptions["target"]["credentials"]>;
  const withRoles = (change: (roles: Roles) => Roles): Partial<VerifyOptions> => ({
    target: { ...api.target, credentials: { ...api.target.credentials, ...change(api.target.credentials ?? {}) } },
  });
  const reasonOf = async (id: string, more: Partial<VerifyOptions>): Promise<string> => {
    const { claims } = await verify({ only: [id], ...more });
    return `${claims[0]?.verdict}: ${claims[0]?.reason}`;
  };

  test("is reported as such, before any call, when keys of two roles are exchanged", async () => {
    const before = api.requestIds().length;
    const swapped = withRoles(({ publishable, server }) => ({
      publishable: { ...publishable, key: server?.key ?? "" },
      server: { key: publishable?.key ?? "" },
    }));
    await expect(verify({ ...swapped, only: ["exchange-mints"] })).rejects.toThrow(
      /^credentials\.publishable: expected a publishable key .* but it is a server key \(svc_sk_/,
    );
    expect(api.requestIds().length).toBe(before);
    const same = withRoles(({ server }) => ({ server_no_design: server }));
    await expect(verify({ ...same, only: ["runtime-insufficient-scope", "runtime-admits"] })).rejects.toThrow(
      /^credentials\.server(?:_no_design)?: expected .* another key than that of credentials\.server.*, but it is the same$/,
    );
    expect(api.requestIds().length).toBe(before);
    const session = withRoles(() => ({ revoked: { key: "svc_sess_live_a.b.c" } }));
    await expect(verify({ ...session, only: ["revoked-key"] })).rejects.toThrow(/session token/);
  });

  test("is not meant by a key without a known prefix", async () => {
    const strange = withRoles(() => ({ server: { key: "map-key-0123456789" } }));
    expect(await reasonOf("runtime-admits", strange)).toMatch(
      /^inconclusive: .*every call \(401\): does the deployment know the key of the role server/,
    );
  });

  test.each([
    ["server", "svc_sk_live_nobodyknows", "runtime-admits"],
    ["publishable", "svc_pk_live_nobodyknows", "exchange-mints"],
  ] as const)(
    "leaves open what needs the key of the role %s where the deployment knows it not: the file may be wrong",
    async (name, key, rule) => {
      const unknown = withRoles((roles) => ({ [name]: { ...roles[name], key } }));
      const { claims, refused } = await verify(unknown);
      const failed = claims.filter(({ level, verdict }) => level === "must" && verdict === "fail");
      expect(failed).toEqual([]);
      const open = claims.filter(({ reason }) => reason.includes(`refuses the key of the role ${name}`));
      expect(open.length).toBeGreaterThan(3);
      expect(open.map(({ id }) => id)).toContain(`verify/${rule}`);
      expect(new Set(open.map(({ verdict }) => verdict))).toEqual(new Set(["inconclusive"]));
      expect([...refused]).toEqual([name]);
    },
  );

  type KeyOf = keyof Roles;
  test.each<[KeyOf, KeyOf, RegExp]>([
    ["server", "server_no_design", /call of design with .* role server is .* name such a key at credentials\.server$/],
    ["server", "server_downgraded", /call of ai and of design with .* role server is .*tier_capability_not_allowed/],
    ["publishable", "publishable_no_ai", /call of ai with .* role publishable is answered .*insufficient_scope/],
    ["publishable", "publishable_tile_only", /call of ai and of design with .* role publishable is/],
    ["publishable", "publishable_downgraded", /role publishable is answered .*tier_capability_not_allowed/],
    ["publishable_tile_only", "expired", /does the deployment know the key of the role publishable_tile_only/],
    ["publishable_other_org", "expired", /does the deployment know the key of the role publishable_other_org/],
  ])(
    "names for %s a key that is narrower than that role, here that of %s: it asks and fails nothing",
    async (of, by, asked) => {
      const { [by]: narrow, ...others } = api.target.credentials ?? {};
      const credentials = { ...others, [of]: narrow };
      const { claims, refused } = await verify({ target: { ...api.target, credentials } });
      const musts = claims.filter(({ level }) => level === "must");
      expect(musts.filter(({ verdict }) => verdict === "fail")).toEqual([]);
      const open = musts.filter(({ verdict }) => verdict === "inconclusive");
      expect(open.map(({ reason }) => reason).join("\n")).toMatch(asked);
      expect([...refused]).toEqual([of]);
    },
  );

  test("may have a token that has ended: it asks", async () => {
    const ended = withRoles(({ admin_pro }) => ({ admin_pro: { token: `${Object(admin_pro).token}x`, org: "mgmt" } }));
    expect(await reasonOf("keys-unknown-scope", { ...ended, allowWrites: true })).toMatch(
      /^inconclusive: .*has it ended/,
    );
  });

  test("hides no credential that stands in the refusals", async () => {
    const keys = { publishable: "svc_pk_live_nobodyknows", server: "svc_sk_live_nobodyknows" };
    const unknown = withRoles(({ publishable }) => ({
      publishable: { ...publishable, key: keys.publishable },
      server: { key: keys.server },
    }));
    const only = ["either-header", "credentials-are-not-echoed"];
    const verdicts = async (target: VerifyOptions["target"]) => {
      const { claims } = await verify({ target: { ...target, credentials: unknown.target?.credentials ?? {} }, only });
      return claims.map(({ verdict }) => verdict);
    };
    const echoing = await startSecondApi({ defects: ["echoes-the-credential"] });
    expect(await verdicts(echoing.target).finally(echoing.close)).toEqual(["inconclusive", "fail"]);
    expect(await verdicts(api.target)).toEqual(["inconclusive", "pass"]);
  });

  test("is asked about where the exchange refuses the key or its origin", async () => {
    const unknown = withRoles(({ publishable }) => ({
      publishable: { ...publishable, key: "svc_pk_live_nobodyknows" },
    }));
    expect(await reasonOf("exchange-mints", unknown)).toMatch(
      /^inconclusive: .*know the key of the role publishable\?/,
    );
    const elsewhere = withRoles(({ publishable }) => ({
      publishable: { key: publishable?.key ?? "", origin: "https://wrong.example" },
    }));
    // Also the rules that need a session, or judge a call after the origin, have that one cause.
    for (const rule of ["exchange-mints", "malformed-exchange-body", "answers-are-json"]) {
      expect(await reasonOf(rule, elsewhere)).toMatch(/^inconclusive: .*is https:\/\/wrong\.example, .*allowlist\?/);
    }
    expect(await reasonOf("allowance-is-per-organization", elsewhere)).toMatch(/^skipped: .*another reason/);
  });

  test.each(["OK", "", '{"status":"ok"}'])(
    "has a base_url where every call is served %j: it says so and judges nothing",
    async (body) => {
      const server = createServer((req, res) => req.resume().on("end", () => res.end(body)));
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      const target = { ...api.target, base_url: `http://127.0.0.1:${port}/v1` };
      await expect(verify({ target })).rejects.toThrow(
        /is not the API: it answers 200 to every call, also without a key/,
      );
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  );

  test("has a base_url at which nothing of the API is: it says so, and not where only nobody is answered 404", async () => {
    const target = { ...api.target, base_url: `${api.target.base_url}/nothing` };
    await expect(verify({ target })).rejects.toThrow(
      /nothing of the API is at .*version segment .*doctor --target FILE/,
    );
    const page = (status: number, headers: Record<string, string>) =>
      createServer((_req, res) => res.writeHead(status, headers).end("<html></html>"));
    for (const server of [page(200, { "content-type": "text/html" }), page(301, { location: "/login" })]) {
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      const elsewhere = { ...api.target, base_url: `http://127.0.0.1:${port}/v1` };
      await expect(verify({ target: elsewhere })).rejects.toThrow(/nothing of the API is at/);
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
    const shy = await startSecondApi({ variants: ["404-for-nobody"] });
    expect(await reasonOf("runtime-admits", { target: shy.target })).toMatch(/^pass/);
    await shy.close();
  });
});

describe("the replay of a crash file", () => {
  test("says failing while the defect is there, fixed when it is gone, unclear when it cannot be tried", async () => {
    const broken = await startSecondApi({ defects: ["any-origin"] });
    const folder = await mkdtemp(join(tmpdir(), "floodgate-crash-"));
    try {
      const { crashes } = await verify({ target: broken.target, only: ["exchange-origin-mismatch"] });
      const file = join(folder, "crash.json");
      await writeFile(file, JSON.stringify(crashes[0]));
      const crash = await readCrash(file);
      expect((await replayCrash(crash, broken.target, secrets)).verdict).toBe("failing");
      expect((await replayCrash(crash, api.target, secrets)).verdict).toBe("fixed");
      const { credentials: _, ...without } = api.target;
      expect((await replayCrash(crash, without, secrets)).verdict).toBe("unclear");
      for (const other of ["{}", "null", "[]"]) {
        await writeFile(file, other);
        await expect(readCrash(file)).rejects.toThrow(UserFileError);
      }
    } finally {
      await rm(folder, { recursive: true });
      await broken.close();
    }
  });
});
