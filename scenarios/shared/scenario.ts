/**
 * Makes a k6 script of a story. With the runner, a file has its input and each call prints a line
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

/** Reads the runner's input. Each VU opens the file in the init context; the runner removes it afterwards. */
const handedIn = (path: string): HandOver => JSON.parse(open(path)) as HandOver;

/** Time after the end of all calls to print the last line. */
const FINISH_MS = 1_000;

/** An exception in k6 changes neither verdict nor exit code, so it is printed and the runner fails the stage. */
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
    onNothing: (number) => printing.nothing({ i: number }),
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
    // Waits for async calls, because k6 ends when its VUs have nothing more to do. Each call has a time-out.
    teardown: () => floodgate.finish(callsEndMs(handed.timeouts) + FINISH_MS, DRAIN_MS),
    handleSummary: (data: unknown) => {
      printing.spent();
      return { [summaryPath]: JSON.stringify(data) };
    },
  };
};

/** The exports that k6 expects of a script. */
type Scenario = {
  options: Record<string, unknown>;
  setup(): unknown;
  run(data?: unknown): void;
  teardown(): void;
  handleSummary(data: unknown): Record<string, string>;
};

export const scenarioOf = (story: Story, expectations: Expectations): Scenario => {
  // The bundler of the runner's k6 (src/native/k6/main.go) knows the variable and drops the branch not taken.
  return __ENV.FLOODGATE_HANDOVER
    ? scenarioForRunner(story, handedIn(__ENV.FLOODGATE_HANDOVER))
    : scenarioAlone(story, expectations);
};
