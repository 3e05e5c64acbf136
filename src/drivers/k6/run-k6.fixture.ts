/** For tests: a story played at a stub by our own k6, and what this machine had to do with it left out. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { StubApi } from "../../client/stub-api.fixture.ts";
import type { CallLine } from "../../history/line.ts";
import { wallUs } from "../../supervision/waiting.ts";
import { createSecrets } from "../../target/secrets.ts";
import { type Budget, guardBudget } from "../../workload/budget.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import type { Profile } from "../../workload/load-profiles.ts";
import type { Drive, DriveJob } from "../driver.ts";
import { type K6Setup, runK6 } from "./k6.ts";

export const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const BINARY = join(ROOT, ".tools/k6");

/** The path, or `null` with a sentence on stderr. */
export const k6OrSkip = (): string | null => {
  if (existsSync(BINARY)) return BINARY;
  console.warn("SKIPPED: the tests of k6 need .tools/k6 (floodgate dev tools)");
  return null;
};

type More = Partial<K6Setup> &
  Partial<Omit<Drive, "job" | "budget">> &
  Partial<Pick<DriveJob, "profile" | "arrivals" | "seed" | "target" | "view" | "timeouts">> & {
    budget?: Budget;
  };

export const playK6 = async (stub: StubApi, story: string, given: Profile, more: More = {}) => {
  const { budget = {}, k6Path = BINARY, scenario = join(ROOT, `scenarios/${story}.ts`), keepIn, vus, ...rest } = more;
  const {
    profile = given,
    arrivals = "uniform",
    seed = 1,
    target = stub.target(),
    view = viewOf(target),
    ...drive
  } = rest;
  const lines: CallLine[] = [];
  const guard = guardBudget(budget);
  const job: DriveJob = {
    ...{ story, stage: story, idPrefix: `run1-${story}`, seed, profile, arrivals, target, view },
    ...{ epochUs: wallUs(), timeouts: { callMs: 5000 } },
  };
  const result = await runK6(
    { k6Path, scenario, keepIn, vus },
    {
      job,
      secrets: createSecrets("."),
      budget: guard,
      onLine: (line) => void lines.push(line),
      signal: new AbortController().signal,
      ...drive,
    },
  );
  // Whether this machine was busy meanwhile is said by `late` and decides nothing.
  const late = result.problems.filter(({ reason }) => reason.includes("one call in a hundred"));
  const problems = result.problems.filter((one) => !late.includes(one));
  return {
    ...result,
    problems,
    late,
    lines,
    spent: guard.spent(),
    stopped: result.stopped?.reason ?? null,
    keeperStopped: guard.stopped?.reason ?? null,
  };
};
