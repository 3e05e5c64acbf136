/** The body of `chaos --explore`: random schedules of faults, on virtual links or on real ones, and what fails made short. */

import type { RunContext } from "../../deployments/run-context.ts";
import { faultRecords } from "../../faults/disturbance.ts";
import { describeSchedule } from "../../faults/fault-schedule.ts";
import { claimOf } from "../../history/claim.ts";
import { classOf, type Line, lineTimeUs } from "../../history/line.ts";
import type { Claim, StageSummary } from "../../history/run-document.ts";
import { bareFacts } from "../../history/stage-facts.ts";
import type { StageOutcome } from "../../history/stage-outcome.ts";
import { stageOutcome } from "../../history/stage-outcome.ts";
import { type LinksKind, OFTEN_ENOUGH, scheduleCrashOf } from "../../simulation/schedule-crash.ts";
import { type Finding, type Searched, searchSchedules } from "../../simulation/search-schedules.ts";
import { type Player, startVirtualPlayer } from "../../simulation/virtual-player.ts";
import { type RunRequest, type RunResult, recordRun } from "../recorded-run.ts";
import { openRealPlayer } from "./real-player.ts";

export type ExploreWish = {
  forMs: number;
  /** No more schedules than this; as many as the time allows where absent. */
  most?: number;
  links: LinksKind;
  /** The embedded deployment's store, on real links. */
  limiter: "sqlite" | "redis";
  /** In place of the healthy platform on virtual links, to test the search itself. */
  mutant: string | null;
};

type ExploreRun = Omit<RunRequest, "targets" | "profile" | "required"> & ExploreWish;

const STAGE = "explore";
const EXPECTED = "whatever breaks when, and for how long: every invariant holds during it and after the heal";
const SHRINK_TRIALS: Readonly<Record<LinksKind, number>> = { virtual: 200, real: 12 };

const textOf = ({ failed, schedule, replayed, isFlaky, number }: Finding): string => {
  const broken = failed.map(({ id }) => id.replace(/\/.*/, "")).join(", ");
  const often = `${replayed.failed} of ${replayed.of} replays`;
  return isFlaky
    ? `schedule ${number} failed ${broken} once and then in ${often}, where ${OFTEN_ENOUGH} are needed: flaky (${describeSchedule(schedule)})`
    : `schedule ${number} fails ${broken} in ${often}; at its shortest: ${describeSchedule(schedule)}`;
};

const searchedClaim = ({ schedules, doubtful, events, findings }: Searched, replay: string): Claim => {
  const about = { id: `schedules/${STAGE}`, stage: STAGE, expected: EXPECTED, replay };
  const doubts = doubtful === 0 ? "" : `, ${doubtful} of them in doubt because of the load's generator`;
  const tried = `${schedules} schedules with ${events} faults were played${doubts}`;
  const isFailed = findings.some(({ isFlaky }) => !isFlaky);
  const isDoubtful = findings.length > 0 || schedules === 0 || doubtful * 2 > schedules;
  const verdict = isFailed ? "fail" : isDoubtful ? "inconclusive" : "pass";
  const found = findings.length === 0 ? "nothing failed in any of them" : findings.map(textOf).join("; ");
  const reason = `${tried}; ${found}`;
  return claimOf({ ...about, verdict, reason, got: verdict === "pass" ? "as expected" : found });
};

const summaryOf = (
  name: string,
  byOutcome: Record<string, number>,
  driver: string,
  durationMs: number,
): StageSummary => {
  const calls = { sent: 0, answered: 0, refused: 0, indeterminate: 0 };
  for (const [outcome, count] of Object.entries(byOutcome)) {
    calls.sent += count;
    calls[classOf(outcome)] += count;
  }
  return { name, driver, duration_ms: Math.round(durationMs), calls, by_outcome: byOutcome };
};

const wholeSearch = (searched: Searched, driver: string, durationMs: number, replay: string): StageOutcome =>
  stageOutcome({
    summary: summaryOf(STAGE, searched.byOutcome, driver, durationMs),
    claims: [searchedClaim(searched, replay)],
    facts: { ...bareFacts(STAGE), exclusive: true, shedding: "fixed", faults: true, drained: true },
  });

/** The shortest schedule that fails, as a stage of its own that can be judged again from its lines. */
const stageOfFinding = (
  { trial }: Finding,
  name: string,
  driver: string,
  replay: string,
): { outcome: StageOutcome; lines: readonly Line[] } => {
  const lines = trial.lines.map((line) => ({ ...line, stage: name }));
  const { texts: _, ...facts } = trial.facts;
  const spanUs = (lines.at(-1) ? lineTimeUs(lines.at(-1) as Line) : 0) - (lines[0] ? lineTimeUs(lines[0]) : 0);
  const outcome = stageOutcome({
    summary: summaryOf(name, trial.byOutcome, driver, spanUs / 1000),
    facts: { ...facts, stage: name },
    claims: trial.failed.map((claim) => {
      return { ...claim, id: claim.id.replace(/\/.*/, `/${name}`), stage: name, replay };
    }),
    faults: faultRecords(lines.flatMap((line) => (line.type === "fault" ? [line] : []))),
  });
  return { outcome, lines };
};

const search = async (context: RunContext, request: ExploreRun, player: Player): Promise<void> => {
  const { seed, events, folder } = context;
  const { links, limiter, mutant, most = Number.POSITIVE_INFINITY } = request;
  const driver = links === "real" ? "open-loop" : "virtual";
  const began = performance.now();
  const untilMs = began + request.forMs;
  let files = 0;
  const searched = await searchSchedules({
    seed,
    play: player.play,
    shrinkTrials: SHRINK_TRIALS[links],
    progress: events.progress,
    goesOn: (schedules) => !context.signal.aborted && schedules < most && performance.now() < untilMs,
    found: async (finding) => {
      files += 1;
      const name = `crashes/explore-${files}.json`;
      const crash = scheduleCrashOf(finding, { seed, links, limiter, mutant, file: folder.pathOf(name) });
      await folder.writeJson(name, crash);
      events.result(`  ${finding.isFlaky ? "flaky" : "fails"}: ${crash.title}\n    ${crash.replay}`);
      if (finding.isFlaky) return;
      // On real links the lines were written as they came, under the name of their stage.
      const stage = links === "real" ? finding.trial.stage : `${STAGE}-${files}`;
      const { outcome, lines } = stageOfFinding(finding, stage, driver, crash.replay);
      if (links === "virtual") for (const line of lines) context.line(line);
      await context.addStage(outcome);
    },
  });
  const whole = wholeSearch(searched, driver, performance.now() - began, context.replay);
  events.result(`  ${whole.claims[0]?.reason}`);
  await context.addStage(whole);
};

export const runExplore = (request: ExploreRun): Promise<RunResult> =>
  recordRun({ ...request, profile: "explore", targets: [] }, async (context) => {
    const { links, limiter, mutant } = request;
    context.events.step(
      links === "virtual" ? "searching in virtual time, on links in this process" : "searching on real links",
    );
    const player = links === "virtual" ? startVirtualPlayer({ mutant }) : await openRealPlayer(context, { limiter });
    const stop = (): void => void player.close();
    context.signal.addEventListener("abort", stop, { once: true });
    try {
      await search(context, request, player);
    } finally {
      context.signal.removeEventListener("abort", stop);
      await player.close();
    }
  });
