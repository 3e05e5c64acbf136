/** How much the base carries: as stated, or found in a few probes. */
import { capacityOf, nextProbe, type Probe, probeOf } from "../../gate/capacity-probes.ts";
import { streamsPerS } from "../../workload/callers/overload.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { PlayedBlock } from "./play-block.ts";

/** What the gate plays unless another scenario is named. */
export const GATE_SCENARIO = "chat-past-capacity";

export const perS = (rate: number): string => `${rate >= 20 ? rate.toFixed(0) : rate.toFixed(1)} calls/s`;

/** Capacity by what the user or the base's owner states; `null` when it has to be probed: slots say nothing about reads. */
export const statedCapacity = (
  { scenario, ratePerS }: { scenario: string; ratePerS?: number },
  base: TargetView,
): number | null => ratePerS ?? (scenario === GATE_SCENARIO ? streamsPerS(base) : null);

/** Where nothing is permitted by name, probes go no further. */
const PROBED_MOST_PER_S = 2_000;

/** Calls a second; `null` when the base served nothing. `play`: a rate and the probe's number. */
export const probeCapacity = async (
  play: (ratePerS: number, number: number) => Promise<PlayedBlock>,
  mostPerS: number,
  isOver: () => boolean,
  events: { step(text: string): void; progress(text: string): void; note(text: string): void },
): Promise<number | null> => {
  events.step("probing how much the base carries");
  const probes: Probe[] = [];
  const most = Math.min(mostPerS, PROBED_MOST_PER_S);
  for (let rate = nextProbe(probes, most); rate !== null && !isOver(); rate = nextProbe(probes, most)) {
    const { lines, startUs } = await play(rate, probes.length + 1);
    const probe = probeOf(rate, lines, startUs);
    probes.push(probe);
    events.progress(`offered ${perS(rate)}, served ${perS(probe.servedPerS)}`);
  }
  const found = capacityOf(probes);
  if (found.perS === 0) return null;
  if (!found.isReached) events.note(`no limit of the base was reached at ${perS(probes.at(-1)?.ratePerS ?? 0)}`);
  return found.perS;
};
