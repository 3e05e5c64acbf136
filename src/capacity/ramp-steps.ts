/** The calls of a ramp by the step in which they should have left. */
import type { CallLine } from "../history/line.ts";
import type { Profile } from "../workload/load-profiles.ts";

type RampStep = {
  readonly fromUs: number;
  readonly toUs: number;
  readonly ratePerS: number;
  /** In the order in which they should have left. */
  readonly calls: readonly CallLine[];
};

/** `startUs`: when the ramp began; where absent, when its first call should have left. */
export const steppedCalls = (lines: readonly CallLine[], ramp: Profile, startUs?: number): RampStep[] => {
  const ordered = [...lines].sort((a, b) => a.intended_us - b.intended_us);
  let fromUs = startUs ?? ordered[0]?.intended_us ?? 0;
  let next = 0;
  return ramp.pieces.map(({ from, to, durationS }) => {
    const toUs = fromUs + durationS * 1e6;
    const calls: CallLine[] = [];
    for (; next < ordered.length && (ordered[next] as CallLine).intended_us < toUs; next++) {
      calls.push(ordered[next] as CallLine);
    }
    const step = { fromUs, toUs, ratePerS: (from + to) / 2, calls };
    fromUs = toUs;
    return step;
  });
};
