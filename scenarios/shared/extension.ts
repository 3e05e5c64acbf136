/** Our k6 extension: times calls in microseconds, names the end of each stream, asks the budget before each call. */

import { sleep } from "k6";
import exec from "k6/execution";
import type { SseKind } from "k6/x/floodgate";
import type { SseParams, SseResponse } from "k6/x/sse";
import {
  type HandOver,
  LEAD_MS,
  type Printed,
  type PrintedFault,
  type PrintedMint,
  type PrintedNothing,
  type PrintedPart,
  type PrintedSpent,
  planMark,
} from "../../src/workload/handover.ts";
import { arrivalTimesUs } from "../../src/workload/load-profiles.ts";
import type { SessionWanted, Step } from "../../src/workload/step.ts";
import type { Story } from "../../src/workload/story.ts";

type Extension = typeof import("k6/x/floodgate");

declare const require: (module: "k6/x/floodgate") => { default?: Extension };

/** Not imported: with a missing import, k6 ends before the script can print the message below. */
const found = require("k6/x/floodgate").default;
if (found === undefined) {
  throw new Error(
    "this k6 lacks Floodgate's extension: build one that has it by npx floodgate dev tools, and run the scenario by .tools/k6",
  );
}
export const floodgate: Extension = found;

/** How long calls in flight may continue when the budget ends the test. */
export const DRAIN_MS = 1_000;

/** Ends the test once no call is in flight. Every VU calls this; one of them ends the test. */
export const endInOrder = (reason: string): void => {
  // No budget stopped the load: the test ended by itself while this call waited.
  if (floodgate.spent().stopped === null) return;
  if (floodgate.drain(DRAIN_MS)) exec.test.abort(reason);
  // Sleeps until the test ends, because the next iteration could not send anything either.
  else sleep((2 * DRAIN_MS) / 1000);
};

/** `i`: number of the arrival, from 0; `dueUs`: microseconds since 1970. */
export type Turn = { i: number; dueUs: number };

/**
 * Returns a function that waits until shortly before an arrival is due; `null`: the load has ended. The VU that began
 * to wait last plays the next arrival (src/native/sse/turns.go). Call this in the init context, where k6 opens files.
 */
export const turnsOf = ({ schedule, seed }: Pick<HandOver, "schedule" | "seed">): (() => Turn | null) => {
  const { profile, arrivals, startUs, momentsPath } = schedule;
  floodgate.arrivals(() =>
    momentsPath === undefined ? arrivalTimesUs(profile, arrivals, seed) : (JSON.parse(open(momentsPath)) as number[]),
  );
  // Kept, because k6 builds a new object at each access.
  let scenario: typeof exec.scenario | undefined;
  let zeroUs = startUs;
  return () => {
    scenario ??= exec.scenario;
    zeroUs ??= (scenario.startTime + LEAD_MS) * 1000;
    const i = floodgate.turn(scenario.iterationInTest, zeroUs);
    return i < 0 ? null : { i, dueUs: floodgate.turnUs() };
  };
};

/** What the requests of one method, route and meter share. */
export type RequestKind = {
  params: SseParams;
  slowReadMs: number | undefined;
  /** `params`, once the extension has checked them. */
  checked?: SseKind;
};

/** A request that is ready to send, with host and credential. */
export type Outgoing = {
  kind: RequestKind;
  url: string;
  headers: Record<string, string>;
  body: string | undefined;
};

/** The numbers of a call, and when it was due, in microseconds since 1970. */
export type CallMade = { i: number; step: number; attempt: number; intendedUs: number };

type Place = Pick<Printed, "type" | "i" | "step" | "attempt"> | Pick<PrintedMint, "type" | "id" | "of" | "product">;

/** The members that a printed line begins with: which call it is. */
const placeOf = (place: Place): string => JSON.stringify(place);

/** Makes the call async when it is due, without waiting. Returns false if no more calls may be sent. */
export const begin = ({ kind, url, headers, body }: Outgoing, { intendedUs, ...call }: CallMade): boolean => {
  kind.checked ??= floodgate.kind(kind.params);
  return floodgate.begin(url, kind.checked, headers, body, placeOf({ type: "call", ...call }), intendedUs);
};

export const send = ({ kind, url, headers, body }: Outgoing): SseResponse => {
  const { params, slowReadMs } = kind;
  // The handler slows down the reading. Without a handler, events cost the script nothing.
  const resting = slowReadMs === undefined ? undefined : () => sleep(slowReadMs / 1000);
  const whole = { ...params, headers, body };
  return floodgate.open(url, whole, resting === undefined ? undefined : (client) => client.on("event", resting));
};

/**
 * Prints a line for each call (src/workload/handover.ts) to the file that the runner names. The extension makes the
 * line from its own record. Every VU calls this in the init context.
 */
export const printingTo = (path: string) => {
  floodgate.printTo(path);
  const print = (line: PrintedPart | PrintedFault | PrintedNothing | PrintedSpent): void =>
    floodgate.print(JSON.stringify(line));
  return {
    /** Prints the first line of a part of a distributed run. */
    part: (handed: HandOver, story: Story, target: PrintedPart["target"]): void => {
      const { seed, idPrefix, view, schedule } = handed;
      const { profile, arrivals } = schedule;
      const common = { story: story.name, seed, view, profile, arrivals, plan: planMark(story, seed, view), target };
      print({ type: "part", ...common, idPrefix, atUs: Date.now() * 1000 });
    },
    /** Prints the VU's last call, a call of the story. */
    call: ({ intendedUs, ...call }: CallMade, { route }: Step): void =>
      floodgate.printCall(placeOf({ type: "call", ...call }), intendedUs, route === "sdk.sessions"),
    /** Prints the VU's last call, which minted a session. */
    mint: ({ id, of, product }: SessionWanted & { id: string }): void =>
      floodgate.printCall(placeOf({ type: "mint", id, of, product }), 0, true),
    fault: (fault: Omit<PrintedFault, "type">): void => print({ type: "fault", ...fault }),
    nothing: (nothing: Omit<PrintedNothing, "type">): void => print({ type: "nothing", ...nothing }),
    /** Prints the last line and flushes the file. */
    spent: (): void => {
      print({ type: "spent", ...floodgate.spent() });
      floodgate.printed();
    },
  };
};
