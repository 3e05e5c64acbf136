/** Plans which mutants are tried on which small stages, and tries them. An undecided trial is repeated; a verdict stands. */
import type { Claim } from "../history/run-document.ts";
import { type Mutant, type MutantStage, nobody } from "../mutants/mutant.ts";
import { HEALTHY, type Parts } from "../platform/parts.ts";
import { REVOCATION_BUDGET_MS } from "./stage-bench.ts";
import { MINI_STAGE_NAMES, MINI_STAGES, runMiniStage } from "./stages.ts";

/** The kinds of judge, which are the columns of `dev mutants` (see `mutants/README.md`). */
export const COLUMNS = ["properties", "verify", "load", "chaos", "gate"] as const;
export type Column = (typeof COLUMNS)[number];

export const columnOf = (name: MutantStage): Column => {
  const stage = MINI_STAGES[name];
  if ("compare" in stage) return "gate";
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

/** Most tries of an undecided trial. The gate measures longer itself, and virtual time repeats itself: both get one try. */
const ATTEMPTS = 3;

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

/** Tries a mutant on a stage: up to `ATTEMPTS` times on its own stage, once on another. */
export const tryOn = async (mutant: Mutant, stage: MutantStage): Promise<Trial> => {
  const beganMs = performance.now();
  const healthy = mutant.name === nobody.name;
  const own = healthy || stage === mutant.stage;
  const intended = healthy ? MINI_STAGES[stage].proves : own ? mutant.kills : [];
  const most = own && "play" in MINI_STAGES[stage] ? ATTEMPTS : 1;
  const [name, parts] = [healthy ? null : mutant.name, () => mutant.spoil(healthyParts())];
  for (let attempts = 1; ; attempts += 1) {
    const judged = await runMiniStage(stage, name, parts(), healthyParts(), intended).then(
      (claims) => judge(claims, healthy, own, intended),
      (error): Judged => {
        return { verdict: "undecided", by: [], reasons: [error instanceof Error ? error.message : String(error)] };
      },
    );
    if (judged.verdict === "undecided" && attempts < most) continue;
    const durationMs = Math.round(performance.now() - beganMs);
    return { mutant: mutant.name, column: columnOf(stage), stage, own, intended, ...judged, attempts, durationMs };
  }
};

/** Only trials on a mutant's own stage, and those of the healthy platform, can be wrong. */
export const isRight = ({ verdict, own }: Trial): boolean => !own || verdict === "killed" || verdict === "acquitted";

/** Whether the verdict is wrong; a retry would not change it. */
export const isWrong = ({ verdict }: Trial): boolean =>
  verdict === "survived" || verdict === "wrong-judge" || verdict === "false-positive";

/** The cheapest stage of each column, on which every mutant is tried. The gate has none, because it is slow. */
export const CHEAPEST: Readonly<Partial<Record<Column, MutantStage>>> = {
  verify: "verify",
  load: "answers",
  chaos: "limiter-refused",
};

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
export const tryAll = async (
  attempts: readonly Attempt[],
  onTrial: (trial: Trial) => void = () => {},
): Promise<Trial[]> => {
  const trials: Trial[] = [];
  const work = async (entries: Iterable<[number, Attempt]>): Promise<void> => {
    for (const [at, { mutant, stage }] of entries) {
      const trial = await tryOn(mutant, stage);
      trials[at] = trial;
      onTrial(trial);
    }
  };
  const all = [...attempts.entries()];
  const sideBySide = all.filter(([, { stage }]) => stage !== "gate").values();
  await Promise.all(Array.from({ length: AT_ONCE }, () => work(sideBySide)));
  // The gate compares times, so it runs alone.
  await work(all.filter(([, { stage }]) => stage === "gate"));
  return trials;
};
