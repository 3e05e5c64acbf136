/**
 * Two sides measured in turn, A B A B …, in short blocks: what the machine does meanwhile meets both alike, so each pair
 * gives a ratio, and the median of the ratios is the figure. Absolute figures of a shared machine decide nothing.
 */

/** One block. Higher is better, unless the row says otherwise. */
export type Block = {
  value: number;
  /** CPU time of the server under test for one call or event, in microseconds; `null` where it means nothing. */
  cpuUsEach: number | null;
  /** Why this block could not be trusted. */
  doubts: string[];
};

export type Target = { atLeast: number } | { atMost: number };

export type Row = {
  name: string;
  what: string;
  unit: string;
  /** `null`: told, not judged. */
  target: Target | null;
  ratio: number;
  ratioMin: number;
  ratioMax: number;
  rounds: number;
  /** Medians. `against` is bare's, or the figure asked for. */
  ours: number;
  against: number;
  /** Bare's CPU time for one over ours, each in its least disturbed block: others who run inflate it, never the reverse. */
  cpuRatio: number | null;
  /** Block by block, in the order of measuring. */
  pairs: readonly { ours: Block; against: Block }[];
  verdict: "reached" | "missed" | "told";
  /** The row could not be trusted, for these reasons. */
  doubts: string[];
};

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
};

const reaches = (target: Target, ratio: number): boolean =>
  "atLeast" in target ? ratio >= target.atLeast : ratio <= target.atMost;

/** The same doubt in many blocks is one doubt, with how often it came. */
const gather = (doubts: readonly string[]): string[] => {
  const counts = new Map<string, number>();
  for (const doubt of doubts) counts.set(doubt, (counts.get(doubt) ?? 0) + 1);
  return [...counts].map(([doubt, n]) => `${doubt} (${n} ${n === 1 ? "block" : "blocks"})`);
};

export const compare = (
  about: Pick<Row, "name" | "what" | "unit" | "target">,
  pairs: readonly { ours: Block; against: Block }[],
): Row => {
  const ratios = pairs.map(({ ours, against }) => ours.value / against.value);
  const least = (side: "ours" | "against"): number =>
    Math.min(...pairs.map((pair) => pair[side].cpuUsEach ?? Number.POSITIVE_INFINITY));
  const cpuRatio = least("against") / least("ours");
  const ratio = median(ratios);
  const { target } = about;
  return {
    ...about,
    ratio,
    ratioMin: Math.min(...ratios),
    ratioMax: Math.max(...ratios),
    rounds: pairs.length,
    ours: median(pairs.map(({ ours }) => ours.value)),
    against: median(pairs.map(({ against }) => against.value)),
    cpuRatio: Number.isFinite(cpuRatio) && cpuRatio > 0 ? cpuRatio : null,
    verdict: target === null ? "told" : reaches(target, ratio) ? "reached" : "missed",
    pairs,
    doubts: gather(pairs.flatMap(({ ours, against }) => [...ours.doubts, ...against.doubts])),
  };
};

/** For compilers and caches: without it the first blocks would measure those. */
const WARM_S = 2;

/** One uncounted block each, then the rounds. */
export const inTurn = async (
  { rounds, blockS }: { rounds: number; blockS: number },
  ours: (durationS: number) => Promise<Block>,
  against: (durationS: number) => Promise<Block>,
): Promise<{ ours: Block; against: Block }[]> => {
  const pairs: { ours: Block; against: Block }[] = [];
  await against(WARM_S);
  await ours(WARM_S);
  for (let round = 0; round < rounds; round += 1) {
    const bare = await against(blockS);
    pairs.push({ ours: await ours(blockS), against: bare });
  }
  return pairs;
};
