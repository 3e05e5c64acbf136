/** One schedule, played once: what was judged, and what of it failed. Whoever plays it, in virtual time or on real links. */
import type { Line } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import type { FaultSchedule } from "./fault-schedule.ts";

export type Trial = {
  /** Failed musts of the invariants; empty when the deployment held. */
  failed: Claim[];
  /** Claims that were judged at all. */
  judged: number;
  /** Outcome -> calls. */
  byOutcome: Record<string, number>;
  /** The stage that its lines are of; ids of claims end with `explore` whatever it is. */
  stage: string;
  lines: Line[];
  /** What the judges knew. */
  facts: StageFacts;
  /** Why nothing can be said, e.g. because the generator was too slow; `null` where something can. */
  doubt: string | null;
};

export type PlaySchedule = (schedule: FaultSchedule) => Promise<Trial>;

/** How often a schedule is played again before it counts, and how often it has to fail. */
export const REPLAYS = { of: 5, least: 3 } as const;

export type Replayed = { failed: number; of: number; last: Trial | null };

const fails = ({ failed }: Trial, as: ReadonlySet<string>): boolean =>
  failed.some(({ id }) => as.size === 0 || as.has(id));

/** Plays a schedule until it is decided whether it fails often enough, as one of `as` did. */
export const replaySchedule = async (
  play: PlaySchedule,
  schedule: FaultSchedule,
  as: ReadonlySet<string>,
): Promise<Replayed> => {
  const seen: Replayed = { failed: 0, of: 0, last: null };
  while (seen.of < REPLAYS.of) {
    const trial = await play(schedule);
    seen.of += 1;
    if (fails(trial, as)) {
      seen.failed += 1;
      seen.last = trial;
    }
    const left = REPLAYS.of - seen.of;
    if (seen.failed >= REPLAYS.least || seen.failed + left < REPLAYS.least) break;
  }
  return seen;
};

export const isCertain = ({ failed }: Replayed): boolean => failed >= REPLAYS.least;
