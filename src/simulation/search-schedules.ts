/**
 * Random search: one drawn schedule after the other, and each that fails is made as short as it can be and tried several
 * times, so that what is reported is certain and easy to read. A claim that was found broken once is not looked for again.
 */
import type { Claim } from "../history/run-document.ts";
import { type FaultSchedule, describeSchedule, drawSchedule } from "./fault-schedule.ts";
import { shrinkSchedule } from "./search-schedules.ts";
import { type PlaySchedule, type Replayed, type Trial, isCertain, replaySchedule } from "./trial.ts";

export type Finding = {
  /** As it was drawn, and its number. */
  drawn: FaultSchedule;
  number: number;
  /** The shortest that still fails. */
  schedule: FaultSchedule;
  /** What failed in it. */
  failed: Claim[];
  /** Replays of the shortest. */
  replayed: Pick<Replayed, "failed" | "of">;
  /** It failed once, and not often enough afterwards. */
  isFlaky: boolean;
  /** The last trial that failed. */
  trial: Trial;
};

export type Searched = {
  schedules: number;
  /** Of those, not judged: the generator, and not the deployment, was in doubt. */
  doubtful: number;
  events: number;
  byOutcome: Record<string, number>;
  findings: Finding[];
};

type SearchOptions = {
  seed: number;
  play: PlaySchedule;
  /** Asked before each schedule. */
  goesOn(schedules: number): boolean;
  /** Trials that the shrinking of one schedule may take. */
  shrinkTrials: number;
  progress(text: string): void;
  found(finding: Finding): Promise<void>;
};

/** Everything different that can be wrong is not needed: who mends these runs it again. */
const FINDINGS_MOST = 5;

const pursue = async (
  { play, shrinkTrials, progress }: SearchOptions,
  number: number,
  drawn: FaultSchedule,
  trial: Trial,
): Promise<Finding> => {
  const as = new Set(trial.failed.map(({ id }) => id));
  const again = await replaySchedule(play, drawn, as);
  const about = { drawn, number };
  if (!isCertain(again)) {
    return { ...about, schedule: drawn, failed: trial.failed, replayed: again, isFlaky: true, trial };
  }
  progress(`schedule ${number} fails ${[...as].join(", ")}; looking for the shortest that does`);
  let last = { replayed: again, trial: again.last ?? trial };
  const schedule = await shrinkSchedule(
    drawn,
    async (shorter) => {
      const replayed = await replaySchedule(play, shorter, as);
      if (isCertain(replayed)) last = { replayed, trial: replayed.last ?? trial };
      return isCertain(replayed);
    },
    shrinkTrials,
  );
  return { ...about, schedule, failed: last.trial.failed, replayed: last.replayed, isFlaky: false, trial: last.trial };
};

export const searchSchedules = async (options: SearchOptions): Promise<Searched> => {
  const { seed, play, goesOn, progress, found } = options;
  const searched: Searched = { schedules: 0, doubtful: 0, events: 0, byOutcome: {}, findings: [] };
  const known = new Set<string>();
  while (goesOn(searched.schedules) && searched.findings.length < FINDINGS_MOST) {
    const number = searched.schedules;
    const drawn = drawSchedule(seed, number);
    progress(`schedule ${number}: ${describeSchedule(drawn)}`);
    const trial = await play(drawn);
    searched.schedules += 1;
    searched.events += drawn.events.length;
    for (const [outcome, calls] of Object.entries(trial.byOutcome)) {
      searched.byOutcome[outcome] = (searched.byOutcome[outcome] ?? 0) + calls;
    }
    if (trial.doubt !== null) searched.doubtful += 1;
    if (!trial.failed.some(({ id }) => !known.has(id))) continue;
    for (const { id } of trial.failed) known.add(id);
    const finding = await pursue(options, number, drawn, trial);
    searched.findings.push(finding);
    await found(finding);
  }
  return searched;
};
