import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { k6OrSkip } from "./run-k6.fixture.ts";
import { callsOf, doubtsOf, inWords, readAccount, runK6Script, type ScriptAccount } from "./user-script.ts";

const scenario = (more: Partial<ScriptAccount["scenarios"][number]> = {}): ScriptAccount["scenarios"][number] => ({
  name: "default",
  executor: "constant-vus",
  graceful_stop: true,
  ended: 100,
  threw: 0,
  cut: 0,
  dropped: 0,
  ...more,
});
const threshold = (more: Partial<ScriptAccount["thresholds"][number]>): ScriptAccount["thresholds"][number] => ({
  metric: "http_req_duration",
  source: "p(95)<500",
  samples: 100,
  keys: true,
  failed: false,
  ...more,
});
const account = (more: Partial<ScriptAccount> = {}): ScriptAccount => ({
  scenarios: [scenario()],
  calls: { by_status: { "200": 100 }, failed: 0, streams: 0, events: 0 },
  checks: { made: 0, failed: 0 },
  thresholds: [threshold({})],
  troubles: [],
  ...more,
});
const saidOf = (more: Partial<ScriptAccount>): string[] => doubtsOf(account(more)).map(({ reason }) => reason);
const calls = (more: Partial<ScriptAccount["calls"]>): Partial<ScriptAccount> => ({
  calls: { by_status: { "200": 100 }, failed: 0, streams: 0, events: 0, ...more },
});

describe("a script whose every iteration ended and whose thresholds have samples", () => {
  test.each<[string, Partial<ScriptAccount>]>([
    ["is believed", {}],
    ["is believed without a threshold, which is said", { thresholds: [] }],
    ["may have calls that failed, where it has thresholds", calls({ failed: 40 })],
    [
      "may bound the calls without an answer by itself",
      {
        ...calls({ by_status: { "200": 90, "0": 10 }, failed: 10 }),
        thresholds: [threshold({ metric: "http_req_failed", source: "rate<0.2" })],
      },
    ],
    [
      "may count what must not happen, and never did",
      {
        thresholds: [
          threshold({ metric: "dropped_iterations", source: "count<1", samples: 0, keys: false }),
          threshold({ metric: "http_reqs{status:500}", source: "count==0", samples: 0, keys: true }),
          threshold({ metric: "http_reqs", source: "count>10" }),
        ],
      },
    ],
    [
      "may list submetrics that never came, to see them",
      { thresholds: [threshold({ metric: "http_req_duration{status:500}", source: "max>=0", samples: 0 })] },
    ],
    ["may cut iterations off by its gracefulStop of 0s", { scenarios: [scenario({ cut: 5, graceful_stop: false })] }],
  ])("%s", (_, more) => {
    expect(saidOf(more)).toEqual([]);
  });

  test("says in words what took place", () => {
    expect(inWords(account())).toBe("100 iterations ended, with 100 calls; 1 threshold held");
    expect(inWords(account(calls({ failed: 40 })))).toContain("100 calls, 40 of them failed;");
    expect(inWords(account({ thresholds: [] }))).toContain("the script states no threshold");
  });
});

describe("a script is in doubt", () => {
  test.each<[string, Partial<ScriptAccount>, RegExp]>([
    [
      "that dropped iterations for want of VUs",
      { scenarios: [scenario({ executor: "constant-arrival-rate", ended: 2, dropped: 99 })] },
      /99 of 101 iterations of the scenario "default" were dropped: raise preAllocatedVUs and maxVUs/,
    ],
    [
      "that had no time for all iterations",
      { scenarios: [scenario({ executor: "shared-iterations", dropped: 1 })] },
      /1 of 101 iterations .* raise maxDuration/,
    ],
    [
      "of which one of several scenarios drops",
      { scenarios: [scenario(), scenario({ name: "edge", executor: "ramping-arrival-rate", dropped: 3 })] },
      /"edge" were dropped/,
    ],
    [
      "that threw in each iteration",
      { scenarios: [scenario({ threw: 100, exception: "Error: no\n\tat file" })] },
      /100 of 100 iterations of the scenario "default" threw: Error: no$/,
    ],
    ["that threw in half of them", { scenarios: [scenario({ threw: 50, exception: "Error: no" })] }, /50 of 100/],
    [
      "with a scenario that never began",
      { scenarios: [scenario(), scenario({ name: "late", ended: 0 })] },
      /no iteration of the scenario "late" took place/,
    ],
    [
      "of which no iteration ended",
      { scenarios: [scenario({ ended: 0, cut: 3 })] },
      /no iteration .* ended, 3 iterations were cut off/,
    ],
    [
      "of which iterations outlasted their gracefulStop",
      { scenarios: [scenario({ cut: 2 })] },
      /2 of 102 iterations .* were cut off/,
    ],
    ["that made no call", { ...calls({ by_status: {} }) }, /made no call/],
    [
      "that nobody answered",
      { ...calls({ by_status: { "0": 40 }, failed: 40 }) },
      /the API answered none of 40 calls \(40 x no answer\)/,
    ],
    [
      "of which each call failed",
      { ...calls({ by_status: { "500": 40 }, failed: 40 }) },
      /each of 40 calls failed.*setResponseCallback/,
    ],
    [
      "of which a gateway answered most calls, though the latency of what came is bounded",
      { ...calls({ by_status: { "200": 22, "502": 78 }, failed: 78 }) },
      /the API did not answer 78 of 100 calls \(78 x 502\)/,
    ],
    [
      "that a gateway alone answered",
      { ...calls({ by_status: { "502": 40, "504": 1 }, failed: 41 }) },
      /the API answered none of 41 calls \(40 x 502, 1 x 504\)/,
    ],
    [
      "of which many calls were not answered, unbounded by it",
      { ...calls({ by_status: { "200": 90, "0": 10 }, failed: 10 }) },
      /the API did not answer 10 of 100 calls \(10 x no answer\), and no threshold/,
    ],
    [
      "without a threshold, in which calls failed",
      { ...calls({ by_status: { "200": 99, "500": 1 }, failed: 1 }), thresholds: [] },
      /1 of 100 calls failed, and the script has no threshold/,
    ],
    [
      "without a threshold, in which checks failed",
      { thresholds: [], checks: { made: 10, failed: 1 } },
      /1 of 10 checks failed/,
    ],
    ["of which each check failed", { checks: { made: 10, failed: 10 } }, /each of 10 checks failed/],
    ["with streams that had no event", { ...calls({ streams: 7 }) }, /none of 7 streams had an event/],
    [
      "with a threshold on a tag that never came",
      { thresholds: [threshold({ metric: "http_req_duration{name:never}", samples: 0 })] },
      /1 threshold had none \(http_req_duration\{name:never\}: p\(95\)<500\)/,
    ],
    [
      "with a threshold on checks that were never made",
      { thresholds: [threshold({ metric: "checks", source: "rate>0.9", samples: 0 })] },
      /checks: rate>0\.9/,
    ],
    [
      "with a bound on a count of a misspelt tag",
      {
        thresholds: [
          threshold({ metric: "http_reqs{stauts:500}", source: "count<1", samples: 0, keys: false }),
          threshold({ metric: "http_reqs", source: "count>1" }),
        ],
      },
      /stauts/,
    ],
    [
      "with a threshold that k6 could not evaluate",
      { troubles: ["Threshold error: x"] },
      /k6 logged an error: Threshold error/,
    ],
  ])("%s", (_, more, says) => {
    expect(saidOf(more)).toEqual([expect.stringMatching(says)]);
    expect(doubtsOf(account(more)).every(({ verdict }) => verdict === "inconclusive")).toBe(true);
  });

  test("but not for what a test that was ended early cut off", () => {
    expect(doubtsOf(account({ scenarios: [scenario({ cut: 2 })] }), { isWhole: false })).toEqual([]);
  });

  test("only beyond the share that the target file tolerates", () => {
    const some = account(calls({ by_status: { "200": 90, "0": 10 }, failed: 10 }));
    expect(doubtsOf(some, { unansweredShare: 0.2 })).toEqual([]);
    expect(doubtsOf(some, { unansweredShare: 0.05 })).toHaveLength(1);
  });
});

test("what is no account is none, and secrets in exceptions are masked", () => {
  expect(readAccount("{}")).toBeNull();
  expect(readAccount("no json")).toBeNull();
  const secret = `svc_sk_live_${"a".repeat(32)}`;
  const text = JSON.stringify(account({ scenarios: [scenario({ threw: 1, exception: `Error: ${secret}` })] }));
  expect(JSON.stringify(readAccount(text))).not.toContain(secret);
});

const binary = k6OrSkip();

describe.skipIf(binary === null).concurrent("k6's account of a real script", () => {
  let server: Server;
  let folder = "";
  let base = "";
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "floodgate-account-"));
    server = createServer((req, res) => {
      res.statusCode = req.url === "/502" ? 502 : 200;
      res.end("ok");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true });
  });

  let scripts = 0;
  const played = async (options: string, body: string, args: string[] = []) => {
    scripts += 1;
    const script = join(folder, `${scripts}.ts`);
    const file = join(folder, `${scripts}.json`);
    await writeFile(
      script,
      `import http from "k6/http"; import { check, sleep } from "k6"; import { Trend } from "k6/metrics";
      const mine = new Trend("mine");
      const get = (path = "/") => http.get("${base}" + path);
      export const options = ${options};
      ${body}`,
    );
    const exit = await runK6Script({
      binary: binary as string,
      script,
      account: file,
      args: ["--quiet", "--log-output=none", ...args],
    });
    const found = readAccount(await readFile(file, "utf8"));
    if (found === null) throw new Error("k6 left no account");
    return {
      exit,
      account: found,
      said: doubtsOf(found)
        .map(({ reason }) => reason)
        .join("; "),
    };
  };
  const byRate = `{ executor: "constant-arrival-rate", rate: 50, timeUnit: "1s", duration: "1s", preAllocatedVUs: 1, maxVUs: 1 }`;

  test("that is sound leaves no doubt, with outputs of the user's own beside ours", async () => {
    const own = join(folder, "own.json");
    const {
      exit,
      account: seen,
      said,
    } = await played(
      `{ iterations: 5, thresholds: { http_req_duration: ["p(95)<5000"], "http_req_duration{expected_response:true}": ["max>=0"], http_req_failed: ["rate<0.1"], checks: ["rate==1"], dropped_iterations: ["count<1"] } }`,
      `export const setup = () => void get(); export default () => void check(get(), { ok: (r) => r.status === 200 });`,
      ["--out", `json=${own}`],
    );
    expect([exit, said]).toEqual([[], ""]);
    expect(callsOf(seen)).toEqual({ made: 6, unanswered: 0, named: "" });
    expect(seen.scenarios).toEqual([
      expect.objectContaining({ name: "default", ended: 5, threw: 0, cut: 0, dropped: 0 }),
    ]);
    expect(await readFile(own, "utf8")).toContain("http_reqs");
  });

  test("counts what an arrival rate dropped for want of VUs, by scenario", async () => {
    const { exit, said } = await played(
      `{ scenarios: { slow: ${byRate.replace("{", '{ exec: "slow",')}, quick: { executor: "shared-iterations", iterations: 3 } }, thresholds: { http_req_duration: ["p(95)<5000"] } }`,
      `export const slow = () => { get(); sleep(1); }; export default () => void get();`,
    );
    expect(exit).toEqual([]);
    expect(said).toMatch(
      /^\d+ of \d+ iterations of the scenario "slow" were dropped: raise preAllocatedVUs and maxVUs/,
    );
  });

  test("counts iterations that threw, and keeps what they said", async () => {
    const { exit, said } = await played(
      `{ iterations: 4, thresholds: { http_req_duration: ["p(95)<5000"] } }`,
      `export default () => { get(); if (__ITER % 2 === 0) throw new Error("no token"); };`,
    );
    expect(exit).toEqual([]);
    expect(said).toBe('2 of 4 iterations of the scenario "default" threw: Error: no token');
  });

  test("sees thresholds on metrics and tags without a sample, checks that were never made and calls that all failed", async () => {
    const { exit, said } = await played(
      `{ iterations: 2, thresholds: { mine: ["p(95)<5"], "http_req_duration{name:never}": ["p(95)<5"], checks: ["rate>0.9"] } }`,
      `export default () => void get("/502");`,
    );
    expect(exit).toEqual([]);
    expect(said).toContain("the API answered none of 2 calls (2 x 502)");
    expect(said).toContain(
      "3 thresholds had none (checks: rate>0.9, http_req_duration{name:never}: p(95)<5, mine: p(95)<5)",
    );
  });

  test("sees a scenario that an end came before, and iterations that were cut off", async () => {
    const { said } = await played(
      `{ scenarios: { hangs: { executor: "constant-vus", vus: 2, duration: "1s", gracefulStop: "100ms", exec: "hangs" },
                      late: { executor: "constant-arrival-rate", rate: 1, timeUnit: "1m", duration: "1s", startTime: "500ms", preAllocatedVUs: 1, gracefulStop: "0s" } } }`,
      `export const hangs = () => { get(); sleep(30); }; export default () => { sleep(5); };`,
    );
    expect(said).toContain('no iteration of the scenario "hangs" ended, 2 iterations were cut off');
    expect(said).toContain('no iteration of the scenario "late"');
  });

  test("sees that no call was made", async () => {
    const { exit, said } = await played(`{ iterations: 3 }`, `export default () => {};`);
    expect([exit, said]).toEqual([[], "the script made no call"]);
  });
});
