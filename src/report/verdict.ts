/**
 * Merges many claims to one verdict. The rule stands in one place, because an exit code that is too kind is the worst
 * mistake of such a tool: a skipped claim is not passed, and a run that judged nothing is not a pass.
 */

import { someOf } from "../contract/lists.ts";
import { type Claim, type ClaimVerdict, groupOf, type Level, type RunDocument } from "../history/run-document.ts";
import { clip, oneLine } from "./escape.ts";
import { counted } from "./figures.ts";

export const VERDICTS: readonly ClaimVerdict[] = ["fail", "inconclusive", "skipped", "pass"];
export const LEVELS: readonly Level[] = ["must", "should", "info"];

const isOpen = ({ verdict }: Claim): boolean => verdict === "fail" || verdict === "inconclusive";

/** Reports whether this claim says that the API did not answer, on which the other claims of a stage rest. */
export const comesFirst = (claim: Claim): boolean => claim.id.startsWith("answered/") && isOpen(claim);

/** Reports whether this claim says why a stage did not reach what it is about, which leaves its other claims open. */
const isUnreached = (claim: Claim): boolean => claim.id.startsWith("reached/") && isOpen(claim);

/**
 * Sorts claims by verdict, level and id. Claims that say that the API did not answer come before all others, and of equal verdict
 * and level the claims that say why a stage was not reached come first.
 */
export const claimsInOrder = (claims: readonly Claim[]): Claim[] =>
  [...claims].sort(
    (a, b) =>
      Number(comesFirst(b)) - Number(comesFirst(a)) ||
      VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict) ||
      LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) ||
      Number(isUnreached(b)) - Number(isUnreached(a)) ||
      (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
  );

/** The reason of a skipped claim, without the word with which judges begin their sentence. */
export const bareReason = ({ reason }: Claim) => oneLine(reason).replace(/^skipped: */, "") || "no reason was given";

export const countByVerdict = (claims: readonly Claim[]): Record<ClaimVerdict, number> => {
  const counts = { fail: 0, inconclusive: 0, skipped: 0, pass: 0 };
  for (const claim of claims) counts[claim.verdict] += 1;
  return counts;
};

const EXIT_CODE = { pass: 0, fail: 1, inconclusive: 4 } as const;
const NAMED_MAX = 5;
/** How many reasons why required names were not judged are told, and how many names for each. */
const ALIKE_MAX = 3;
/** A command's word before a stage in `required`, as in `load/chat-past-capacity`. */
const COMMAND = /^(?:load|chaos)\//;

const merged = (verdict: keyof typeof EXIT_CODE, reason: string) => ({
  verdict,
  exit_code: EXIT_CODE[verdict],
  reason,
});

/** Names claims, `answered` first, because the other claims of a stage rest on it. */
const namesOf = (ids: readonly string[]): string => {
  const isFirst = (id: string): boolean => groupOf(id) === "answered";
  return someOf([...new Set([...ids.filter(isFirst), ...ids])], NAMED_MAX);
};

/** Reports whether `name` of a `required` list is a group or a stage that the claim belongs to. */
const means = (name: string, claim: Claim): boolean =>
  groupOf(claim.id) === name ||
  claim.stage === name ||
  groupOf(claim.stage) === name ||
  (COMMAND.test(name) && claim.stage === name.replace(COMMAND, ""));

/** Reports whether a claim decides about the target; `info` only records. */
const isJudged = (claim: Claim) => claim.level !== "info" && (claim.verdict === "pass" || claim.verdict === "fail");

/** Reports whether a claim is about the target; the search for credentials is about what this program wrote, in every run. */
const isAboutTarget = ({ id }: Claim) => groupOf(id) !== "secrets-stay-secret";

/**
 * Why one required name is missing, or `null`. A claim named by its own id has to be judged, a stage has to be
 * played, and of any other group one claim has to be judged: the others may be skipped because the deployment lacks
 * something. `verify --require-all` names every claim.
 */
const missing = (name: string, claims: readonly Claim[]): string | null => {
  const having = (id: string): Claim[] => claims.filter((claim) => claim.id === id);
  const [named, played] = [having(name), having(`reached/${name.replace(COMMAND, "")}`)];
  const own = named.length > 0 ? named : played;
  const lacking = own.find(({ verdict }) => verdict === "skipped");
  if (own.length > 0) return lacking === undefined ? null : bareReason(lacking);
  const meant = claims.filter((claim) => means(name, claim));
  if (meant.length === 0) return "absent: nothing of that name was judged";
  if (meant.some(isJudged)) return null;
  const skipped = meant.filter(({ verdict }) => verdict === "skipped");
  const which = skipped.length === meant.length ? "all of it skipped" : "nothing of it judged";
  return `${which}: ${namesOf(meant.map(({ id }) => id))}`;
};

/** A reason in this sentence is cut to this many characters; the report has the whole. */
const REASON_MAX = 60;
const REASONS_SHOWN = 5;

/** Counts *should* claims that did not pass, which do not change a pass: `; 1 that should hold does not`. */
const shouldsText = (claims: readonly Claim[]): string => {
  const { fail, inconclusive } = countByVerdict(claims.filter(({ level }) => level === "should"));
  const failed = fail === 0 ? "" : `; ${fail} that should hold ${fail === 1 ? "does" : "do"} not`;
  return failed + (inconclusive === 0 ? "" : `; ${inconclusive} that should hold could not be decided`);
};

/** `; 7 not judged: 4 (the role … is missing), …`, the largest groups first; empty if everything was judged. */
const notJudgedText = (claims: readonly Claim[]): string => {
  const skipped = claims.filter(({ verdict }) => verdict === "skipped");
  // Info claims are counted without their reasons, which stand in the report.
  const major = skipped.filter(({ level }) => level !== "info");
  const minor = skipped.length - major.length;
  const minors = minor === 0 ? [] : [counted(minor, "info claim")];
  if (minor === skipped.length) return minor === 0 ? "" : `; ${minors} not judged`;
  // Reasons that begin alike, such as "not seen on this target: no refusal came", are one group here.
  const of = (claim: Claim): string =>
    bareReason(claim)
      .split(/[:;] /)[0]
      ?.replace(/ \([^)]*$/, "") || "no reason was given";
  const sizes = [...Map.groupBy(major, of)].map(([reason, { length: n }]) => ({ reason, n })).sort((a, b) => b.n - a.n);
  const shown = sizes.slice(0, REASONS_SHOWN).map(({ reason, n }) => `${n} (${clip(reason, REASON_MAX)})`);
  const rest = sizes.slice(REASONS_SHOWN).reduce((sum, { n }) => sum + n, 0);
  const others = rest === 0 ? [] : [`${rest} for other reasons`];
  return `; ${skipped.length} not judged: ${[...shown, ...others, ...minors].join(", ")}`;
};

/**
 * Merges claims. A failed `must` fails the run; else an inconclusive `must`, a required claim or
 * group that was skipped or is absent, or a run without a judged claim makes it inconclusive. `should` and `info` never
 * fail it. `required` holds claim ids, groups (what stands before `/`) and stages.
 */
export const mergeClaims = (claims: readonly Claim[], required: readonly string[]): ReturnType<typeof merged> => {
  const musts = claims.filter((c) => c.level === "must");
  const ofAll = counted(musts.length, "required claim");
  const having = (verdict: ClaimVerdict): string[] => musts.filter((c) => c.verdict === verdict).map((c) => c.id);
  const [broken, open, held] = [having("fail"), having("inconclusive"), having("pass").length];
  const are = broken.length === 1 ? "is" : "are";
  if (broken.length > 0) return merged("fail", `${broken.length} of ${ofAll} ${are} broken: ${namesOf(broken)}.`);
  const reasons: string[] = [];
  if (open.length > 0) reasons.push(`${open.length} of ${ofAll} could not be decided: ${namesOf(open)}.`);
  const absent = [...Map.groupBy(required, (name) => missing(name, claims))].flatMap(([why, names]) =>
    why === null ? [] : [`${someOf(names, ALIKE_MAX)} (${why})`],
  );
  const left = absent.length > ALIKE_MAX ? " reasons" : "";
  if (absent.length > 0) reasons.push(`Required, but not judged: ${someOf(absent, ALIKE_MAX)}${left}.`);
  if (!claims.some((claim) => isJudged(claim) && isAboutTarget(claim)))
    reasons.push("No claim was judged, so nothing is known about the target.");
  if (reasons.length > 0) return merged("inconclusive", reasons.join(" "));
  const all = `${held} of ${counted(held, "required claim")} ${held === 1 ? "holds" : "hold"}`;
  return merged("pass", `${all}${shouldsText(claims)}${notJudgedText(claims)}.`);
};

/**
 * Why a finished run has its verdict, in words. Older documents lack the `required` list; if the claims alone give another
 * verdict, the recorded one is shown, and that it came from elsewhere.
 */
export const whyOf = (run: RunDocument): string => {
  const standIns = run.stand_ins?.map(({ tool, by }) => `${tool} is not on this machine: ${by} stood in for it.`);
  return [whyByClaims(run), ...(standIns ?? [])].join(" ");
};

const whyByClaims = (run: RunDocument): string => {
  const fromClaims = mergeClaims(run.claims, run.required ?? []);
  if (fromClaims.verdict === run.verdict) return fromClaims.reason;
  const skipped = run.claims.filter((c) => c.verdict === "skipped").length;
  if (run.verdict === "inconclusive" && fromClaims.verdict === "pass") {
    return `No judged claim is broken, but something that was required was not judged${skipped > 0 ? ` (${counted(skipped, "claim was", "claims were")} skipped)` : ""}, or the run ended early.`;
  }
  return `The run was recorded as ${run.verdict}; its claims alone say ${fromClaims.verdict}: ${fromClaims.reason}`;
};
