/** A scenario that the runner started: it was handed everything, and prints a line for each call. */
import exec from "k6/execution";
import sse from "k6/x/sse";
import { maskSecrets } from "../../src/contract/credentials.ts";
import type { HandOver } from "../../src/workload/handover.ts";
import type { Story } from "../../src/workload/story.ts";
import { callsEndMs } from "../../src/workload/timeouts.ts";
import { DRAIN_MS, endInOrder, setBudget, settled, spentSoFar } from "./budget.ts";
import { performIteration } from "./calls.ts";
import { hasAdditions } from "./extension.ts";
import type { Scenario } from "./k6-exports.ts";
import { printingTo } from "./printing.ts";
import { sessionsOfVu } from "./sessions.ts";
import { Refusal } from "./stated-target.ts";
import { turnsOf } from "./turns.ts";

/** The file is opened in the init context, by each VU; the runner removes it afterwards. */
export const handedIn = (path: string): HandOver => JSON.parse(open(path)) as HandOver;

/** Beyond the end of all calls, for the last line to be printed. */
const FINISH_MS = 1_000;

/**
 * An exception in k6 neither fails the run nor changes its exit code, so it is printed, and the runner makes the stage fail
 * for it.
 */
export const scenarioForRunner = (story: Story, handed: HandOver): Scenario => {
  setBudget(handed.budget ?? {}, handed.stated);
  const { printPath, summaryPath, callsAtOnce } = handed;
  if (printPath === undefined) throw new Error("the runner did not say where to print to");
  const printing = printingTo(printPath);
  const isPrinted = hasAdditions && callsAtOnce !== undefined;
  if (isPrinted) sse.callsAtOnce(callsAtOnce);
  const sessionOf = sessionsOfVu(story, handed, printing.mint)(handed.sessions ?? {});
  const turns = turnsOf(handed);
  let i: number | undefined;
  const calling = {
    handed,
    sessionOf,
    turns,
    isPrinted,
    onTurn: (turn: number) => {
      i = turn;
    },
    onAnswer: (...call: Parameters<typeof printing.call>) => {
      printing.call(...call);
      settled();
    },
    onUnsent: endInOrder,
  };
  return {
    options: handed.options,
    setup: () => undefined,
    run: () => {
      i = undefined;
      try {
        performIteration(story, calling);
      } catch (error) {
        printing.fault({
          i: i ?? handed.firstCall + exec.scenario.iterationInTest,
          message: maskSecrets(String(error)),
          ...(error instanceof Refusal ? { lacks: true as const } : {}),
        });
      }
    },
    // What is still under way has its time-out; k6 ends when its VUs have nothing more to do.
    teardown: () => {
      if (isPrinted) sse.finish(callsEndMs(handed.timeouts) + FINISH_MS, DRAIN_MS);
    },
    handleSummary: (data) => {
      const spent = spentSoFar();
      if (spent !== null) printing.spent(spent);
      return summaryPath === undefined ? {} : { [summaryPath]: JSON.stringify(data) };
    },
  };
};
