/**
 * One stage under autocannon: a closed loop, which has no schedule and leaves no line of each call. Its totals stand in the
 * report; what has to see each call, or latency from a moment at which a call was due, is skipped with that reason.
 */

import type { Deployment } from "../deployments/deployment.ts";
import { type RunContext, stoppedBy } from "../deployments/run-context.ts";
import { cannotReach, runAutocannon } from "../drivers/autocannon/autocannon.ts";
import { notPlain } from "../drivers/autocannon/plain-story.ts";
import { hostDoubts } from "../drivers/host-doubts.ts";
import { watchHost } from "../drivers/host-notes.ts";
import { classOf } from "../history/line.ts";
import type { Claim, Measurement, StageSummary } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import type { StageOutcome } from "../history/stage-outcome.ts";
import { answered, findingOfAnswered } from "../invariants/answered.ts";
import { invariantsFor } from "../invariants/catalogue.ts";
import { ofCutOffStage } from "../invariants/judge-stage.ts";
import type { Target } from "../target/target.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { wishOf } from "./planned-load.ts";
import { reachedClaims, skippedStage } from "./reached-claim.ts";
import type { LoadStage } from "./stage-plan.ts";
import { statedFacts } from "./stated-facts.ts";

/** Where neither the stage nor the target file says: autocannon's own number of connections. */
const CONNECTIONS = 10;
const CLOSED_LOOP_S = 15;
/** What a stage may send at the most where nothing bounds it. */
const UNBOUNDED_PER_S = 5_000;
/** Above this share of a core it was the generator that was measured. */
const SATURATED = 0.93;

/** Why the story, or the target, is none for autocannon, as a sentence; `null` where it is. */
export const closedLoopRefusal = ({ driver, story: name }: LoadStage, target: Target): string | null => {
  const story = STORIES.get(name);
  if (driver !== "autocannon" || story === undefined) return null;
  const beyond = notPlain(story, 0, viewOf(target));
  const others = "use --driver open-loop or --driver k6";
  if (beyond !== null) return `${name} ${beyond}, and autocannon makes plain requests only; ${others}`;
  const unable = cannotReach(target);
  return unable === null ? null : `autocannon is not set up for ${unable} of the target file; ${others}`;
};

const ceilingOf = ({ ratePerS }: LoadStage, { permits }: Target): number =>
  Math.min(ratePerS ?? UNBOUNDED_PER_S, permits?.load_max_rps ?? UNBOUNDED_PER_S);

export const plannedClosedLoop = (plan: LoadStage, target: Target): { seconds: number; calls: number } => {
  const seconds = plan.durationS ?? CLOSED_LOOP_S;
  return { seconds: Math.ceil(seconds), calls: Math.ceil(seconds * ceilingOf(plan, target)) };
};

const NO_LINES =
  "skipped: autocannon writes no line for each call and has no moments at which calls were due; use --driver open-loop or --driver k6";

/** By totals: which calls were given up by us is not in them, and autocannon gives none up. */
const answeredClaim = (plan: LoadStage, summary: StageSummary, { limits }: Target, replay: string): Claim => {
  const unanswered = new Map(
    Object.entries(summary.by_outcome).flatMap(([outcome, n]): [string, number][] => {
      if (outcome === "indeterminate") return [["no answer", n]];
      return outcome.startsWith("edge ") ? [[outcome, n]] : [];
    }),
  );
  const counted = { judged: summary.calls.sent, unanswered, leftOut: [], evidence: [] };
  const { id, level, spec } = answered;
  const finding = findingOfAnswered(counted, limits?.unanswered_share);
  return { id: `${id}/${plan.name}`, stage: plan.name, level, spec, replay, ...finding };
};

const notJudged = (plan: LoadStage, { slo = {} }: Target, got: string, replay: string): Claim[] => {
  const about = { stage: plan.name, verdict: "skipped" as const, reason: NO_LINES, got, evidence: [], replay };
  return [
    ...invariantsFor(plan.judges)
      .filter((each) => each !== answered)
      .map(({ id, level, spec, statement }) => ({
        ...about,
        id: `${id}/${plan.name}`,
        level,
        spec,
        expected: statement,
      })),
    ...Object.entries(plan.objectives === true ? slo : {}).map(([name, expected]) => ({
      ...about,
      id: `slo/${name}/${plan.name}`,
      level: "should" as const,
      spec: [],
      expected,
    })),
  ];
};

const summaryOf = (plan: LoadStage, byOutcome: Record<string, number>, durationMs: number): StageSummary => {
  const calls = { sent: 0, answered: 0, refused: 0, indeterminate: 0 };
  for (const [outcome, n] of Object.entries(byOutcome)) {
    calls.sent += n;
    calls[classOf(outcome)] += n;
  }
  const ordered = Object.entries(byOutcome).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    name: plan.name,
    driver: plan.driver,
    duration_ms: durationMs,
    // It knows no other, and none over TLS.
    ...(calls.answered + calls.refused > 0 ? { protocols: ["h1" as const] } : {}),
    calls,
    by_outcome: Object.fromEntries(ordered),
  };
};

export const playClosedLoop = async (
  context: RunContext,
  deployment: Deployment,
  plan: LoadStage,
): Promise<StageOutcome> => {
  const { seed, replay, epochUs, signal } = context;
  const { target, secrets, budget } = deployment;
  const story = STORIES.get(plan.story);
  if (story === undefined) throw new Error(`stage ${plan.name}: there is no story "${plan.story}"`);
  const refusal = closedLoopRefusal(plan, target);
  if (refusal !== null) throw new Error(refusal);
  const view = viewOf(target);
  const lacking = story.missing(view);
  if (lacking.length > 0) return skippedStage(plan, deployment, lacking, replay);
  const durationS = plan.durationS ?? CLOSED_LOOP_S;
  // More connections than calls a second would only wait for each other.
  const connections = Math.ceil(Math.min(target.transport?.connections ?? CONNECTIONS, ceilingOf(plan, target)));
  const began = performance.now();
  const cpu = process.cpuUsage();
  const host = watchHost();
  const { byOutcome, sendingS, latencyUs, problems } = await runAutocannon({
    target,
    view,
    secrets,
    story,
    seed,
    stage: plan.name,
    idPrefix: `${context.run}.${plan.name}.c`,
    connections,
    durationS,
    epochUs,
    budget,
    signal,
    ...(plan.ratePerS === undefined ? {} : { maxPerS: plan.ratePerS }),
  });
  const { user, system } = process.cpuUsage(cpu);
  const durationMs = performance.now() - began;
  const summary = summaryOf(plan, byOutcome, durationMs);
  const plain = (name: string, value: number, unit: string, n: number): Measurement => ({
    name,
    stage: plan.name,
    value,
    unit,
    low: null,
    high: null,
    n,
  });
  const quantiles = { p50: 0.5, p90: 0.9, p99: 0.99, max: 1 };
  const measurements = [
    plain("achieved_rate", summary.calls.sent / Math.max(sendingS, 0.001), "1/s", summary.calls.sent),
    ...Object.entries(quantiles).flatMap(([suffix, p]) => {
      const us = suffix === "max" ? latencyUs.max : latencyUs.quantile(p);
      return us === null ? [] : [plain(`closed_loop_latency_ms_${suffix}`, us / 1000, "ms", latencyUs.n)];
    }),
  ];
  const share = (user + system) / 1000 / durationMs;
  const notes = [
    ...hostDoubts(plan.name, host()),
    ...(share > SATURATED ? [`${plan.name}: autocannon used a whole core: its rate is the generator's own`] : []),
  ];
  const reach = story.reaches(view, wishOf(plan, target.permits?.load_max_rps));
  const got = `${summary.calls.sent} calls over ${connections} connections`;
  const claims = [
    ...reachedClaims(plan, { summary, problems, notes: [], reach }, replay),
    answeredClaim(plan, summary, target, replay),
    ...notJudged(plan, target, got, replay),
  ];
  const { exclusive } = deployment;
  const facts: StageFacts = { ...statedFacts(plan.name, { target, exclusive }), totals_only: true };
  const isCutOff = signal.aborted || stoppedBy(context) !== null;
  return {
    summary,
    facts,
    measurements,
    faults: [],
    notes,
    claims: isCutOff ? claims.map(ofCutOffStage) : claims,
  };
};
