/** A user's own script, as `load --script` runs and judges it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../client/stub-api.fixture.ts";
import { k6OrSkip } from "../drivers/k6/run-k6.fixture.ts";
import { runScript } from "./bodies.ts";
import { QUIET } from "./play-quietly.fixture.ts";

const binary = k6OrSkip();

const judged = async (script: string, instead?: StubApi["instead"]) => {
  const folder = await mkdtemp(join(tmpdir(), "floodgate-own-script-"));
  const stub = await startStubApi();
  if (instead !== undefined) stub.instead = instead;
  try {
    await writeFile(join(folder, "target.json"), JSON.stringify(stub.target({})));
    await writeFile(join(folder, "own.ts"), `import http from "k6/http"; import { sleep } from "k6";\n${script}`);
    const { document } = await runScript({
      profile: "load",
      seed: 3,
      reports: folder,
      out: join(folder, "run"),
      replay: "-",
      owned: [],
      targetFile: join(folder, "target.json"),
      script: join(folder, "own.ts"),
      args: ["--quiet", "--log-output=none"],
      events: QUIET,
    });
    const claim = document.claims.find(({ id }) => id === "thresholds/script");
    return { claim, stage: document.stages[0], exit: document.exit_code, asked: stub.asked.length };
  } finally {
    await stub.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
};

const GET = "http.get(__ENV.FLOODGATE_BASE_URL)";

describe.skipIf(binary === null).concurrent("a script of the user's own", () => {
  test("passes where all that it asks for took place, and says how much that was", async () => {
    const { claim, stage, exit } = await judged(
      `http.setResponseCallback(http.expectedStatuses({ min: 200, max: 499 }));
      export const options = { iterations: 4, thresholds: { http_req_duration: ["p(95)<5000"] } };
      export default () => void ${GET};`,
    );
    expect(claim).toMatchObject({ verdict: "pass", reason: "4 iterations ended, with 4 calls; 1 threshold held" });
    expect(stage?.calls.sent).toBe(4);
    expect(exit).toBe(0);
  });

  test("is judged by itself where a server answers 200 to whatever is asked, and nothing else is asked", async () => {
    const { claim, exit, asked } = await judged(
      `export const options = { iterations: 4 };
      export default () => void ${GET};`,
      (_, res) => {
        res.writeHead(200, { "content-type": "application/json" }).end("{}");
        return true;
      },
    );
    expect([claim?.verdict, exit, asked]).toEqual(["pass", 0, 4]);
  });

  test("is inconclusive where iterations were dropped, though k6 ends with code 0", async () => {
    const { claim, exit } = await judged(
      `export const options = { thresholds: { http_req_duration: ["p(95)<5000"] }, scenarios: { s:
        { executor: "constant-arrival-rate", rate: 50, timeUnit: "1s", duration: "1s", preAllocatedVUs: 1, maxVUs: 1 } } };
      export default () => { ${GET}; sleep(1); };`,
    );
    expect(claim?.verdict).toBe("inconclusive");
    expect(claim?.reason).toMatch(/^\d+ of \d+ iterations of the scenario "s" were dropped: raise preAllocatedVUs/);
    expect(exit).toBe(4);
  });

  test("is inconclusive where each iteration threw", async () => {
    const { claim, exit } = await judged(`export default () => { ${GET}; throw new Error("always"); };`);
    expect(claim?.verdict).toBe("inconclusive");
    expect(claim?.reason).toContain('1 of 1 iteration of the scenario "default" threw: Error: always');
    expect(exit).toBe(4);
  });

  test("fails for a threshold that was crossed, which is named", async () => {
    const { claim, exit } = await judged(
      `export const options = { iterations: 2, thresholds: { http_reqs: ["count>5"], http_req_duration: ["p(95)<5000"] } };
      export default () => void ${GET};`,
    );
    expect(claim).toMatchObject({ verdict: "fail", reason: expect.stringContaining("(crossed: http_reqs: count>5)") });
    expect(exit).toBe(1);
  });

  test("counts a redirect that is not followed as a refusal, as everywhere", async () => {
    const server = createServer((_, res) => res.writeHead(302, { location: "/elsewhere" }).end());
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { stage } = await judged(
      `export const options = { iterations: 2 };
      export default () => void http.get("${url}", { redirects: 0 });`,
    ).finally(() => server.close());
    expect(stage).toMatchObject({
      calls: { sent: 2, answered: 0, refused: 2, indeterminate: 0 },
      by_outcome: { "302": 2 },
    });
  });
});
