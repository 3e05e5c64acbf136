/** For tests: a story played at a stub by our own k6, and what this machine had to do with it left out. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { wallUs } from "../../client/clock.ts";
import type { StubApi } from "../../client/stub-api.fixture.ts";
import type { CallLine } from "../../history/line.ts";
import { createSecrets } from "../../target/secrets.ts";
import { type Budget, guardBudget } from "../../workload/budget.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import type { Profile } from "../../workload/load-profiles.ts";
import { type K6Options, runK6 } from "./k6.ts";

export const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const BINARY = join(ROOT, ".tools/k6");

/** The path, or `null` with a sentence on stderr. */
export const k6OrSkip = (): string | null => {
  if (existsSync(BINARY)) return BINARY;
  console.warn("SKIPPED: the tests of k6 need .tools/k6 (floodgate dev tools)");
  return null;
};

export const playK6 = async (
  stub: StubApi,
  story: string,
  profile: Profile,
  { budget = {}, ...more }: Partial<Omit<K6Options, "budget">> & { budget?: Budget } = {},
) => {
  const lines: CallLine[] = [];
  const target = stub.target();
  const keeper = guardBudget(budget);
  const result = await runK6({
    binary: BINARY,
    script: join(ROOT, `scenarios/${story}.ts`),
    story: STORIES.get(story)!,
    stage: story,
    idPrefix: `run1-${story}`,
    seed: 1,
    profile,
    arrivals: "uniform",
    target,
    view: viewOf(target),
    secrets: createSecrets("."),
    epochUs: wallUs(),
    timeouts: { callMs: 5000 },
    budget: keeper,
    onLine: (line) => lines.push(line),
    ...more,
  });
  // Whether this machine was busy meanwhile is said by `late` and decides nothing.
  const late = result.problems.filter(({ reason }) => reason.includes("one call in a hundred"));
  const problems = result.problems.filter((one) => !late.includes(one));
  return { ...result, problems, late, lines, spent: keeper.spent(), keeperStopped: keeper.stopped };
};
