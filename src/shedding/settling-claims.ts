/**
 * Claims about how a deployment settles. Recovery fails only if calls are certainly lost long after the overload and
 * nothing else may explain it: an uneven calm phase, a late generator, a busy machine, other callers, an injected
 * fault. If others may call, the loss also has to end with a pause of our load.
 */
import { BROKEN, HELD } from "../history/reason-codes.ts";
import {
  type Claim,
  claimOf,
  type Level,
  type Measurement,
  type StageFacts,
  type StepFacts,
} from "../history/run-document.ts";
import { type Finding, found, machineDoubts, open, skipped } from "./finding.ts";
import type { SettledAfter, Settling } from "./settling.ts";

/** If less than this share of the calls was lost under strain, there was no overload to recover from. */
const OVERLOAD_LOSS = 0.25;
/**
 * If others may call, a loss is attributed to the deployment only if at most this share of the calm service is left
 * from the overload until a pause.
 */
const SHARED_LEFT = 0.5;
/** Shares of calls that left late: above the first they may explain a loss, above the second (a tenth) any figure. */
const LAGGED = 0.01;
const LAGGED_MOST = 0.1;
/**
 * At their defaults, after a capacity halves, Envoy's gradient needs 0.2 s and Gradient2 of concurrency-limits 8 s. 5 s
 * lies between, and is longer than AIMD or Vegas need at some ten calls a second.
 */
const REACTION_MS = 5_000;
/** Retries persist if the attempts a call at the end are nearer to those at the top than to the calm ones. */
const STILL = 0.5;

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const seconds = (ms: number): string => (ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`);

/** Describes a measured time and the resolution of the windows. */
const described = ({ low, high, windowMs, resolution, unsureMs }: SettledAfter): string => {
  const start = unsureMs === 0 ? "" : `; the fault took effect some time in the first ${seconds(unsureMs)}`;
  const fine = `windows of ${seconds(windowMs)}, each within ±${percent(resolution)} by chance${start}`;
  if (high === null) return `not within ${seconds(low)} (${fine})`;
  return high <= windowMs
    ? `at most ${seconds(high)}, an upper bound: shorter is not seen in ${fine}`
    : `${seconds(high)} (${fine})`;
};

const recovered = (settling: Settling, { host, exclusive }: StageFacts): Finding => {
  const { end, again, recovery, calmShare, endShare, endSlowShare, strainedLoss, laggedCalm } = settling;
  if (strainedLoss < OVERLOAD_LOSS) {
    return skipped("not-reached", `an overload; ${percent(1 - strainedLoss)} of the calls at the top were served`);
  }
  if (calmShare < 1 - OVERLOAD_LOSS)
    return open("not-reached", `before the overload only ${percent(calmShare)} of the calls were served`);
  if (!settling.isCalmSteady)
    return open("ambiguous", "the calm load before the overload was served differently from one half to the other");
  if (laggedCalm > (end === "back" ? LAGGED_MOST : LAGGED))
    return open("generator-was-the-limit", `${percent(laggedCalm)} of the calls outside the overload left late`);
  const was = `${percent(calmShare)} of the calls were served before the overload, ${percent(endShare)} at the end`;
  if (end === "back") {
    return found(HELD, `${was}${recovery === null ? "" : `; after the overload it took ${described(recovery)}`}`);
  }
  const slow = endSlowShare > 0.1 ? `, ${percent(endSlowShare)} of them slower than nearly all before` : "";
  const got = `${was}${slow}`;
  if (end === "unclear")
    return open(
      "too-few-calls",
      `too few calls, or too little time after the overload, to say whether the state before came back: ${got}`,
      got,
    );
  if (!settling.isCalmFilled)
    return open("too-few-calls", "the calm load before the overload was shorter than two of its calls", got);
  const doubts = machineDoubts(host, settling.objectiveMs);
  if (doubts.length > 0) return open("machine-disturbed", `the machine may explain it: ${doubts.join("; ")}`, got);
  const mayBeOthers = !settling.isLostThroughout || !settling.isCalmEven || endShare > SHARED_LEFT * calmShare;
  if (!exclusive && mayBeOthers)
    return open("not-exclusive", "others may take what is missing (`exclusive` is not stated)", got);
  if (again === "back") {
    const stuck = "the deployment was stuck in a bad state (metastable)";
    return found(BROKEN, `the load after the overload was not served as before, after a pause it was: ${stuck}`, got);
  }
  const lost = "the state before the overload did not come back";
  return exclusive
    ? found(BROKEN, `${lost} within ${seconds(settling.afterMs)}`, got)
    : open(
        "not-exclusive",
        `${lost}, also not after a pause: others may call it (\`exclusive\` is not stated), or its capacity moved`,
        got,
      );
};

const reacted = ({ reaction, laggedStrained }: Settling): Finding => {
  if (reaction === null) return open("too-few-calls", "too few calls to see the level that it settled at");
  const got = described(reaction);
  const { low, high } = reaction;
  if (laggedStrained > LAGGED_MOST)
    return open("generator-was-the-limit", `${percent(laggedStrained)} of the calls after the step left late`, got);
  if (high !== null && high <= REACTION_MS) return found(HELD, got);
  if (!reaction.isSteadily) return open("ambiguous", `it had settled, and was disturbed once more: ${got}`, got);
  return low > REACTION_MS
    ? found(BROKEN, `goodput and latency took longer than ${seconds(REACTION_MS)} to settle: ${got}`, got)
    : open("too-few-calls", `windows are too long to say: ${got}`, got);
};

const amplified = (settling: Settling, facts: StageFacts): Finding => {
  const { amplification, amplificationBound: bound, amplificationCalm: calm, amplificationEnd: end } = settling;
  if (settling.strainedLoss < OVERLOAD_LOSS || amplification === null) return skipped("not-reached", "an overload");
  const got = `${calm.toFixed(2)} attempts a call before, ${amplification.value.toFixed(2)} at the top (equal chances would give ${bound.toFixed(2)}), ${end.toFixed(2)} at the end`;
  if (settling.laggedCalm > LAGGED) return open("generator-was-the-limit", "the generator was late", got);
  if (end <= calm + STILL * (amplification.value - calm)) return found(HELD, got);
  return recovered(settling, facts).verdict === "fail"
    ? found(BROKEN, "callers still retried when the overload was long over", got)
    : open("ambiguous", `retries had not ended with the overload: ${got}`, got);
};

type SettlingClaim = {
  readonly measure: string;
  readonly level: Level;
  readonly expected: string;
  readonly judge: (settling: Settling, facts: StageFacts) => Finding;
};

export const SETTLING_CLAIMS: readonly SettlingClaim[] = [
  {
    ...{ measure: "recovery", level: "must", judge: recovered },
    expected: "after an overload calls are served as before it, by callers who retry",
  },
  {
    ...{ measure: "reaction", level: "should", judge: reacted },
    expected: `${seconds(REACTION_MS)} after a step every window keeps 95 % of the goodput to come, and its p99 the objective where one is stated`,
  },
  {
    ...{ measure: "amplification", level: "should", judge: amplified },
    expected: "callers who retry make no more attempts after an overload than before it",
  },
];

/**
 * Claims about one stage. For a step of the capacity only the reaction is judged. If nothing can be judged, `settling`
 * is a text that says what is lacking.
 */
export const settlingClaims = (
  settling: Settling | string,
  of: StepFacts["of"],
  facts: StageFacts,
  replay: string,
): Claim[] =>
  SETTLING_CLAIMS.filter(({ measure }) => of === "load" || measure === "reaction").map(
    ({ measure, level, expected, judge }) => {
      const id = of === "load" ? `curve/${measure}` : `curve/${measure}/${facts.stage}`;
      const finding = typeof settling === "string" ? skipped("not-reached", settling) : judge(settling, facts);
      return claimOf({ id, stage: facts.stage, level, expected, replay, ...finding });
    },
  );

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
  const ofReaction = time("reaction_ms", reaction);
  if (strainedLoss < OVERLOAD_LOSS) return ofReaction;
  const ratio = { name: "amplification", stage, unit: "ratio", n: reaction?.calls ?? 0 };
  const retried = amplification === null ? [] : [{ ...ratio, ...amplification }];
  return [...ofReaction, ...time("recovery_ms", recovery), ...retried];
};
