/** `load --driver autocannon`, as a recorded run on a target file. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../client/stub-api.fixture.ts";
import { closedLoopRefusal } from "../drivers/autocannon/autocannon.ts";
import { playQuietly } from "../run/play-quietly.fixture.ts";
import { judgeAgain } from "../run/read-run.ts";
import { scenarioStage } from "../run/suites/suites.ts";
import type { Target } from "../target/target.ts";

let folder: string;
let stub: StubApi;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-closed-loop-"));
  stub = await startStubApi();
});
afterEach(async () => {
  await stub.close();
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
});

const play = async (scenario: string, more: Partial<Target>) => {
  const stage = scenarioStage(scenario, { driver: "autocannon", durationS: 1 });
  return playQuietly({ profile: "load", folder, target: stub.target(more), stages: () => [stage!] });
};

describe("a stage under autocannon", () => {
  test("has its calls in the report, and skips what compares times", async () => {
    stub.instead = (_, res) => {
      if (stub.asked.length !== 3) return false;
      res.writeHead(429).end('{"detail":"rate_limited"}');
      return true;
    };
    const document = await play("catalog-reads", { slo: { catalog: "p99<=1s" } });
    const [stage] = document.stages;
    expect(stage).toMatchObject({ name: "catalog-reads", driver: "autocannon", protocols: ["h1"] });
    expect(stage?.calls).toEqual({
      sent: stub.asked.length,
      answered: stub.asked.length - 1,
      refused: 1,
      indeterminate: 0,
    });
    expect(document.spent?.requests).toBe(stub.asked.length);
    expect(document.calibration).toEqual([]);
    const names = document.measurements.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["achieved_rate", "closed_loop_latency_ms_p99"]));
    expect(names.filter((name) => name.startsWith("latency_ms"))).toEqual([]);
    const claim = (id: string) => document.claims.find((one) => one.id === id);
    expect(claim("slo/catalog/catalog-reads")).toMatchObject({
      verdict: "skipped",
      reason: expect.stringContaining("a closed loop has not"),
    });
    expect(claim("first-failing-check-decides/catalog-reads")).toMatchObject({ verdict: "pass" });
    expect(claim("answered/catalog-reads")).toMatchObject({ verdict: "pass" });
    expect(document.exit_code).toBe(0);
    expect(document.coverage.outcomes_seen).toBe(1);
    const again = judgeAgain(join(folder, "run"));
    expect(again.changed).toEqual([]);
    expect(again.document.coverage).toEqual(document.coverage);
  });

  test("fails where a gateway answered in the API's place, by totals", async () => {
    stub.instead = (_, res) => {
      if (stub.asked.length % 4 === 0) return false;
      res.writeHead(502, { "content-type": "text/html" }).end("<html>Bad Gateway</html>");
      return true;
    };
    const document = await play("catalog-reads", {});
    expect(document.claims.find(({ id }) => id === "answered/catalog-reads")).toMatchObject({
      level: "must",
      verdict: "fail",
      got: expect.stringMatching(/^\d+ x edge 502$/),
    });
    expect(document.exit_code).toBe(1);
  });

  test("keeps to the budget of the target file", async () => {
    const document = await play("catalog-reads", { budget: { requests: 25 } });
    expect(stub.asked).toHaveLength(25);
    expect(document.spent?.requests).toBe(25);
    expect(document.exit_code).toBe(4);
  });

  test("a story that is more than plain requests is refused, naming who can play it", () => {
    const stage = scenarioStage("retry-storm", { driver: "autocannon" })!;
    expect(closedLoopRefusal(stage, stub.target())).toMatch(/event streams .*--driver open-loop or --driver k6/);
    expect(closedLoopRefusal({ ...stage, driver: "k6" }, stub.target())).toBeNull();
  });
});
