/** A schedule that fails, as a file of a run's `crashes/` that `dev replay` plays again. */
import { routeOf } from "../contract/routes.ts";
import { describeSchedule, type FaultSchedule } from "../faults/fault-schedule.ts";
import { LINK_FAULTS } from "../faults/link-faults.ts";
import type { Claim } from "../history/run-document.ts";
import { RECORDED_BOUNDS, readUserJson, UserFileError } from "../supervision/user-file.ts";
import { STORIES } from "../workload/catalogue.ts";
import { type Finding, REPLAYS } from "./search-schedules.ts";

const SCHEDULE_CRASH_SCHEMA = "floodgate/fault-schedule@1";

export type LinksKind = "virtual" | "real";

export type ScheduleCrash = {
  schema: typeof SCHEDULE_CRASH_SCHEMA;
  title: string;
  /** Seed of the search, and number of the schedule in the search. */
  seed: number;
  number: number;
  links: LinksKind;
  /** Where the limiter kept its counts; absent in older files, which means `sqlite`. */
  limiter?: "sqlite" | "redis";
  /** Name of the planted mutant; `null` for the healthy platform. */
  mutant: string | null;
  schedule: FaultSchedule;
  drawn: FaultSchedule;
  /** How often the shortest schedule failed, of how many replays; `flaky` below three of five. */
  replays: { failed: number; of: number };
  flaky: boolean;
  failed: Pick<Claim, "id" | "reason" | "expected" | "got" | "evidence">[];
  replay: string;
  /** The call that shows the failure, to be sent while the faults are in force; secrets are variables. */
  curl: string;
  variables: Record<string, string>;
};

/** Returns the first call that proves the finding as a curl command; empty if no single call does. */
const curlOf = (failed: Finding["failed"], trial: Finding["trial"]): Pick<ScheduleCrash, "curl" | "variables"> => {
  const ids = new Set(failed.flatMap(({ evidence }) => evidence));
  const call = trial.lines.find((line) => line.type === "call" && ids.has(line.id) && line.route !== "-");
  if (call?.type !== "call" || call.route === "-") return { curl: "", variables: {} };
  const { method, path } = routeOf(call.route);
  const authorization = '-H "Authorization: Bearer $CREDENTIAL"';
  return {
    curl: `curl -sS -i -X ${method} ${authorization} "$BASE_URL${path}"`,
    variables: {
      $BASE_URL: "the API, with its version segment",
      $CREDENTIAL: `a ${call.facts?.credential ?? "server"} credential of ${call.org}`,
    },
  };
};

export const scheduleCrashOf = (
  { number, schedule, drawn, replayed, isFlaky, failed, trial }: Finding,
  { file, ...run }: Pick<ScheduleCrash, "seed" | "links" | "limiter" | "mutant"> & { file: string },
): ScheduleCrash => ({
  schema: SCHEDULE_CRASH_SCHEMA,
  title: `${failed.map(({ id }) => id).join(", ")}: ${describeSchedule(schedule)}`,
  ...run,
  ...{ number, schedule, drawn },
  replays: { failed: replayed.failed, of: replayed.of },
  flaky: isFlaky,
  failed: failed.map(({ id, reason, expected, got, evidence }) => ({ id, reason, expected, got, evidence })),
  replay: `npx floodgate dev replay ${file}`,
  ...curlOf(failed, trial),
});

/** Reads a file of `crashes/`; `null` for another kind of crash. Throws `UserFileError` if it is no valid crash file. */
export const readScheduleCrash = async (file: string): Promise<ScheduleCrash | null> => {
  let crash: Partial<ScheduleCrash>;
  try {
    crash = readUserJson(file, RECORDED_BOUNDS) as Partial<ScheduleCrash>;
  } catch (error) {
    throw new UserFileError(`${file}: expected a crash file in JSON, but ${(error as Error).message}`);
  }
  if (crash.schema !== SCHEDULE_CRASH_SCHEMA) return null;
  const { schedule } = crash;
  const isWhole =
    schedule !== undefined &&
    STORIES.has(schedule.story) &&
    schedule.ratePerS > 0 &&
    schedule.events.every(
      ({ link, fault, atMs, forMs }) =>
        (link === "limiter" || link === "keys") && LINK_FAULTS.includes(fault) && atMs >= 0 && forMs > 0,
    );
  if (!isWhole) {
    throw new UserFileError(
      `${file}: expected a schedule of a story that there is, with faults of \`chaos --list\` on limiter or keys, got ${JSON.stringify(schedule)}`,
    );
  }
  return crash as ScheduleCrash;
};

export const OFTEN_ENOUGH = `at least ${REPLAYS.least} of ${REPLAYS.of} replays`;
