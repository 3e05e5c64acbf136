/**
 * What a scenario prints: a line for each call (src/workload/handover.ts), in a file that the runner names. The extension writes
 * a call's by itself, from what it has seen.
 */
import type { HandOver, PrintedFault, PrintedPart, PrintedSpent } from "../../src/workload/handover.ts";
import type { SessionWanted, Step } from "../../src/workload/step.ts";
import { type CallMade, floodgate } from "./extension.ts";

/** In the init context, by every VU. */
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
