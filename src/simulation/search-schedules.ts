/**
 * Searches random fault schedules. A failing one is shrunk and replayed several times, once for each broken claim, and written to a
 * file of the run's `crashes/`, which `dev replay` plays again.
 */
import { routeOf } from "../contract/routes.ts";
import { describeSchedule, drawSchedule, type FaultSchedule } from "../faults/fault-schedule.ts";
import { LINK_FAULTS } from "../faults/link-faults.ts";
import type { Line } from "../history/line.ts";
import type { Claim, StageFacts } from "../history/run-document.ts";
import { RECORDED_BOUNDS, readUserJson, UserFileError } from "../supervision/user-file.ts";
import { STORIES } from "../workload/catalogue.ts";

export type Trial = {
  /** Failed musts of the invariants; empty when the deployment held. */
  failed: Claim[];
  byOutcome: Record<string, number>;
  /** The stage named in the lines; claim ids end with `explore` for every stage. */
  stage: string;
  lines: Line[];
  facts: StageFacts;
  /** Why the trial cannot be judged, e.g. because the generator was too slow; `null` if it can. */
  doubt: string | null;
};

export type PlaySchedule = (schedule: FaultSchedule) => Promise<Trial>;

/** How often a schedule is played again before it counts, and how often it has to fail. */
const REPLAYS = { of: 5, least: 3 } as const;
export const OFTEN_ENOUGH = `at least ${REPLAYS.least} of ${REPLAYS.of} replays`;

export type Replayed = { failed: number; of: number; last: Trial | null };

const fails = ({ failed }: Trial, as: ReadonlySet<string>) => failed.some(({ id }) => as.size === 0 || as.has(id));

/** Plays a schedule until it is decided whether it fails often enough by a claim of `as`; empty means any claim. */
export const replaySchedule = async (play: PlaySchedule, schedule: FaultSchedule, as: ReadonlySet<string>) => {
  const seen: Replayed = { failed: 0, of: 0, last: null };
  while (seen.of < REPLAYS.of) {
    const trial = await play(schedule);
    seen.of += 1;
    if (fails(trial, as)) {
      seen.failed += 1;
      seen.last = trial;
    }
    const left = REPLAYS.of - seen.of;
    if (seen.failed >= REPLAYS.least || seen.failed + left < REPLAYS.least) break;
  }
  return seen;
};

export const isCertain = ({ failed }: Replayed): boolean => failed >= REPLAYS.least;

const SHORTEST_MS = 100;
const LIGHTEST_PER_S = 5;

type Fails = (schedule: FaultSchedule) => Promise<boolean>;

const simpler = (schedule: FaultSchedule): FaultSchedule[] => {
  const { events, ratePerS } = schedule;
  const changed = events.flatMap((event, at) => {
    const forMs = Math.round(event.forMs / 2);
    return forMs < SHORTEST_MS ? [] : [{ ...schedule, events: events.with(at, { ...event, forMs }) }];
  });
  const slower = Math.round(ratePerS / 2);
  if (slower >= LIGHTEST_PER_S) changed.push({ ...schedule, ratePerS: slower });
  return changed;
};

/** Leaves out events, then shortens and lightens what is left; `fails` is asked at most `trialsMost` times. */
export const shrinkSchedule = async (schedule: FaultSchedule, fails: Fails, trialsMost: number) => {
  let left = trialsMost;
  const asked: Fails = async (one) => left-- > 0 && (await fails(one));
  let smallest = schedule;
  // There are five events at the most, so each is tried once.
  for (const event of schedule.events) {
    const without = { ...smallest, events: smallest.events.filter((one) => one !== event) };
    if (without.events.length > 0 && (await asked(without))) smallest = without;
  }
  for (let found = true; found; ) {
    found = false;
    for (const candidate of simpler(smallest)) {
      if (!(await asked(candidate))) continue;
      smallest = candidate;
      found = true;
      break;
    }
  }
  return smallest;
};

/** `schedule`: the shortest that fails; `isFlaky`: it failed when drawn, and not often enough afterwards. */
export type Finding = {
  drawn: FaultSchedule;
  number: number;
  schedule: FaultSchedule;
  failed: Claim[];
  replayed: Pick<Replayed, "failed" | "of">;
  isFlaky: boolean;
  trial: Trial;
};

export type Searched = Awaited<ReturnType<typeof searchSchedules>>;

type SearchOptions = {
  seed: number;
  play: PlaySchedule;
  goesOn(schedules: number): boolean;
  shrinkTrials: number;
  /** Whether a schedule plays the same each time, as in virtual time: one play then decides about a shorter one. */
  repeatsItself: boolean;
  progress(text: string): void;
  found(finding: Finding): Promise<void>;
};

/** The search ends after so many findings; it is repeated once they are fixed. */
const FINDINGS_MOST = 5;

const pursue = async (
  { play, shrinkTrials, repeatsItself, progress }: SearchOptions,
  number: number,
  drawn: FaultSchedule,
  trial: Trial,
): Promise<Finding> => {
  const as = new Set(trial.failed.map(({ id }) => id));
  const again = await replaySchedule(play, drawn, as);
  if (!isCertain(again))
    return { drawn, number, schedule: drawn, failed: trial.failed, replayed: again, isFlaky: true, trial };
  progress(`schedule ${number} fails ${[...as].join(", ")}; looking for the shortest that does`);
  let last = { replayed: again, trial: again.last ?? trial };
  const stillFails = async (shorter: FaultSchedule): Promise<boolean> => {
    const replayed = await replaySchedule(play, shorter, as);
    if (isCertain(replayed)) last = { replayed, trial: replayed.last ?? trial };
    return isCertain(replayed);
  };
  const failsOnce = async (shorter: FaultSchedule): Promise<boolean> => fails(await play(shorter), as);
  const shortest = await shrinkSchedule(drawn, repeatsItself ? failsOnce : stillFails, shrinkTrials);
  const isSure = !repeatsItself || shortest === drawn || (await stillFails(shortest));
  const schedule = isSure ? shortest : drawn;
  return { drawn, number, schedule, failed: last.trial.failed, ...last, isFlaky: false };
};

/** `doubtful`: how many schedules were not judged, because the generator was in doubt. */
export const searchSchedules = async (options: SearchOptions) => {
  const { seed, play, goesOn, progress, found } = options;
  const [byOutcome, findings]: [Record<string, number>, Finding[]] = [{}, []];
  const searched = { schedules: 0, doubtful: 0, events: 0, byOutcome, findings };
  const known = new Set<string>();
  while (goesOn(searched.schedules) && findings.length < FINDINGS_MOST) {
    const number = searched.schedules;
    const drawn = drawSchedule(seed, number);
    progress(`schedule ${number}: ${describeSchedule(drawn)}`);
    const trial = await play(drawn);
    searched.schedules += 1;
    searched.events += drawn.events.length;
    for (const [outcome, calls] of Object.entries(trial.byOutcome))
      byOutcome[outcome] = (byOutcome[outcome] ?? 0) + calls;
    if (trial.doubt !== null) searched.doubtful += 1;
    if (!trial.failed.some(({ id }) => !known.has(id))) continue;
    for (const { id } of trial.failed) known.add(id);
    const finding = await pursue(options, number, drawn, trial);
    findings.push(finding);
    await found(finding);
  }
  return searched;
};

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
  let crash: Partial<ScheduleCrash> | null;
  try {
    crash = readUserJson(file, RECORDED_BOUNDS) as Partial<ScheduleCrash> | null;
  } catch (error) {
    throw new UserFileError(`${file}: expected a crash file in JSON, but ${(error as Error).message}`);
  }
  if (crash?.schema !== SCHEDULE_CRASH_SCHEMA) return null;
  const { schedule } = crash;
  const isWhole =
    Array.isArray(schedule?.events) &&
    STORIES.has(schedule.story) &&
    schedule.ratePerS > 0 &&
    schedule.events.every(
      ({ link, fault, atMs, forMs }) =>
        (link === "limiter" || link === "keys") && LINK_FAULTS.includes(fault) && atMs >= 0 && forMs > 0,
    );
  if (!isWhole) {
    throw new UserFileError(
      `${file}: expected a schedule of a known story, with faults of \`chaos --list\` on limiter or keys, got ${JSON.stringify(schedule)}`,
    );
  }
  return crash as ScheduleCrash;
};
