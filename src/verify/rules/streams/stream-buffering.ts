/**
 * Events arrive while they are made (items 8, 178): judged by how they are spread over the time of a stream, so that only
 * streams long enough show it.
 */
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import { isStream, SPECIMENS_COST, type Specimen, specimenOf, specimens } from "./stream-specimens.ts";

const LONG_US = 150_000;

type Spread = { is: "spread" } | { is: "too short" } | { is: "at once"; got: string };

const spreadOf = ({ answer, sse }: Specimen): Spread => {
  const [first, last] = [sse.frames[0], sse.frames.at(-1)];
  if (first === undefined || last === undefined || sse.frames.length < 4) return { is: "too short" };
  const waitedUs = first.atUs - answer.received.sentUs;
  const spreadUs = last.atUs - first.atUs;
  if (waitedUs + spreadUs < LONG_US) return { is: "too short" };
  if (spreadUs > (waitedUs + spreadUs) / 20) return { is: "spread" };
  const ms = (us: number): number => Math.round(us / 1000);
  return {
    is: "at once",
    got: `${sse.frames.length} events within ${ms(spreadUs)} ms, after ${ms(waitedUs)} ms of silence`,
  };
};

/** A busy machine on our own side makes a stream look buffered, but hardly so many times. */
const LOOKS = 3;

export const streamBuffering: Rule = {
  id: "stream-is-not-buffered",
  level: "should",
  spec: [8, 178],
  title: "events arrive while they are made, not all at the end",
  phase: "streams",
  needs: { anyOf: ["publishable", "server"] },
  cost: SPECIMENS_COST,
  run: async (context) => {
    const checks = new Checks("events spread over the time of the stream");
    const all = await specimens(context);
    for (const specimen of all.filter(isStream)) {
      let spread = spreadOf(specimen);
      for (let k = 1; k < LOOKS && spread.is === "at once"; k++) {
        const again = await specimenOf(context, specimen.stream);
        if (again !== null && isStream(again)) spread = spreadOf(again);
      }
      if (spread.is === "spread") checks.fine();
      else if (spread.is === "too short") checks.note(`${specimen.stream}: too short a stream to judge`);
      else checks.require(false, specimen.answer, "events spread over the time of the stream", spread.got);
    }
    const result = checks.result("no stream showed it");
    // Streams that are over at once show nothing, and no caller makes them longer.
    return result.verdict === "skipped" && all.length > 0 && all.every(isStream) ? { ...result, idle: true } : result;
  },
};
