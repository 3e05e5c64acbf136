/**
 * How many calls a second one process of the open-loop driver sends, folded, against plain k6 (`constant-arrival-rate`, one
 * GET, bodies discarded). Both are offered more than they can send, which is kind to k6: it is counted with what it sends
 * while it drops the rest.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { wallUs } from "../client/clock.ts";
import { routeOf } from "../contract/routes.ts";
import { driveOpenLoop } from "../drivers/open-loop/driver.ts";
import { targetAt } from "../run/calibration/calibrate-driver.ts";
import { REPOSITORY } from "../run/environment.ts";
import { createSecrets } from "../target/secrets.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { createLease } from "../workload/lease.ts";
import { constant } from "../workload/load-profiles.ts";
import type { Bench } from "./bench.ts";
import { startChild } from "./child-process.ts";
import { type Block, compare, inTurn } from "./comparison.ts";

/** More than either can send on two cores. */
const OFFERED_PER_S = 30_000;
const VUS = 400;
/** A process needs longer than a block of the closed loop to show what it holds. */
const LEAST_S = 3;
const K6 = join(REPOSITORY, ".tools", "k6");

const script = (url: string, durationS: number): string => `
import http from "k6/http";
export const options = { discardResponseBodies: true, scenarios: { plain: {
  executor: "constant-arrival-rate", rate: ${OFFERED_PER_S}, timeUnit: "1s", duration: "${durationS}s",
  preAllocatedVUs: ${VUS}, maxVUs: ${VUS} } } };
const params = { headers: { accept: "application/json", "x-api-key": "of-nobody" } };
export default () => http.get("${url}", params);
export const handleSummary = ({ metrics }) => ({ stdout: JSON.stringify({ sent: metrics.iterations.values.count }) });
`;

const block = (value: number): Block => ({ value, cpuUsEach: null, doubts: [], disturbances: [] });

const plainK6 = async (url: string, durationS: number): Promise<Block> => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-bench-"));
  try {
    const file = join(folder, "plain.js");
    writeFileSync(file, script(url + routeOf("design.styles").path, durationS));
    const { stdout } = await promisify(execFile)(K6, ["run", "--quiet", "--no-usage-report", file], { env: {} });
    const { sent } = JSON.parse(stdout) as { sent: number };
    return block(sent / durationS);
  } finally {
    rmSync(folder, { recursive: true });
  }
};

const folding = async (url: string, durationS: number): Promise<Block> => {
  const target = targetAt(url);
  let sent = 0;
  const { scheduledMs } = await driveOpenLoop({
    job: {
      stage: "bench",
      idPrefix: "bench.c",
      story: "catalog-reads",
      seed: 1,
      // It sends what it is late with, so what is offered in half of the time takes it the whole of it.
      profile: constant(OFFERED_PER_S, durationS / 2),
      arrivals: "poisson",
      target,
      view: viewOf(target),
      epochUs: wallUs(),
    },
    secrets: createSecrets("."),
    lease: createLease({}),
    onLine: () => {
      sent += 1;
    },
    onFold: ({ offered }) => {
      sent += offered;
    },
    signal: new AbortController().signal,
  });
  return block(sent / (scheduledMs / 1000));
};

export const generator: Bench = {
  name: "generator",
  what: "calls/s that one process of the open-loop driver sends, folded, against plain k6 on all cores",
  run: async (settings) => {
    if (!existsSync(K6)) return "k6 is not built yet: npx floodgate dev tools";
    const server = await startChild("null-process.ts", null);
    try {
      const { url } = server.made as { url: string };
      const pairs = await inTurn(
        settings,
        (durationS) => folding(url, Math.max(LEAST_S, durationS)),
        (durationS) => plainK6(url, Math.max(LEAST_S, durationS)),
      );
      const { name, what } = generator;
      return [compare({ name, what, unit: "calls/s", target: { atLeast: 1.5 } }, pairs)];
    } finally {
      await server.end();
    }
  },
};
