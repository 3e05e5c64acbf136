/** Plans which mutants are tried on which small stages, tries them, and plays the demo. An undecided trial is repeated; a verdict stands. */

import { GATE_MEASUREMENTS } from "../gate/block.ts";
import type { Line } from "../history/line.ts";
import type { Claim, RecordedStage, StageFacts } from "../history/run-document.ts";
import { seriesFold } from "../history/series.ts";
import { stageMeasure } from "../history/tally.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { inOrder, judgeStage } from "../invariants/invariant.ts";
import { MUTANTS } from "../mutants/catalogue.ts";
import { type Mutant, type MutantStage, nobody } from "../mutants/mutant.ts";
import { HEALTHY, type Parts } from "../platform/parts.ts";
import { eachAtOnce } from "../supervision/waiting.ts";
import { type MiniStage, openBench, REVOCATION_BUDGET_MS, type VirtualStage } from "./stage-bench.ts";
import * as calls from "./stages/calls.ts";
import * as virtual from "./stages/curve.ts";
import * as faults from "./stages/faults.ts";

const AFTER_A_FAULT = [
  "fails-closed",
  "refuses-in-time",
  "recovers",
  "envelope-fits-subcode",
  "refused-is-not-charged",
  "charged-once",
];

/**
 * The small stages: tens to hundreds of calls, judged by all invariants. `proves`: judges that have to pass the healthy platform
 * there (ids of invariants, `verify/<rule>`, `gate/<measurement>` or `curve/<measure>`); no judge may fail it.
 */
// biome-ignore format: a stage is a row
export const MINI_STAGES: Readonly<Record<MutantStage, (MiniStage | VirtualStage) & { proves: readonly string[] }>> = {
  answers: { ...calls.answers, proves: ["answered", "first-failing-check-decides", "envelope-fits-subcode",
    "tells-when-to-retry", "admission-is-stored-and-tier", "refused-is-not-charged", "charged-once",
    "revoked-stays-out", "session-lifetime-is-bounded", "counts-agree", "stream-vocabularies-differ",
    "streams-end-once", "slots-are-given-back", "secrets-stay-secret", "admits-at-most-the-allowance",
    "admits-what-is-allowed", "organizations-do-not-share", "sheds-only-over-the-cap"] },
  "edge-of-quota": { ...calls.quotaEdge, proves: ["admits-at-most-the-allowance", "admits-what-is-allowed",
    "refused-is-not-charged", "charged-once", "organizations-do-not-share", "counts-agree"] },
  "month-edge": { ...calls.monthEdge, proves: ["admits-what-is-allowed", "admits-at-most-the-allowance",
    "refused-is-not-charged"] },
  overload: { ...calls.overload, proves: ["sheds-only-over-the-cap", "sheds-above-the-cap", "refusals-are-cheap",
    "slots-are-given-back", "tells-when-to-retry", "envelope-fits-subcode", "counts-agree"] },
  "past-capacity": { ...calls.pastCapacity, proves: ["sheds-above-the-cap", "sheds-only-over-the-cap", "slots-are-given-back",
    "counts-agree"] },
  noisy: { ...calls.noisy, proves: ["organizations-do-not-share", "sheds-only-over-the-cap", "refused-is-not-charged",
    "slots-are-given-back", "counts-agree"] },
  "rate-edge": { ...calls.rateEdge, proves: ["rate-within-any-window", "tells-when-to-retry", "envelope-fits-subcode",
    "counts-agree"] },
  "patient-client": { ...calls.patientClient, proves: ["tells-when-to-retry", "rate-within-any-window"] },
  "two-replicas": { ...calls.twoReplicas, proves: ["rate-within-any-window", "counts-agree"] },
  "limiter-refused": { ...faults.limiterRefused, proves: [...AFTER_A_FAULT, "first-failing-check-decides", "tells-when-to-retry",
    "slots-are-given-back", "counts-agree"] },
  "limiter-reply-lost": { ...faults.limiterReplyLost, proves: [...AFTER_A_FAULT, "counts-agree"] },
  "restart-unsettled": { ...faults.restartUnsettled, proves: ["refused-is-not-charged", "charged-once"] },
  "pool-after-fault": { ...faults.poolAfterFault, proves: ["nothing-is-left-open", "recovers"] },
  "keys-refused": { ...faults.keysRefused, proves: ["fails-closed", "recovers", "envelope-fits-subcode", "tells-when-to-retry",
    "counts-agree"] },
  "record-changes": { ...calls.recordChanges, proves: ["revoked-stays-out", "admission-is-stored-and-tier",
    "first-failing-check-decides", "counts-agree"] },
  streams: { ...calls.streams, proves: ["streams-end-once", "streams-cut", "stream-vocabularies-differ",
    "events-are-not-buffered", "slots-are-given-back", "counts-agree"] },
  "many-streams": { ...calls.manyStreams, proves: ["streams-cut", "streams-end-once", "counts-agree"] },
  deploy: { ...calls.deploy, proves: ["streams-end-once"] },
  verify: { ...calls.verify, proves: ["verify/server-key-is-blocked-by-cors", "verify/stream-error-event",
    "verify/keys-limit-reached"] },
  "verify-load": { ...calls.verifyLoad, proves: ["verify/rate-limit-is-reported", "verify/overload-is-reported",
    "verify/overload-names-the-cap"] },
  gate: { ...virtual.gate, proves: ["gate/answers", ...GATE_MEASUREMENTS.map((name) => `gate/${name}`)] },
  curve: { ...virtual.curve, proves: ["curve/shed_subcodes", "curve/goodput_retention", "curve/collapse", "curve/refusal_time", "curve/metastability",
    "curve/false_sheds", "curve/slots_leaked", "curve/closed_form", "curve/oscillation", "curve/refusal_price", "curve/refusal_cost",
    "curve/wasted_work", "curve/jain_index"] },
  "retry-storm": { ...virtual.retryStorm, proves: ["curve/recovery", "curve/reaction", "curve/amplification"] },
  "noisy-and-quiet": { ...virtual.noisyAndQuiet, proves: ["curve/isolation"] },
};

export const MINI_STAGE_NAMES = Object.keys(MINI_STAGES) as MutantStage[];

/** The kinds of judge, which are the columns of `dev mutants` (see `mutants/README.md`). */
export const COLUMNS = ["properties", "verify", "load", "chaos", "gate"] as const;
export type Column = (typeof COLUMNS)[number];

export const columnOf = (name: MutantStage): Column => {
  const stage = MINI_STAGES[name];
  if (name === "gate") return "gate";
  if ("inVirtualTime" in stage) return "load";
  return stage.rulesAlone === true ? "verify" : stage.options.breakable === true ? "chaos" : "load";
};

/**
 *   of a mutant where it has to be caught   `killed`: failed by all judges that must; `wrong-judge`: failed, but not by all of
 *                                           them; `survived`; `undecided`
 *   of a mutant elsewhere                   `seen`, `not-seen`, `undecided`
 *   of the healthy platform                 `acquitted`, `false-positive`, `undecided`
 */
export type TrialVerdict =
  | ("killed" | "wrong-judge" | "survived" | "undecided")
  | ("seen" | "not-seen")
  | ("acquitted" | "false-positive");

export type Trial = {
  mutant: string;
  column: Column;
  /** The small stage, or the law. */
  stage: string;
  /** Whether the mutant has to be killed here. Always true for the healthy platform, which has to pass everywhere. */
  own: boolean;
  /** Judges that have to fail it; for the healthy platform, judges that have to pass. */
  intended: readonly string[];
  /** Judges that failed it: ids of invariants, `verify/<rule>`, `gate/<measurement>`, names of laws. */
  by: string[];
  verdict: TrialVerdict;
  /** The judges' reasons for the verdict, one line each. */
  reasons: string[];
  attempts: number;
  durationMs: number;
};

type Judged = Pick<Trial, "verdict" | "by" | "reasons">;

/** An undecided trial is repeated so often, and for so long: a busy machine stalls for seconds. Virtual time only repeats itself. */
const ATTEMPTS = 3;
const PATIENCE_MS = 20_000;

/** The healthy parts with a short key cache, so that stages can wait for changed records. */
export const healthyParts = (): Parts => ({
  ...HEALTHY,
  keyCache: { ...HEALTHY.keyCache, maxAgeMs: REVOCATION_BUDGET_MS },
});

/** The claim's judge: `verify/<rule>`, `gate/<measurement>`, or an invariant's id. */
const judgeOf = ({ id }: Claim): string => (/^(verify|gate|curve)\//.test(id) ? id : id.slice(0, id.indexOf("/")));

const said = (claim: Claim): string => `${judgeOf(claim)}: ${claim.verdict}: ${claim.reason}: ${claim.got}`;

const judge = (claims: readonly Claim[], healthy: boolean, own: boolean, intended: readonly string[]): Judged => {
  const condemned = claims.filter(({ verdict }) => verdict === "fail");
  const by = condemned.map(judgeOf);
  const judged = (verdict: TrialVerdict, reasons: string[] = condemned.map(said)): Judged => ({ verdict, by, reasons });
  if (!own) return judged(by.length > 0 ? "seen" : "not-seen");
  const asked = claims.filter((claim) => intended.includes(judgeOf(claim)));
  if (healthy) {
    if (by.length > 0) return judged("false-positive");
    const open = asked.filter(({ verdict }) => verdict !== "pass");
    const missing = intended.filter((id) => !asked.some((claim) => judgeOf(claim) === id));
    const reasons = [...open.map(said), ...missing.map((id) => `${id}: was not asked`)];
    return judged(reasons.length > 0 ? "undecided" : "acquitted", reasons);
  }
  if (intended.every((id) => by.includes(id))) return judged("killed");
  const due = asked.filter(({ verdict }) => verdict !== "fail");
  const reasons = [...due, ...condemned].map(said);
  if (due.some(({ verdict }) => verdict === "inconclusive")) return judged("undecided", reasons);
  return judged(by.length > 0 ? "wrong-judge" : "survived", reasons);
};

export type Played = { claims: Claim[]; facts: StageFacts; lines: Line[] };

/** Rejects if the stage could not be played. */
export const playMiniStage = async (name: MutantStage, stage: MiniStage, parts: Parts): Promise<Played> => {
  const bench = await openBench(name, parts, stage.options);
  try {
    await stage.play(bench);
    const { facts, lines: unordered } = await bench.finish();
    const lines = inOrder(unordered);
    const replay = `npx floodgate dev mutants --stage ${name}`;
    const judged = judgeStage(stage.rulesAlone === true ? [] : INVARIANTS, facts, lines, replay);
    return { claims: [...bench.claims, ...judged], facts, lines };
  } finally {
    await bench.close();
  }
};

/** Tries a mutant on a stage: again while undecided on its own stage, once on another. */
export const tryOn = async (mutant: Mutant, stage: MutantStage): Promise<Trial> => {
  const beganMs = performance.now();
  const healthy = mutant.name === nobody.name;
  const own = healthy || stage === mutant.stage;
  const intended = healthy ? MINI_STAGES[stage].proves : own ? mutant.kills : [];
  const isRepeated = own && "play" in MINI_STAGES[stage];
  const play = async (): Promise<Claim[]> => {
    const small = MINI_STAGES[stage];
    if ("inVirtualTime" in small) return small.inVirtualTime(healthy ? null : mutant.name);
    return (await playMiniStage(stage, small, mutant.spoil(healthyParts()))).claims;
  };
  for (let attempts = 1; ; attempts += 1) {
    const judged = await play().then(
      (claims) => judge(claims, healthy, own, intended),
      (error): Judged => {
        return { verdict: "undecided", by: [], reasons: [error instanceof Error ? error.message : String(error)] };
      },
    );
    const durationMs = Math.round(performance.now() - beganMs);
    const isOver = attempts >= ATTEMPTS && durationMs >= PATIENCE_MS;
    if (judged.verdict === "undecided" && isRepeated && !isOver) continue;
    return { mutant: mutant.name, column: columnOf(stage), stage, own, intended, ...judged, attempts, durationMs };
  }
};

/** Only trials on a mutant's own stage, and those of the healthy platform, can be wrong. */
export const isRight = ({ verdict, own }: Trial): boolean => !own || verdict === "killed" || verdict === "acquitted";

/** Whether the verdict is wrong; a retry would not change it. */
export const isWrong = ({ verdict }: Trial): boolean =>
  verdict === "survived" || verdict === "wrong-judge" || verdict === "false-positive";

/** The cheapest stage of each kind of judge. Every mutant is tried on it. The gate has none, because it compares times alone. */
export const CHEAPEST = { verify: "verify", load: "answers", chaos: "limiter-refused" } as const;

/** Mutants of these stages affect calls in flight or rates, which `verify` may see under load. */
const SEEN_UNDER_LOAD: readonly MutantStage[] = [
  ...(["overload", "past-capacity", "noisy", "rate-edge", "patient-client", "two-replicas", "streams"] as const),
];

type Attempt = { mutant: Mutant; stage: MutantStage };

/** Trials that run at once; they mostly wait. */
const AT_ONCE = 4;

const stagesFor = ({ stage: own }: Mutant): MutantStage[] => {
  const cheapest = Object.values(CHEAPEST).filter((stage) => columnOf(own) !== columnOf(stage));
  return [...new Set([own, ...cheapest, ...(SEEN_UNDER_LOAD.includes(own) ? (["verify-load"] as const) : [])])];
};

/**
 * The healthy platform on every used stage; each mutant on its own stage and on the cheapest stage of every other column.
 * `everywhere`: each mutant on every small stage, including the gate.
 */
export const planTrials = (
  mutants: readonly Mutant[],
  { columns = COLUMNS, everywhere = false }: { columns?: readonly Column[]; everywhere?: boolean } = {},
): Attempt[] => {
  const attempts = mutants.flatMap((mutant) =>
    (everywhere ? MINI_STAGE_NAMES : stagesFor(mutant)).map((stage) => ({ mutant, stage })),
  );
  const wanted = attempts.filter(({ stage }) => columns.includes(columnOf(stage)));
  const visited = MINI_STAGE_NAMES.filter((name) => wanted.some(({ stage }) => stage === name));
  return [...visited.map((stage) => ({ mutant: nobody, stage })), ...wanted];
};

/** Results in the order of the attempts. */
export const tryAll = (attempts: readonly Attempt[], onTrial: (trial: Trial) => void): Promise<Trial[]> =>
  eachAtOnce(AT_ONCE, attempts, async ({ mutant, stage }) => {
    const trial = await tryOn(mutant, stage);
    onTrial(trial);
    return trial;
  });

// `floodgate demo`: plays each mutant's small stage on the healthy and on the spoilt platform, in this process alone,
// and shows who finds it.

/** The default: a regression of shedding, a quota that admits one too many, a limiter that fails open. */
export const PLANTED = ["sheds-too-early", "admits-one-too-many", "fails-open"];

/** Mutants that an invariant kills on a small stage; the others need verify or the gate, which take longer. */
export const PLANTABLE: readonly Mutant[] = MUTANTS.filter(({ stage }) => {
  const small = MINI_STAGES[stage];
  return "play" in small && small.rulesAlone !== true;
});

export type DemoProgress = (line: { defect: Mutant; platform: "healthy" | "spoilt"; claims: readonly Claim[] }) => void;

const healthyStage = ({ name }: Mutant): string => `${name}-healthy`;

/** Plays the stage on the healthy platform, then with the defect. Rejects if it could not be played. */
const playDefect = async (defect: Mutant, progress: DemoProgress): Promise<Played[]> => {
  const stage = MINI_STAGES[defect.stage];
  if (!("play" in stage)) throw new Error(`expected a small stage for ${defect.name}`);
  // Keeps the judges that the stage is made for; the others see too little.
  const about = [...stage.proves, ...defect.kills];
  const played: Played[] = [];
  for (const platform of ["healthy", "spoilt"] as const) {
    const parts = platform === "healthy" ? healthyParts() : defect.spoil(healthyParts());
    const name = platform === "healthy" ? healthyStage(defect) : defect.name;
    const { claims: all, facts, lines } = await playMiniStage(defect.stage, stage, parts);
    const claims = all
      .filter(({ id, verdict }) => verdict === "fail" || about.includes(id.replace(/\/.*$/, "")))
      .map((claim) => {
        const id = claim.id.replace(/\/.*$/, `/${name}`);
        return { ...claim, id, stage: name, replay: `npx floodgate demo ${defect.name}` };
      });
    progress({ defect, platform, claims });
    played.push({ claims, facts: { ...facts, stage: name }, lines: lines.map((line) => ({ ...line, stage: name })) });
  }
  return played;
};

/** Whether every judge that must kill the mutant did, and none failed the healthy platform. */
const isFound = (defect: Mutant, claims: readonly Claim[]): boolean => {
  const failed = claims.filter(({ verdict }) => verdict === "fail");
  const isKilledBy = (id: string): boolean => failed.some((claim) => claim.id === `${id}/${defect.name}`);
  return defect.kills.every(isKilledBy) && !failed.some(({ stage }) => stage === healthyStage(defect));
};

/** `missed`: mutants that survived a judge that must kill them. */
export const playDemo = async (defects: readonly Mutant[], progress: DemoProgress) => {
  const played: Played[] = [];
  for (const defect of defects) played.push(...(await playDefect(defect, progress)));
  const fold = seriesFold();
  const stages = played.map(({ facts, lines, claims }): RecordedStage => {
    const measure = stageMeasure(facts.stage);
    for (const line of lines) {
      measure.see(line);
      fold.see(line);
    }
    if (facts.limits !== undefined) fold.limits(facts.stage, facts.limits);
    return { ...measure.end(), claims, faults: [], notes: [] };
  });
  const claims = stages.flatMap((stage) => stage.claims);
  const missed = defects.filter((one) => !isFound(one, claims)).map(({ name }) => name);
  return { stages, series: fold.end(), missed };
};
