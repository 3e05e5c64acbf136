/**
 * What the gate claims: of each measurement, of invariants, of the form of answers, and of a goodput that sinks while the
 * head runs. The comparisons also as measurements of a report and as a table of 80 columns.
 */
import { someOf } from "../contract/lists.ts";
import type { CallLine } from "../history/line.ts";
import { BROKEN, HELD, openBy, type Ruling, skippedBy } from "../history/reason-codes.ts";
import { type Claim, claimOf, type Measurement, ruleOf } from "../history/run-document.ts";
import { inversionTails } from "../history/statistics/growth.ts";
import { isRefusedForALimit, isWhole, logWorse, MEASUREMENT_FACTS } from "./block.ts";
import { SIDES, type Side } from "./block-plan.ts";
import { type Comparison, type GateVerdict, type Pair, smallestSeen, typicalDifference } from "./paired-comparison.ts";

export const GATE_STAGE = "gate";
export const stageOf = (side: Side): string => `${GATE_STAGE}.${side}`;

const VERDICTS: Record<GateVerdict, readonly [Ruling, inTable: string]> = {
  regression: [BROKEN, "WORSE"],
  "no-regression": [HELD, "ok"],
  inconclusive: [openBy("too-few-calls"), "open"],
  "not-measured": [skippedBy("too-few-calls"), "-"],
};

const ratio = (value: number | null): string => (value === null ? "?" : value.toFixed(3));

const gotOf = (found: Comparison): string => {
  const { worseBy, low, high, pairs } = found;
  return worseBy === null
    ? "nothing to compare"
    : `${shown(found, found.head)} beside ${shown(found, found.base)}, ${ratio(worseBy)} times as bad (95 %: ${ratio(low)} to ${ratio(high)}) in ${pairs} pairs; ${ratio(smallestSeen(found))} would have been seen`;
};

export const gateClaims = (comparisons: readonly Comparison[], replay: string): Claim[] =>
  comparisons.map((comparison) => {
    const { measurement, verdict, reason, margin } = comparison;
    return claimOf({
      ...{ id: `gate/${measurement}`, stage: GATE_STAGE, replay, ...VERDICTS[verdict][0] },
      reason: verdict === "not-measured" ? `skipped: ${reason}` : reason,
      expected: `the head's ${measurement} at most ${margin} times as bad as the base's (${MEASUREMENT_FACTS[measurement].about})`,
      got: gotOf(comparison),
    });
  });

export const gateMeasurements = (comparisons: readonly Comparison[]): Measurement[] =>
  comparisons.flatMap(({ measurement, base, head, around, worseBy, low, high, pairs: n }) => {
    if (base === null || head === null || worseBy === null) return [];
    const { unit } = MEASUREMENT_FACTS[measurement];
    const of = { name: measurement, unit: unit === "share" ? "ratio" : unit, low: null, high: null, n };
    return [
      { ...of, ...around.base, stage: stageOf("base"), value: base },
      { ...of, ...around.head, stage: stageOf("head"), value: head },
      { name: `${measurement}_worse_by`, stage: GATE_STAGE, value: worseBy, unit: "ratio", low, high, n },
    ];
  });

const shown = ({ measurement }: Comparison, value: number | null): string => {
  if (value === null) return "-";
  if (MEASUREMENT_FACTS[measurement].unit === "share") return `${(value * 100).toFixed(2)}%`;
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
};

export const shownRatio = (value: number | null): string =>
  value === null ? "-" : value >= 100 ? ">=100" : value.toFixed(value >= 10 ? 1 : 3);

/** Widths of the columns, 80 with a space between. */
const WIDTHS = [16, 7, 7, 6, 13, 7, 6, 7];
const line = (...cells: string[]): string =>
  cells
    .map((cell, at) => (at === 0 || at === 7 ? cell.padEnd(WIDTHS[at]!) : cell.padStart(WIDTHS[at]!)))
    .join(" ")
    .trimEnd();

export const gateTable = (comparisons: readonly Comparison[]): string[] => [
  line("measurement", "base", "head", "ratio", "95 % interval", "allowed", "seen", "verdict"),
  ...comparisons.map((found) => {
    const { measurement, base, head, worseBy, low, high, margin, improved, verdict } = found;
    const interval = low === null ? "-" : `${shownRatio(low)}-${shownRatio(high)}`;
    const ratios = [shownRatio(worseBy), interval, shownRatio(margin), shownRatio(smallestSeen(found))];
    const word = improved ? "better" : VERDICTS[verdict][1];
    return line(measurement, shown(found, base), shown(found, head), ...ratios, word);
  }),
  "ratio: head to base, turned so that above 1 is worse (shares: by what remains",
  "of the calls), typical of the pairs. seen: the smallest ratio that these pairs",
  "would have shown as worse nine times in ten.",
];

/** Fewer pairs may show by chance what all blocks of one side have and no block of the other. */
const FEWEST_PAIRS = 6;

export type BlockFinding = { side: Side; pair: number; claim: Claim };

type Broken = [id: string, claims: Claim[]];

const listed = (broken: readonly Broken[]): string =>
  broken.map(([id, { length }]) => `${id} (${length} block${length === 1 ? "" : "s"})`).join(", ");

/** Reports whether calls went unanswered in one block of the head and were answered in a later one, as when it restarts. */
const isOver = (findings: readonly BlockFinding[]): boolean => {
  const answered = findings.filter(({ side, claim }) => side === "head" && ruleOf(claim) === "answered");
  const [first, ...others] = answered.filter(({ claim }) => claim.verdict === "fail");
  const isBack = answered.some(({ pair, claim }) => pair > (first?.pair ?? 0) && claim.verdict === "pass");
  return first !== undefined && others.length === 0 && isBack;
};

/**
 * The *musts* that are broken on the head, by name: those that hold on the base, those broken there too, those that no
 * block of the base could be judged by, as where its target file states less, and an outage of one block, which a restart
 * of the head by others may have been.
 */
export const brokenOnHead = (findings: readonly BlockFinding[]) => {
  const failed = findings.filter(({ claim }) => claim.level === "must" && claim.verdict === "fail");
  const isSilent = (one: BlockFinding): boolean =>
    failed.some(({ side, pair, claim }) => side === one.side && pair === one.pair && ruleOf(claim) === "answered");
  // An outage cuts the streams that it meets, so its block says that once.
  const broken = failed.filter((one) => ruleOf(one.claim) !== "streams-cut" || !isSilent(one));
  const claimsOf = (of: Side): Claim[] => broken.flatMap(({ side, claim }) => (side === of ? [claim] : []));
  const onBase = new Set(claimsOf("base").map(ruleOf));
  const ofBase = Map.groupBy(
    findings.filter(({ side }) => side === "base"),
    ({ claim }) => ruleOf(claim),
  );
  const onHead: Broken[] = [...Map.groupBy(claimsOf("head"), ruleOf)];
  const isOutage = ([id]: Broken): boolean => id === "answered" && !onBase.has(id) && isOver(findings);
  const outage = onHead.find(isOutage)?.[1][0];
  const others = onHead.filter((one) => !onBase.has(one[0]) && !isOutage(one));
  const isUnknown = ([id]: Broken): boolean => ofBase.get(id)?.every(({ claim }) => claim.verdict !== "pass") ?? false;
  const alone = others.filter((one) => !isUnknown(one));
  return { alone, unknown: others.filter(isUnknown), outage, onBoth: onHead.filter(([id]) => onBase.has(id)) };
};

/**
 * Judges invariants, which are exact on any machine: one that fails in a block of the head and in no block of the base
 * is a regression, whatever the figures show.
 */
export const invariantsClaim = (findings: readonly BlockFinding[], replay: string): Claim => {
  const { alone, unknown, outage, onBoth } = brokenOnHead(findings);
  const known = onBoth.length === 0 ? "" : `; broken on both, so not new: ${listed(onBoth)}`;
  const judged = (ruling: Ruling, reason: string, got: string, evidence: string[] = []): Claim => {
    const expected = "no invariant fails on the head that holds on the base";
    const about = { id: "gate/invariants", stage: GATE_STAGE, replay, expected };
    return claimOf({ ...about, ...ruling, reason: reason + known, got, evidence });
  };
  const shown = (broken: readonly Broken[]): [string, string[]] => [
    broken.map(([id, [first]]) => `${id}: ${first?.reason}: ${first?.got}`).join("; "),
    broken.flatMap(([, [first]]) => first?.evidence ?? []).slice(0, 10),
  ];
  if (alone.length > 0) return judged(BROKEN, `broken on the head alone: ${listed(alone)}`, ...shown(alone));
  if (unknown.length > 0) {
    const todo = "if the head's target file states more, state the same for the base";
    const what = `broken on the head, and no block of the base could be judged by it: ${listed(unknown)}; ${todo}`;
    return judged(openBy("not-comparable"), what, ...shown(unknown));
  }
  if (outage !== undefined) {
    const todo = "it answered again afterwards; was it restarted meanwhile? Then play the gate again";
    const what = `calls went unanswered in one block of the head alone, and ${todo}`;
    return judged(openBy("not-answered"), `${what}: ${outage.reason}`, outage.got, outage.evidence);
  }
  // A side left too many calls unanswered if `answered` fails or is open in half of its blocks.
  const answered = findings.filter(({ claim }) => ruleOf(claim) === "answered");
  const isOpen = ({ claim: { verdict } }: BlockFinding): boolean => verdict === "fail" || verdict === "inconclusive";
  const silent = SIDES.filter((of) => {
    const asked = answered.filter(({ side }) => side === of);
    return asked.some(isOpen) && 2 * asked.filter(isOpen).length >= asked.length;
  });
  if (silent.length > 0) {
    const first = answered.find(({ claim }) => claim.verdict !== "pass")?.claim;
    const what = `the ${silent.join(" and the ")} left too many calls unanswered to be compared`;
    return judged(openBy("not-answered"), `${what}: ${first?.reason ?? ""}`, first?.got ?? "", first?.evidence);
  }
  const held = findings.filter(({ side, claim }) => side === "head" && claim.verdict === "pass");
  const passed = [...new Set(held.map(({ claim }) => ruleOf(claim)))].sort();
  return passed.length > 0 || onBoth.length > 0
    ? judged(HELD, `${passed.length} invariants held on the head`, passed.join(", "))
    : judged(openBy("too-few-calls"), "no block could be judged by any invariant", "nothing to judge by");
};

/**
 * The forms of a block's answers: refusals by subcode, those of them that had a Retry-After, events of whole streams by
 * route. Streams that end in an error are left out: a head without errors has lost nothing.
 */
export const answerForms = (lines: readonly CallLine[]) => {
  const refused = lines.filter(isRefusedForALimit);
  return {
    refusals: new Set(refused.map(({ outcome }) => outcome)),
    withRetryAfter: new Set(refused.flatMap((one) => (one.retry_after === undefined ? [] : [one.outcome]))),
    events: new Set(
      lines.filter(isWhole).flatMap(({ route, event_names: names = [] }) => names.map((name) => `${name} (${route})`)),
    ),
  };
};

type AnswerForms = ReturnType<typeof answerForms>;

/**
 * Judges the form of answers, because a client decides by the subcode, waits as Retry-After says, and waits for the last
 * event. `lost` is what every block of the base has and no block of the head. A lost subcode fails the head only if
 * another came in its place, and a lost Retry-After only if its refusal still comes, because a head may refuse nothing.
 * What the head has in addition is no regression.
 */
export const answersClaim = (
  blocks: Readonly<Record<Side, AnswerForms[]>>,
  replay: string,
  /** The head has a higher goodput, so another cap may come first. */
  carriesMore = false,
): Claim => {
  const compared = (part: keyof AnswerForms) => {
    const of = (side: Side): Set<string> => new Set(blocks[side].flatMap((forms) => [...forms[part]]));
    const [base, head] = [of("base"), of("head")];
    const lost = [...base.difference(head)].filter((form) => blocks.base.every((forms) => forms[part].has(form)));
    return { base, head, lost, gained: [...head.difference(base)] };
  };
  const [refusals, events] = [compared("refusals"), compared("events")];
  const isOther = refusals.lost.length > 0 && refusals.gained.length > 0;
  const others = `the head refuses with ${refusals.gained.join(", ")} in place of ${refusals.lost.join(", ")}`;
  const untimed = compared("withRetryAfter").lost.filter((outcome) => refusals.head.has(outcome));
  const changes = [
    ...(isOther && !carriesMore ? [others] : []),
    ...(untimed.length > 0 ? [`the head refuses with ${untimed.join(", ")} without Retry-After`] : []),
    ...(events.lost.length > 0 ? [`no stream of the head has the event ${someOf(events.lost, 5)}`] : []),
  ];
  const judged = (): [Ruling, string] => {
    if (blocks.base.length === 0) return [openBy("too-few-calls"), "no pair was compared"];
    if (refusals.base.size + events.base.size === 0)
      return [skippedBy("not-seen"), "skipped: the base refused no call for a limit, and had no stream with events"];
    const kept = isOther ? `${others}, and carries more` : "no subcode was replaced";
    if (changes.length === 0) return [HELD, `no Retry-After and no event was lost; ${kept}`];
    if (blocks.base.length < FEWEST_PAIRS)
      return [openBy("too-few-calls"), `too few pairs to be sure that ${changes.join("; ")}`];
    return [BROKEN, `${changes.join("; ")}: every block of the base has what is lost`];
  };
  const [ruling, reason] = judged();
  const expected =
    "what every block of the base answers, a block of the head answers too: subcodes, Retry-After, events";
  const got = `new on the head: ${someOf([...refusals.gained, ...events.gained], 5) || "nothing"}`;
  return claimOf({ id: "gate/answers", stage: GATE_STAGE, replay, ...ruling, reason, expected, got });
};

/**
 * The probability that so few pairs of `values` descend (the later is lower) if their order is random: the exact test of
 * Mann and Kendall. Ties count as descending, which is the safe side. 1 for an empty list.
 *
 * Source: Kendall & Gibbons, "Rank Correlation Methods", 5th ed. (1990), chapters 1 and 4.
 */
export const risingP = (values: readonly number[]): number => {
  let descending = 0;
  for (const [at, value] of values.entries()) {
    for (const later of values.slice(at + 1)) if (later <= value) descending += 1;
  }
  return inversionTails(values.length)[descending] as number;
};

const SINKING = {
  sinks: [BROKEN, "the head carries less from pair to pair, as where slots are not given back"],
  holds: [HELD, "the head carries as much in the last pairs as in the first"],
  "too-few": [openBy("too-few-calls"), "too few pairs"],
  // The claim about goodput itself shows that the head carries nothing.
  nothing: [openBy("not-answered"), "the head carried nothing from the first pairs on"],
} as const;

/** `lostBy`: how many times worse the last third of the pairs is than the first, typically; `null` where nothing is decided. */
type Sinking = { verdict: keyof typeof SINKING; pairs: number; lostBy: number | null; p: number };

/** A head with a hundredth of the base's goodput carries nothing. */
const NOTHING = Math.log(100);

/**
 * Judges whether the ratio of head's to base's goodput falls by `margin` or more, at the significance `falseAlarm`:
 * leaking slots cost nothing in the first block and everything in the last.
 */
export const sinkingOf = (pairs: readonly Pair[], margin: number, falseAlarm: number): Sinking => {
  const worse = pairs.flatMap(({ base, head }) =>
    base.goodput === null || head.goodput === null ? [] : [logWorse("goodput", base.goodput, head.goodput)],
  );
  const undecided = (verdict: Sinking["verdict"]): Sinking => ({ verdict, pairs: worse.length, lostBy: null, p: 1 });
  const third = Math.ceil(worse.length / 3);
  const first = typicalDifference(worse.slice(0, third));
  const last = typicalDifference(worse.slice(-third));
  if (first === null || last === null || worse.length < FEWEST_PAIRS) return undecided("too-few");
  if (first >= NOTHING) return undecided("nothing");
  const p = risingP(worse);
  const lostBy = Math.exp(last - first);
  return { verdict: p <= falseAlarm && lostBy >= margin ? "sinks" : "holds", pairs: worse.length, lostBy, p };
};

export const sinkingClaim = ({ verdict, pairs, lostBy, p }: Sinking, replay: string): Claim => {
  const [judged, reason] = SINKING[verdict];
  const chance = `a fall like this by chance ${(p * 100).toPrecision(2)} %`;
  return claimOf({
    ...{ id: "gate/goodput_kept", stage: GATE_STAGE, replay, ...judged },
    reason: verdict === "too-few" ? `${reason}: ${pairs}` : reason,
    expected: "the head's goodput beside the base's does not fall while the run goes on",
    got:
      lostBy === null
        ? "nothing to compare"
        : `${lostBy.toFixed(3)} times worse in the last third of ${pairs} pairs; ${chance}`,
  });
};
