/** Our extension of k6: it times every call in microseconds, names the end of every stream and asks the budget before a call leaves. */
import { sleep } from "k6";
import exec from "k6/execution";
import type { SseKind } from "k6/x/floodgate";
import type { SseParams, SseResponse } from "k6/x/sse";
import { arrivalTimesUs } from "../../src/workload/arrivals.ts";
import type { HandOver, PrintedFault, PrintedPart, PrintedSpent } from "../../src/workload/handover.ts";
import { LEAD_MS } from "../../src/workload/k6-executor.ts";
import type { SessionWanted, Step } from "../../src/workload/step.ts";

type Extension = typeof import("k6/x/floodgate");

declare const require: (module: "k6/x/floodgate") => { default?: Extension };

/** Not imported: where a module is missing, k6 ends before the first line of a script that imports it. */
const found = require("k6/x/floodgate").default;
if (found === undefined) {
  throw new Error(
    "this k6 lacks Floodgate's extension: build one that has it by npx floodgate dev tools, and run the scenario by .tools/k6",
  );
}
export const floodgate: Extension = found;

/** Calls that are under way when the budget ends the test may go on for so long. */
export const DRAIN_MS = 1_000;

/** Ends the test as soon as no call is under way that would be lost. To be called from every VU; one of them ends it. */
export const endInOrder = (reason: string): void => {
  // A call that waited for its moment or its turn when the test ended by itself was not sent either.
  if (floodgate.spent().stopped === null) return;
  if (floodgate.drain(DRAIN_MS)) exec.test.abort(reason);
  // The next iteration could not do anything either, until the end of the test cuts this short.
  else sleep((2 * DRAIN_MS) / 1000);
};

/** `i`: number of the arrival, from 0; `dueUs`: microseconds since 1970. */
export type Turn = { i: number; dueUs: number };

/**
 * Rests until shortly before an arrival is due; `null`: the load was ended before. The VU that came to rest last plays the next
 * arrival (src/native/sse/turns.go). To be made in the init context, where alone a file may be opened.
 */
export const turnsOf = ({ schedule, seed }: Pick<HandOver, "schedule" | "seed">): (() => Turn | null) => {
  const { profile, arrivals, startUs, momentsPath } = schedule;
  floodgate.arrivals(() =>
    momentsPath === undefined ? arrivalTimesUs(profile, arrivals, seed) : (JSON.parse(open(momentsPath)) as number[]),
  );
  // k6 makes it anew whenever it is asked for.
  let scenario: typeof exec.scenario | undefined;
  let zeroUs = startUs;
  return () => {
    scenario ??= exec.scenario;
    zeroUs ??= (scenario.startTime + LEAD_MS) * 1000;
    const i = floodgate.turn(scenario.iterationInTest, zeroUs);
    return i < 0 ? null : { i, dueUs: floodgate.turnUs() };
  };
};

/** What requests of a kind have in common. */
export type RequestKind = {
  params: SseParams;
  slowReadMs: number | undefined;
  /** The parameters, once they have been checked. */
  checked?: SseKind;
};

/** What is to be sent, host and credential put in. */
export type Outgoing = {
  kind: RequestKind;
  url: string;
  headers: Record<string, string>;
  body: string | undefined;
};

/** Which call of the run it was, and when it should have left, microseconds since 1970. */
export type CallMade = { i: number; step: number; attempt: number; intendedUs: number };

/** Makes the call beside the VU, when it is due; the VU waits for neither. False where nothing may leave any more. */
export const begin = ({ kind, url, headers, body }: Outgoing, { i, step, attempt, intendedUs }: CallMade): boolean => {
  kind.checked ??= floodgate.kind(kind.params);
  return floodgate.begin(url, kind.checked, headers, body, i, step, attempt, intendedUs);
};

export const send = ({ kind, url, headers, body }: Outgoing): SseResponse => {
  const { params, slowReadMs } = kind;
  // Reading waits for the handler. Without one, events cost the script nothing.
  const resting = slowReadMs === undefined ? undefined : () => sleep(slowReadMs / 1000);
  const whole = { ...params, headers, body };
  return floodgate.open(url, whole, resting === undefined ? undefined : (client) => client.on("event", resting));
};

/**
 * Prints a line for each call (src/workload/handover.ts) to the file that the runner names. The extension writes a call's line by itself,
 * from what it has seen. To be called in the init context, by every VU.
 */
export const printingTo = (path: string) => {
  floodgate.printTo(path);
  const print = (line: PrintedPart | PrintedFault | PrintedSpent): void => floodgate.print(JSON.stringify(line));
  return {
    /** The first line of a part of a distributed run. */
    part: (handed: HandOver, story: string, target: PrintedPart["target"]): void => {
      const { seed, idPrefix, view, schedule } = handed;
      const { profile, arrivals } = schedule;
      print({ type: "part", story, seed, idPrefix, view, profile, arrivals, target, atUs: Date.now() * 1000 });
    },
    /** The VU's last call, of the story. */
    call: ({ i, step, attempt, intendedUs }: CallMade, { route }: Step): void =>
      floodgate.printCall(i, step, attempt, intendedUs, route === "sdk.sessions"),
    /** The VU's last call, which minted a session. */
    mint: ({ id, of, product }: SessionWanted & { id: string }): void => floodgate.printMint(id, of, product),
    fault: (fault: Omit<PrintedFault, "type">): void => print({ type: "fault", ...fault }),
    /** The last line. */
    spent: (): void => {
      print({ type: "spent", ...floodgate.spent() });
      floodgate.printed();
    },
  };
};
