/**
 * Compares the highest rates of several numbers of replicas: how the deployment scales, the smallest number that carries a
 * demand, and what is left without one replica. Nothing is said of a number that was not measured.
 */
import { BROKEN, HELD, openBy } from "../history/reason-codes.ts";
import { type Claim, claimOf, type Verdict } from "../history/run-document.ts";
import { answerText, type Demand, demandVerdict, type Found, neededPerS } from "./capacity-claims.ts";
import { perS } from "./probe.ts";

export type OfReplicas = Found & { replicas: number };

/** If the ends of a ratio's interval differ by more than this factor, nothing is called proportional. */
const WIDEST = 1.4;

const counted = (count: number): string => `${count} ${count === 1 ? "replica" : "replicas"}`;

/** The ratio of two highest rates with its 95 % interval, from two independent searches; `null` unless both were found. */
const ratioOf = ({ answer }: OfReplicas, { answer: base }: OfReplicas) => {
  if (answer.kind !== "found" || base.kind !== "found" || answer.high === null || base.high === null) return null;
  const value = answer.ratePerS / base.ratePerS;
  const below = Math.hypot(Math.log(answer.ratePerS / answer.low), Math.log(base.high / base.ratePerS));
  const above = Math.hypot(Math.log(answer.high / answer.ratePerS), Math.log(base.ratePerS / base.low));
  return { value, low: value * Math.exp(-below), high: value * Math.exp(above) };
};

const scalingText = (row: OfReplicas, first: OfReplicas): string[] => {
  const ratio = ratioOf(row, first);
  if (ratio === null) return [];
  const expected = row.replicas / first.replicas;
  const [value, low, high] = [ratio.value, ratio.low, ratio.high].map((one) => one.toFixed(2));
  const say = (what: string): string[] => [
    `${counted(row.replicas)} carry ${value} times as much as ${first.replicas} (${low} to ${high}, 95 %): ${what}.`,
  ];
  const proportional = `the ${expected.toFixed(2)} times of proportional scaling`;
  if (ratio.low > expected) return say(`more than ${proportional}`);
  if (ratio.high >= expected) {
    const isNarrow = ratio.high / ratio.low <= WIDEST;
    return say(isNarrow ? "proportional, within the interval" : "too wide an interval to say whether proportional");
  }
  const limited = row.limit.owner === "none" ? "" : `; the limit met first: ${row.limit.sentence}`;
  const check = "; check that scale.set took effect, that new replicas get calls, and that nothing shared is the limit";
  return say(`less than ${proportional}${limited}${ratio.high < (1 + expected) / 2 ? check : ""}`);
};

/** `ofReplicas`: one of so many may fail; `null` if that was not asked. */
type Asked = { demand: Demand | null; ofReplicas: number | null };

/** Lines for people and claims over all numbers. `closing`: a sentence about the number of replicas that stands now. */
export const compareReplicas = (
  measured: readonly OfReplicas[],
  { demand, ofReplicas }: Asked,
  closing: string,
  replay: string,
): { lines: string[]; claims: Claim[] } => {
  const rows = measured.toSorted((a, b) => a.replicas - b.replicas) as [OfReplicas, ...OfReplicas[]];
  const each = rows.map(({ replicas, answer }) => {
    return `${counted(replicas)}: ${answer.kind === "unknown" ? answer.reason : answerText(answer)}`;
  });
  const advice = new Set(rows.flatMap((row) => row.advice));
  const [left, whole] = [1, 0].map((fewer) => rows.find(({ replicas }) => replicas + fewer === ofReplicas));
  const ratio = left && whole ? ratioOf(left, whole) : null;
  const share = (of: number): string => `${(100 * of).toFixed(0)} %`;
  const lines = [...each, ...rows.slice(1).flatMap((row) => scalingText(row, rows[0])), ...advice];
  if (ratio !== null)
    lines.push(
      `Without one of ${ofReplicas} replicas ${share(ratio.value)} is left (${share(ratio.low)} to ${share(ratio.high)}, 95 %).`,
    );
  const isFound = rows.every(({ answer }) => answer.kind === "found");
  const common = { stage: "capacity", replay, got: each.join("; ") };
  const found = claimOf({
    ...{ ...common, id: "capacity/replicas", level: "info", ...(isFound ? HELD : openBy("too-few-calls")) },
    ...{ reason: lines.join("; "), expected: "the highest rate of each number of replicas" },
  });
  if (demand === null) return { lines: [...lines, closing], claims: [found] };
  const by = Map.groupBy(rows, (row) => demandVerdict(row, demand).verdict);
  const numbers = (verdict: Verdict): number[] => by.get(verdict)?.map(({ replicas }) => replicas) ?? [];
  const [smallest] = numbers("pass");
  const needed = perS(neededPerS(demand));
  const carried = [
    smallest === undefined
      ? `No measured number of replicas is known to carry ${needed}, headroom included.`
      : `${counted(smallest)}: the smallest measured number that carries ${needed}, headroom included.`,
    ...(by.has("fail") ? [`Too few: ${numbers("fail").join(", ")}.`] : []),
    ...(by.has("inconclusive") ? [`Not decided: ${numbers("inconclusive").join(", ")}.`] : []),
  ];
  const judged = (id: string, isPass: boolean, isFail: boolean, of: string): Claim =>
    claimOf({
      ...{ ...common, id: `capacity/${id}`, ...(isPass ? HELD : isFail ? BROKEN : openBy("too-few-calls")) },
      ...{
        reason: [...carried, ...advice, closing].join(" "),
        expected: `${rows[0].objectives.join(", ")} at ${needed} ${of}`,
      },
    });
  const isTooFew = numbers("fail").length === rows.length;
  const claims = [found, judged("demand", smallest !== undefined, isTooFew, "with a measured number of replicas")];
  if (ofReplicas !== null) {
    const [isPass, isFail] = (["pass", "fail"] as const).map((verdict) => numbers(verdict).includes(ofReplicas - 1));
    const fewer = `with ${counted(ofReplicas - 1)}, one fewer than ${ofReplicas}`;
    claims.push(judged("without-one-replica", isPass === true, isFail === true, fewer));
  }
  return { lines: [...lines, ...carried, closing], claims };
};
