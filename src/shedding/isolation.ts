/**
 * What quiet organizations lose because of a noisy one: the same calls of the same schedule are played beside the noisy
 * one and without it, and paired by their numbers. Losses with another cause occur in both. When the machine or the
 * deployment stands still, many calls are refused at once, so the seconds with losses are compared (exact test: Fisher,
 * "Statistical Methods for Research Workers", 5th edition, 1934, section 21.02).
 */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import { classOf, type Line } from "../history/line.ts";
import { BROKEN, HELD } from "../history/reason-codes.ts";
import { type Claim, claimOf, type Measurement, type StageFacts } from "../history/run-document.ts";
import { add, exactInterval, sumOf } from "../history/statistics/statistics.ts";
import { type Finding, found, open, skipped } from "./finding.ts";

/** What a stage plays: the quiet calls beside the noisy organization, or alone. */
export type IsolationPart = "beside" | "alone";

/**
 * By call number the outcome, and the second of the schedule in which the call was due; `full`: all places were taken, and
 * none is held for anyone. `evidence`: shed calls.
 */
type Outcome = { came: "served" | "shed" | "full"; second: number };
type Played = { facts: StageFacts; outcomes: Map<number, Outcome>; evidence: string[] };

/** The refusal of an organization that exceeds its own cap. */
const ITS_OWN = "429 org_overloaded";
const SECOND_US = 1_000_000;
const CALLS_MOST = 200_000;
const PAIRS_MIN = 100;
/** Significance level: a fair deployment fails in one run of a thousand. */
const CHANCE = 0.001;
/** The share to keep. Netflix kept 99.4 % beside twelve times the load; slots held for each organization keep all. */
const KEPT = 0.999;
/** If quiet organizations lose more than this share without the noisy one, they are not inside their share. */
const LOST_ALONE = 0.01;
const EVIDENCE_MOST = 10;

const percent = (share: number): string => `${Number((100 * share).toFixed(2))} %`;

/** The logarithm of the number of ways to choose `k` of `n`. */
const waysLog = (n: number, k: number): number =>
  sumOf(Array.from({ length: k }, (_, i) => Math.log((n - i) / (i + 1))));

/** The chance that of `all` seconds with losses, in two plays of `seconds` each, at least `first` lie in the first play. */
const chanceOf = (first: number, all: number, seconds: number): number => {
  const [from, to] = [Math.max(first, all - seconds), Math.min(all, seconds)];
  const each = Array.from(
    { length: to - from + 1 },
    (_, i) => waysLog(seconds, from + i) + waysLog(seconds, all - from - i),
  );
  return sumOf(each.map((ways) => Math.exp(ways - waysLog(2 * seconds, all))));
};

export const createIsolation = () => {
  const played = new Map<IsolationPart, Played>();
  let isNoiseShed = false;

  /** Follows one stage: the returned function takes each of its lines, in time order. */
  const follow = (part: IsolationPart, facts: StageFacts): ((line: Line) => void) => {
    const { outcomes, evidence }: Omit<Played, "facts"> = { outcomes: new Map(), evidence: [] };
    played.set(part, { facts, outcomes, evidence });
    /** The latest end of the served calls of each organization. */
    const busyUntilUs = new Map<string, number>();
    const { org_in_flight: ofOrg, global_in_flight: ofAll } = facts.limits;
    // If one may hold over half of all places (or it is not stated), another inside its share may find none.
    const isHeld = ofOrg !== undefined && ofAll !== undefined && 2 * ofOrg <= ofAll;
    return (line) => {
      if (line.type !== "call" || line.unscheduled !== undefined || line.attempt > 0) return;
      const { org, outcome, sent_us: sent, done_us: done } = line;
      if (facts.tenants[org]?.noisy === true) {
        if (part === "beside") isNoiseShed ||= outcome === ITS_OWN;
        return;
      }
      const number = Number(/-(\d+)$/.exec(line.id)?.[1] ?? Number.NaN);
      if (Number.isNaN(number) || outcomes.size >= CALLS_MOST) return;
      const busyUs = busyUntilUs.get(org) ?? 0;
      const isServed = classOf(outcome) === "answered";
      if (isServed) busyUntilUs.set(org, Math.max(busyUs, done));
      // One call at a time is inside any share. Other refusals, and no answer, are no loss to a neighbour.
      if (busyUs > sent || (!SHED_OUTCOMES.has(outcome) && !isServed)) return;
      const isShed = !isServed && (isHeld || outcome === ITS_OWN);
      const came = isServed ? "served" : isShed ? "shed" : "full";
      outcomes.set(number, { came, second: Math.floor(line.intended_us / SECOND_US) });
      if (isShed && evidence.length < EVIDENCE_MOST) evidence.push(line.id);
    };
  };

  const see = (part: IsolationPart, lines: Iterable<Line>, facts: StageFacts): void => {
    const take = follow(part, facts);
    for (const line of lines) take(line);
  };

  /** Returns no claims if one of the two parts was not played. */
  const judged = (replay: string): { claims: Claim[]; measurements: Measurement[] } => {
    const [beside, alone] = [played.get("beside"), played.get("alone")];
    if (beside === undefined || alone === undefined) return { claims: [], measurements: [] };
    const { stage, exclusive, limits } = beside.facts;
    const pairs = [...beside.outcomes].flatMap(([number, now]) => {
      const without = alone.outcomes.get(number);
      return without === undefined ? [] : [{ now: now.came, without: without.came, second: now.second }];
    });
    const count = (wanted: (pair: (typeof pairs)[number]) => boolean): number => pairs.filter(wanted).length;
    const n = pairs.length;
    const kept = count(({ now }) => now === "served");
    const lostAlone = count(({ without }) => without !== "served");
    const lost = count(({ now, without }) => now === "shed" && without === "served");
    const interval = exactInterval(kept, n);
    /** Calls lost less calls won, by the second. */
    const bySecond = new Map<number, number>();
    for (const { now, without, second } of pairs) {
      if (now === "shed" && without === "served") add(bySecond, second, 1);
      if (now === "served" && without === "shed") add(bySecond, second, -1);
    }
    const balances = [...bySecond.values()];
    const [losing, winning] = [balances.filter((by) => by > 0).length, balances.filter((by) => by < 0).length];
    const seconds = new Set(pairs.map(({ second }) => second)).size;
    const chance = chanceOf(losing, losing + winning, seconds);
    const got = `${kept} of ${n} quiet calls were served beside the noisy organization (${percent(interval?.low ?? 0)} to ${percent(interval?.high ?? 1)}), ${n - lostAlone} without it`;
    const judge = (): Finding => {
      const { org_in_flight: ofOrg, global_in_flight: ofAll } = limits;
      if (!exclusive)
        return skipped(
          "not-exclusive",
          "`exclusive`: what another caller takes is not told from what a neighbour takes",
        );
      if (ofOrg === undefined ? !isNoiseShed : ofOrg >= (ofAll ?? Number.POSITIVE_INFINITY)) {
        return skipped("not-stated", "a share of each organization (`limits.org_in_flight`); none was shed for itself");
      }
      // A share that nobody keeps refuses its own organization nothing: then the others are refused.
      if (!isNoiseShed && lost === 0) return skipped("not-reached", "a noisy organization that runs into its own cap");
      if (n < PAIRS_MIN) return open("too-few-calls", `${n} calls were played both ways; it takes ${PAIRS_MIN}`);
      if (lostAlone > LOST_ALONE * n)
        return open("ambiguous", `without the noisy one ${lostAlone} of ${n} calls were shed as well`, got);
      if (chance < CHANCE && (exactInterval(n - lost, n)?.high ?? 1) < KEPT) {
        const reason = `quiet organizations were refused because of another: ${lost} calls that are served without it`;
        return { ...found(BROKEN, reason, got), evidence: beside.evidence };
      }
      if (kept >= KEPT * n) return found(HELD, got);
      if (n - lost < KEPT * n) {
        const when = `${lost} were lost within ${losing} of its seconds, which a standstill can explain`;
        return open(
          "too-few-calls",
          `too little to be certain, so play it for longer (\`--duration\`): ${got}; ${when}`,
          got,
        );
      }
      const full = count(({ now }) => now === "full");
      const stated = "`limits.org_in_flight` that is at most half of `limits.global_in_flight`";
      return {
        ...skipped(
          "not-stated",
          `${stated}: the deployment was full when ${full} quiet calls came, and it is not known how many slots are kept for their organizations`,
        ),
        got,
      };
    };
    const expected = "an organization inside its share is not refused because of another";
    const value = { name: "isolation", stage, unit: "ratio", value: kept / n, n };
    return {
      claims: [claimOf({ id: "curve/isolation", stage, replay, expected, ...judge() })],
      measurements: interval === null ? [] : [{ ...value, ...interval }],
    };
  };
  return { follow, see, judged };
};
