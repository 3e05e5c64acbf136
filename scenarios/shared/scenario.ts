/**
 * From a story to what k6 asks of a script. The runner hands everything over, and a line is printed for each call
 * (src/workload/handover.ts); without the runner, the script reads the target file (alone.ts).
 */
import exec from "k6/execution";
import { maskSecrets } from "../../src/contract/credentials.ts";
import type { HandOver } from "../../src/workload/handover.ts";
import type { Story } from "../../src/workload/story.ts";
import { callsEndMs } from "../../src/workload/timeouts.ts";
import { scenarioAlone } from "./alone.ts";
import { performIteration } from "./calls.ts";
import type { Expectations } from "./expectations.ts";
import { DRAIN_MS, endInOrder, floodgate, printingTo, turnsOf } from "./extension.ts";
import { sessionsOfVu } from "./sessions.ts";
import { Refusal } from "./stated-target.ts";

/** The file is opened in the init context, by each VU; the runner removes it afterwards. */
const handedIn = (path: string): HandOver => JSON.parse(open(path)) as HandOver;

/** Beyond the end of all calls, for the last line to be printed. */
const FINISH_MS = 1_000;

/**
 * An exception in k6 neither fails the run nor changes its exit code, so it is printed, and the runner makes the stage fail
 * for it.
 */
const scenarioForRunner = (story: Story, handed: HandOver) => {
  const { budget, stated, printPath, summaryPath, callsAtOnce } = handed;
  if (printPath === undefined || summaryPath === undefined || callsAtOnce === undefined) {
    throw new Error("the runner did not say where to print to, and how many calls may be under way at once");
  }
  floodgate.budget({ ...budget, stated });
  const printing = printingTo(printPath);
  floodgate.callsAtOnce(callsAtOnce);
  const sessionOf = sessionsOfVu(story, handed, printing.mint)(handed.sessions ?? {});
  let i: number | undefined;
  const calling: Parameters<typeof performIteration>[1] = {
    handed,
    sessionOf,
    takeTurn: turnsOf(handed),
    isPrinted: true,
    onTurn: (turn) => {
      i = turn;
    },
    onAnswer: (made, step) => {
      printing.call(made, step);
      floodgate.settled();
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
          i: i ?? exec.scenario.iterationInTest,
          message: maskSecrets(String(error)),
          ...(error instanceof Refusal ? { lacks: true as const } : {}),
        });
      }
    },
    // What is still under way has its time-out; k6 ends when its VUs have nothing more to do.
    teardown: () => floodgate.finish(callsEndMs(handed.timeouts) + FINISH_MS, DRAIN_MS),
    handleSummary: (data: unknown) => {
      printing.spent();
      return { [summaryPath]: JSON.stringify(data) };
    },
  };
};

/** What k6 asks of a script. */
type Scenario = {
  options: Record<string, unknown>;
  setup(): unknown;
  run(data?: unknown): void;
  teardown(): void;
  handleSummary(data: unknown): Record<string, string>;
};

export const scenarioOf = (story: Story, expectations: Expectations): Scenario => {
  // Where the runner has k6 play one script of all (src/native/k6/main.go), the other half is left out of it.
  return __ENV.FLOODGATE_HANDOVER
    ? scenarioForRunner(story, handedIn(__ENV.FLOODGATE_HANDOVER))
    : scenarioAlone(story, expectations);
};
