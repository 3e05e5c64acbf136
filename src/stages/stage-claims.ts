/** Claims that are no invariant's: whether a stage reached what it is about, and growth. */
import { readGauges } from "../client/control-planes.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { Problem } from "../drivers/driver.ts";
import { BROKEN, HELD, type OpenCode, openBy, type Ruling, skippedBy } from "../history/reason-codes.ts";
import * as doc from "../history/run-document.ts";
import { judgeGrowth, type Reading } from "../history/statistics/growth.ts";
import { standstillDoubts } from "../history/time-doubts.ts";
import type { Reach } from "../workload/story.ts";
import { driverOf, type LoadStage, type StagePlan } from "./stage-plan.ts";
import { type Observed, observe, statedFacts } from "./witnesses.ts";

/** Makes a missed recovery deadline inconclusive if this machine stood still. */
export const onThisMachine = (problem: Problem, host: doc.StageHost, budgetMs?: number): Problem => {
  const doubts = problem.about === "recovery" ? standstillDoubts(host, budgetMs) : [];
  if (doubts.length === 0) return problem;
  return { ...openBy("machine-disturbed"), reason: `${problem.reason}, and ${doubts.join("; ")}` };
};

const notReached = ({ outcome, reason }: Reach["beyond"][number]): string =>
  `skipped: ${outcome} is not reached on this target: ${reason}`;

export const reachedClaims = (
  plan: LoadStage,
  parts: { summary: doc.StageSummary; problems: readonly Problem[]; notes: readonly string[]; reach: Reach },
  replay: string,
): doc.Claim[] => {
  const { summary, reach, problems } = parts;
  const isSeen = (outcome: string): boolean => (summary.by_outcome[outcome] ?? 0) > 0;
  const anyOf = reach.oneOf.length > 0 ? [`one of ${reach.oneOf.join(", ")}`] : [];
  const missing = [...reach.all.filter((outcome) => !isSeen(outcome)), ...(reach.oneOf.some(isSeen) ? [] : anyOf)];
  const unmet = (summary.states ?? []).flatMap(({ state, must, times }) =>
    must && times === 0 ? [doc.FAULT_STATE_WORDS[state]] : [],
  );
  const came = Object.keys(summary.by_outcome).join(", ") || "nothing";
  const doubts = [
    ...problems.map(({ reason }) => reason),
    ...(missing.length > 0 ? [`never reached: ${missing.join(", ")}; what came: ${came}`] : []),
    ...(unmet.length > 0 ? [`never met by the fault: ${unmet.join(", ")}`] : []),
  ];
  const isFailed = problems.some(({ verdict }) => verdict === "fail");
  const open = problems.flatMap((one) => (one.verdict === "fail" ? [] : [one.code]));
  const isRefused = Object.keys(summary.by_outcome).some((outcome) => outcome.startsWith("429 "));
  const below = isRefused ? undefined : reach.beyond.find(({ staysBelow }) => staysBelow);
  const judged = (): Ruling & { reason: string } => {
    if (isFailed) return { ...BROKEN, reason: doubts.join("; ") };
    const [code = missing.length > 0 ? "not-reached" : "fault-without-effect"] = open;
    if (doubts.length > 0) return { ...openBy(code), reason: doubts.join("; ") };
    if (below !== undefined) return { ...skippedBy("not-reached"), reason: notReached(below) };
    return { ...HELD, reason: "the stage reached what it is about" };
  };
  const { reason, ...ruling } = judged();
  const counts = Object.entries(summary.by_outcome).map(([outcome, n]) => `${n} x ${outcome}`);
  const about = { id: `reached/${plan.name}`, stage: plan.name, got: counts.join(", "), replay };
  return [
    doc.claimOf({
      ...about,
      ...ruling,
      reason: ruling.verdict === "pass" ? reason : [reason, ...parts.notes].join("; "),
      expected: `the driver plays the whole schedule and sees ${[...reach.all, ...anyOf].join(", ") || "answers"}`,
    }),
    // An outcome beyond reach may still be seen, by chance or by other callers; then it needs no claim.
    ...reach.beyond
      .filter(({ outcome }) => !isSeen(outcome))
      .map((one) =>
        doc.claimOf({
          ...{ ...about, id: `beyond/${plan.name}`, level: "info", ...skippedBy("not-reached"), expected: one.outcome },
          reason: notReached(one),
        }),
      ),
  ];
};

export const unplayedStage = (
  plan: StagePlan,
  { target }: Pick<Deployment, "target">,
  why: Ruling & Pick<doc.Claim, "reason" | "expected" | "replay">,
): doc.StageOutcome =>
  doc.stageOutcome({
    summary: doc.countedSummary(plan.name, driverOf(plan), 0, {}),
    facts: statedFacts(plan.name, { target, exclusive: false }),
    claims: [doc.claimOf({ id: `reached/${plan.name}`, stage: plan.name, ...why, got: "not played" })],
  });

/** A stage that lacks something is skipped; on the embedded deployment, which lacks nothing, it is inconclusive. */
export const skippedStage = (
  plan: StagePlan,
  deployment: Pick<Deployment, "target" | "embedded">,
  lacking: readonly string[],
  replay: string,
  code: OpenCode,
): doc.StageOutcome => {
  const { embedded } = deployment;
  const reason = `skipped: ${embedded ? "the embedded deployment" : "the target file"} lacks ${[...new Set(lacking)].join("; ")}`;
  const ruling = embedded ? openBy("tool-missing") : skippedBy(code);
  return unplayedStage(plan, deployment, { ...ruling, reason, expected: "everything that the stage needs", replay });
};

const MB = 1_000_000;

/**
 * `size`: base units in one reported unit. `perHour`: permitted growth over all replicas, well below a leak in one of a
 * hundred calls and well above the fluctuation of a busy quarter of an hour. `isMemory`: its readings may hold garbage.
 */
// biome-ignore format: a row is a line
export const WATCHED = [
  { name: "heap", unit: "MB", size: MB, perHour: 60, gauge: "heap_bytes", isMemory: true },
  { name: "resident_memory", unit: "MB", size: MB, perHour: 300, gauge: "rss_bytes", isMemory: true },
  { name: "sockets", unit: "sockets", size: 1, perHour: 200, gauge: "sockets", isMemory: false },
  { name: "timers", unit: "timers", size: 1, perHour: 200, gauge: "timers", isMemory: false },
  { name: "open_files", unit: "files", size: 1, perHour: 200, gauge: "open_files", isMemory: false },
] as const;

const GROWTH_EVERY_MS = 5_000;
/** The warm-up, in which caches fill and code is compiled: the longer of this time and a share of all time. */
const WARM_UP_MS = 60_000;
const WARM_UP_SHARE = 0.2;
const STAGE = "growth";

const warm = (readings: readonly Reading[]): readonly Reading[] => {
  const first = readings[0]?.atMs ?? 0;
  const last = readings.at(-1)?.atMs ?? 0;
  const fromMs = first + Math.max(WARM_UP_MS, WARM_UP_SHARE * (last - first));
  return readings.filter(({ atMs }) => atMs >= fromMs);
};

/** Judges the slope of each watched gauge after the warm-up. `isCollected`: garbage is collected before each reading. */
export const growthOf = (readings: ReadonlyMap<string, readonly Reading[]>, replay: string, isCollected: boolean) => {
  const claims: doc.Claim[] = [];
  const measurements: doc.Measurement[] = [];
  for (const { name, unit, size, perHour, isMemory } of WATCHED) {
    const all = readings.get(name) ?? [];
    const expected = `${name} grows by at most ${perHour} ${unit} an hour`;
    const claim = (ruling: Ruling, reason: string, got = reason): void =>
      void claims.push(
        doc.claimOf({
          ...{ ...ruling, id: `growth/${name}`, stage: STAGE, reason, expected, got, replay, stands_alone: true },
        }),
      );
    if (all.length === 0) {
      const lacking = `\`${name}\` among the gauges of control.api, or among observers.prometheus.queries`;
      claim(skippedBy("not-stated"), `skipped: needs ${lacking}`, "not judged");
      continue;
    }
    const scaled = warm(all).map(({ atMs, value }) => ({ atMs, value: value / size }));
    const { reason, slope, ...ruling } = judgeGrowth(scaled, perHour, unit, isMemory && !isCollected);
    claim(ruling, reason);
    if (slope === null) continue;
    const { slope: value, low, high, n } = slope;
    measurements.push({ name: `growth_${name}_per_hour`, stage: STAGE, value, unit, low, high, n });
  }
  return { claims, measurements };
};

const looked = async (deployment: Pick<Deployment, "target">): Promise<Observed> => {
  const apis = deployment.target.control?.api ?? [];
  const gauges = apis.length === 0 ? [] : await readGauges(apis, { collected: true }).catch(() => []);
  const { values } = gauges.length === 0 ? await observe(deployment) : { values: {} as Observed };
  return Object.fromEntries(
    WATCHED.flatMap(({ name, gauge }) => {
      const shown = gauges.map((one) => one[gauge]).filter((value) => typeof value === "number");
      const isWhole = shown.length === gauges.length && shown.length > 0;
      const value = isWhole ? shown.reduce((sum, one) => sum + one, 0) : values[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
};

/** Reads during a soak what may leak: gauges, or the observers' queries of the same names; from `look` until `rest`. */
export const watchGrowth = (deployment: Pick<Deployment, "target" | "reference">) => {
  const readings = new Map<string, Reading[]>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();
  const once = async (): Promise<void> => {
    const atMs = performance.now();
    for (const [name, value] of Object.entries(await looked(deployment))) {
      readings.set(name, [...(readings.get(name) ?? []), { atMs, value }]);
    }
  };
  return {
    look: (): void => {
      clearInterval(timer);
      timer = setInterval(() => {
        looking = looking.then(once);
      }, GROWTH_EVERY_MS);
    },
    rest: async (): Promise<void> => {
      clearInterval(timer);
      await looking;
    },
    judged: (replay: string) => growthOf(readings, replay, deployment.reference),
  };
};
