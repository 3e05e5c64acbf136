/**
 * Claims about how a deployment settles. Recovery fails only where calls are certainly lost long after the overload, and
 * nothing else explains it: a stage in which the calm load itself changed, a generator that was late, other callers, a
 * fault of ours. Where others may call, the loss also has to end with a pause of our load.
 */
import { claimOf } from "../history/claim.ts";
import type { Claim, ClaimVerdict, Level, Measurement } from "../history/run-document.ts";
import type { StageFacts, StepFacts } from "../history/stage-facts.ts";
import { timeDoubts } from "../history/time-doubts.ts";
import type { SettledAfter, Settling } from "./settling.ts";

type Finding = { readonly verdict: ClaimVerdict; readonly reason: string; readonly got?: string };

/** With more of the calls served under strain there was no overload to come back from. */
const OVERLOAD_LOSS = 0.25;
/** Where others may call, a loss is the deployment's own only when more than this is gone, from the overload on, until a pause. */
const SHARED_LEFT = 0.5;
/** Of calls that left late: more than one in a hundred may explain a loss, more than one in ten anything. */
const LAGGED = 0.01;
const LAGGED_MOST = 0.1;
/**
 * Envoy's gradient needs 0.2 s, Gradient2 of concurrency-limits 8 s for a capacity that halves, at their defaults; this is
 * between them, and longer than a limit by AIMD or Vegas needs at some ten calls a second.
 */
const REACTION_MS = 5_000;
/** A storm goes on where attempts are nearer to what they were at the top than to the calm ones. */
const STILL = 0.5;

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const seconds = (ms: number): string => (ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`);
const open = (reason: string): Finding => ({ verdict: "inconclusive", reason });

/** What was seen of a time, and how finely windows show it. */
const described = ({ low, high, windowMs, resolution }: SettledAfter): string => {
  const fine = `windows of ${seconds(windowMs)}, each within ±${percent(resolution)} by chance`;
  if (high === null) return `not within ${seconds(low)} (${fine})`;
  return low === 0
    ? `at most ${seconds(high)}, an upper bound: shorter is not seen in ${fine}`
    : `${seconds(high)} (${fine})`;
};

/** What on this machine may have cost calls in the quiet part of a stage; the generator's own lag is seen in its calls. */
const machineDoubts = ({ host }: StageFacts, limitMs: number): string[] => {
  if (host === undefined) return [];
  const { always, ifFailed } = timeDoubts({ ...host, lag_ms: [], rate_error: null }, { tail: 0.01, limitMs });
  return [...always, ...ifFailed];
};

const recovered = (settling: Settling, facts: StageFacts): Finding => {
  const { end, again, recovery, calmShare, endShare, endSlowShare, strainedLoss, laggedCalm } = settling;
  if (strainedLoss < OVERLOAD_LOSS) {
    return {
      verdict: "skipped",
      reason: `skipped: an overload; ${percent(1 - strainedLoss)} of the calls at the top were served`,
    };
  }
  if (calmShare < 1 - OVERLOAD_LOSS)
    return open(`before the overload only ${percent(calmShare)} of the calls were served`);
  if (!settling.isCalmSteady)
    return open("the calm load before the overload was served differently from one half to the other");
  if (laggedCalm > (end === "back" ? LAGGED_MOST : LAGGED))
    return open(`${percent(laggedCalm)} of the calls outside the overload left late`);
  const was = `${percent(calmShare)} of the calls were served before the overload, ${percent(endShare)} at the end`;
  const slow = endSlowShare > 0.1 ? `, ${percent(endSlowShare)} of them slower than nearly all before` : "";
  const got = `${was}${slow}`;
  if (end === "unclear") return { ...open(`too few calls to say whether the state before came back: ${got}`), got };
  if (end === "back") {
    const after = recovery === null ? "" : `; after the overload it took ${described(recovery)}`;
    return { verdict: "pass", reason: `${was}${after}` };
  }
  const doubts = machineDoubts(facts, settling.objectiveMs);
  if (doubts.length > 0) return { ...open(`the machine may explain it: ${doubts.join("; ")}`), got };
  const mayBeOthers = !settling.isLostThroughout || !settling.isCalmEven || endShare > SHARED_LEFT * calmShare;
  if (!facts.exclusive && mayBeOthers) {
    return { ...open("others may take what is missing (`exclusive` is not stated)"), got };
  }
  if (again === "back") {
    return {
      verdict: "fail",
      reason:
        "calls were lost for as long as the load lasted after the overload, and no longer after a pause: a metastable state",
      got,
    };
  }
  if (facts.exclusive)
    return {
      verdict: "fail",
      reason: `the state before the overload did not come back within ${seconds(settling.afterMs)}`,
      got,
    };
  return {
    ...open(
      "the state before did not come back, also not after a pause: others may call it (`exclusive` is not stated), or its capacity moved",
    ),
    got,
  };
};

const reacted = ({ reaction, laggedStrained }: Settling): Finding => {
  if (reaction === null) return open("too few calls to see the level that it settled at");
  const got = described(reaction);
  const { low, high } = reaction;
  if (laggedStrained > LAGGED_MOST)
    return { ...open(`${percent(laggedStrained)} of the calls after the step left late`), got };
  if (high !== null && high <= REACTION_MS) return { verdict: "pass", reason: got };
  if (!reaction.isSteadily) return { ...open(`it had settled, and was disturbed once more: ${got}`), got };
  return low > REACTION_MS
    ? { verdict: "fail", reason: `goodput and latency took longer than ${seconds(REACTION_MS)} to settle: ${got}`, got }
    : { ...open(`windows are too long to say: ${got}`), got };
};

const amplified = (settling: Settling, facts: StageFacts): Finding => {
  const { amplification, amplificationBound: bound, amplificationCalm: calm, amplificationEnd: end } = settling;
  if (settling.strainedLoss < OVERLOAD_LOSS || amplification === null)
    return { verdict: "skipped", reason: "skipped: an overload" };
  const got = `${calm.toFixed(2)} attempts a call before, ${amplification.value.toFixed(2)} at the top (equal chances would give ${bound.toFixed(2)}), ${end.toFixed(2)} at the end`;
  if (settling.laggedCalm > LAGGED) return { ...open("the generator was late"), got };
  if (end <= calm + STILL * (amplification.value - calm)) return { verdict: "pass", reason: got };
  return recovered(settling, facts).verdict === "fail"
    ? { verdict: "fail", reason: "callers still retried when the overload was long over", got }
    : { ...open(`retries had not ended with the overload: ${got}`), got };
};

type SettlingClaim = {
  readonly measure: string;
  readonly level: Level;
  readonly expected: string;
  readonly judge: (settling: Settling, facts: StageFacts) => Finding;
};

export const SETTLING_CLAIMS: readonly SettlingClaim[] = [
  {
    measure: "recovery",
    level: "must",
    expected: "after an overload calls are served as before it, by callers who retry",
    judge: recovered,
  },
  {
    measure: "reaction",
    level: "should",
    expected: `${seconds(REACTION_MS)} after a step every window keeps 95 % of the goodput to come, and its p99 the objective`,
    judge: reacted,
  },
  {
    measure: "amplification",
    level: "should",
    expected: "callers who retry make no more attempts after an overload than before it",
    judge: amplified,
  },
];

/** Of a step of the capacity nothing but the reaction is judged. */
type StepOf = StepFacts["of"];

const claimIn = ({ stage }: StageFacts, of: StepOf, { measure, level, expected }: SettlingClaim, replay: string) => {
  const id = of === "load" ? `curve/${measure}` : `curve/${measure}/${stage}`;
  return (finding: Finding): Claim => claimOf({ id, stage, level, expected, replay, ...finding });
};

const claimsOf = (of: StepOf): readonly SettlingClaim[] =>
  of === "load" ? SETTLING_CLAIMS : SETTLING_CLAIMS.filter(({ measure }) => measure === "reaction");

export const settlingClaims = (settling: Settling, of: StepOf, facts: StageFacts, replay: string): Claim[] =>
  claimsOf(of).map((claim) => claimIn(facts, of, claim, replay)(claim.judge(settling, facts)));

/** Where there was nothing to judge. */
export const settlingSkipped = (lacking: string, of: StepOf, facts: StageFacts, replay: string): Claim[] =>
  claimsOf(of).map((claim) => claimIn(facts, of, claim, replay)({ verdict: "skipped", reason: `skipped: ${lacking}` }));

export const settlingMeasures = ({
  stage,
  reaction,
  recovery,
  amplification,
  strainedLoss,
}: Settling): Measurement[] => {
  const time = (name: string, of: SettledAfter | null): Measurement[] =>
    of === null
      ? []
      : [{ name, stage, unit: "ms", value: of.high ?? of.low + of.windowMs, low: of.low, high: of.high, n: of.calls }];
  const isOverload = strainedLoss >= OVERLOAD_LOSS;
  return [
    ...time("reaction_ms", reaction),
    ...(isOverload ? time("recovery_ms", recovery) : []),
    ...(isOverload && amplification !== null
      ? [{ name: "amplification", stage, unit: "ratio", ...amplification, n: reaction?.calls ?? 0 }]
      : []),
  ];
};
