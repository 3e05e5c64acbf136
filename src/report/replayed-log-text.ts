/** How an access log was read, in sentences: for the terminal while it is read, and for the notes of the report. */
import type { ReplayedLog } from "../history/run-document.ts";
import { oneLine } from "./escape.ts";
import { count, counted, duration, figure, share } from "./figures.ts";

const MOMENTS: Readonly<Record<ReplayedLog["moment"], string>> = {
  start: "the start of each call",
  "end minus duration": "the end of each call, less its duration",
  end: "the end of each call, because no duration stands beside it",
  "as logged": "taken as the start of each call",
};

const SILENCE_S = 60;

const seconds = (s: number): string => `${count(s)} s`;

const backText = (back: NonNullable<ReplayedLog["clock_back"]>): string => {
  const { file, by_s: byS, lines, overlap_s: overlapS } = back;
  const line = `line ${count(back.line)}${file === undefined ? "" : ` of ${oneLine(file)}`}`;
  if (lines === 1) {
    return `${line} is ${seconds(byS)} earlier than one above it: a long call that was logged at its end, or a clock that was wrong. It was put in order by its time`;
  }
  const overlap = overlapS < 1 ? "" : `, and for ${seconds(overlapS)} calls from both sides of it come at once`;
  return (
    `at ${line} the clock jumps back by ${seconds(byS)}, and ${count(lines)} lines in a row are earlier than one above: ` +
    `it was set back (by hand, or at the end of summer time), or several logs stand one behind the other. The calls were put in order by their time${overlap}`
  );
};

/** One sentence for what was read and how, then one for each thing that may surprise. */
export const replayedLogText = (log: ReplayedLog): string[] => {
  const { calls, unreadable, no_calls: others, clock_back: back, longest_silence_s: silence } = log;
  const zone = log.zone === "stated" ? "" : "; its times have no zone and are taken as UTC";
  const lines = calls + unreadable;
  const of = log.files === undefined ? "" : ` of ${log.files} files`;
  const said = [
    `the log${of} was read as ${log.format}: ${counted(calls, "call")} in ${duration(1000 * log.span_s)}, by ${oneLine(log.field)}, ${MOMENTS[log.moment]}${zone}`,
    unreadable > 0 &&
      `${count(unreadable)} of ${counted(lines, "line")} (${share(unreadable, lines)}) could not be read and were left out`,
    log.every_line_counts === true &&
      "nothing in it tells a line about a call from another, so each line with a moment is a call: take out the others, or the rate is too high",
    others > 0 && `${counted(others, "line")} of it tell of no call and were left out`,
    back !== undefined && backText(back),
    silence >= SILENCE_S && `for ${seconds(silence)} of it nothing was called, which is its longest silence`,
  ];
  return said.filter((one) => one !== false);
};

/** Says that a replay has fewer calls than its log, because it is shorter. */
export const cutReplayText = (played: number, { calls }: ReplayedLog): string =>
  `of the log no more than its first ${counted(played, "call")} of ${count(calls)} are replayed, because the length of the stage is set`;

/** Says that a replay is slower than the log, whose busiest second has more calls than permitted. */
export const slowedReplayText = (slowedTo: number): string =>
  `the log is replayed at ${figure(slowedTo)} of its speed, because its busiest second has more calls than permits.load_max_rps lets through`;
