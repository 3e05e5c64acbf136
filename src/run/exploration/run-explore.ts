/** The body of `chaos --explore`: random schedules of faults, on virtual links or on real ones, and what fails made short. */
import { describeSchedule } from "../../exploration/fault-schedule.ts";
import { type LinksKind, OFTEN_ENOUGH, scheduleCrashOf } from "../../exploration/schedule-crash.ts";
import { type Finding, type Searched, searchSchedules } from "../../exploration/search-schedules.ts";
import { type Player, startVirtualPlayer } from "../../exploration/virtual-player.ts";
import { type CallClass, classOf } from "../../history/line.ts";
import type { Claim, StageSummary } from "../../history/run-document.ts";
import { faultRecords } from "../disturbances/link-fault.ts";
import { type RunRequest, type RunResult, recordRun } from "../recorded-run.ts";
import type { RunContext } from "../run-context.ts";
import type { StageOutcome } from "../stages/stage-outcome.ts";
import { openRealPlayer } from "./real-player.ts";

export type ExploreWish = {
  /** How long to search. */
  forMs: number;
  /** No more schedules than this; as many as the time allows where absent. */
  most?: number;
  links: LinksKind;
  /** In place of the healthy platform, on virtual links: to try the search itself. */
  mutant: string | null;
};

export type ExploreRun = Omit<RunRequest, "targets" | "profile" | "required"> & ExploreWish;

const STAGE = "explore";
const EXPECTED = "whatever breaks when, and for how long: every invariant holds during it and after the heal";
/** On real links each trial takes some ten seconds. */
const SHRINK_TRIALS: Readonly<Record<LinksKind, number>> = { virtual: 200, real: 12 };

const claimOf = (
  id: string,
  verdict: Claim["verdict"],
  parts: Pick<Claim, "reason" | "got" | "replay"> & Partial<Claim>,
): Claim => ({
  ...{ id, stage: STAGE, level: "must", verdict, expected: EXPECTED, spec: [], evidence: [], ...parts },
});

const claimsOfFinding = ({ failed, schedule, replayed, isFlaky, number }: Finding, replay: string): Claim[] => {
  const often = `in ${replayed.failed} of ${replayed.of} replays`;
  const where = `schedule ${number}, at its shortest: ${describeSchedule(schedule)}`;
  return failed.map((claim) =>
    isFlaky
      ? claimOf(claim.id, "inconclusive", {
          reason: `flaky: it failed once and then ${often}, where ${OFTEN_ENOUGH} are needed (${claim.reason}; ${where})`,
          ...{ got: claim.got, spec: claim.spec, replay },
        })
      : { ...claim, reason: `${claim.reason}, ${often}; ${where}`, replay },
  );
};

const searchedClaim = ({ schedules, doubtful, events, findings }: Searched, { replay }: RunContext): Claim => {
  const tried = `${schedules} schedules with ${events} faults were played`;
  const id = `schedules/${STAGE}`;
  if (findings.some(({ isFlaky }) => !isFlaky)) {
    return claimOf(id, "fail", {
      reason: `${tried}; ${findings.length} found something`,
      got: "a schedule that fails",
      replay,
    });
  }
  if (schedules === 0 || doubtful * 2 > schedules) {
    const reason = `${tried}, ${doubtful} of them in doubt because of the load's generator`;
    return claimOf(id, "inconclusive", { reason, got: reason, replay });
  }
  const aside = doubtful === 0 ? "" : `, ${doubtful} of them in doubt because of the load's generator`;
  return claimOf(id, "pass", { reason: `${tried}${aside}; nothing failed in any of them`, got: "as expected", replay });
};

const summaryOf = ({ byOutcome }: Searched, links: LinksKind, durationMs: number): StageSummary => {
  const calls = { sent: 0, answered: 0, refused: 0, indeterminate: 0 };
  for (const [outcome, count] of Object.entries(byOutcome)) {
    calls.sent += count;
    calls[classOf(outcome) satisfies CallClass] += count;
  }
  const driver = links === "real" ? "open-loop" : "virtual";
  return { name: STAGE, driver, duration_ms: Math.round(durationMs), calls, by_outcome: byOutcome };
};

const outcomeOf = (searched: Searched, links: LinksKind, durationMs: number, claims: Claim[]): StageOutcome => {
  const lines = searched.findings.flatMap(({ trial }) => trial.lines);
  const faults = lines.flatMap((line) => (line.type === "fault" ? [line] : []));
  return {
    ...{ summary: summaryOf(searched, links, durationMs), lines, claims, measurements: [], notes: [] },
    faults: faultRecords(faults),
    facts: {
      ...{ stage: STAGE, exclusive: true, limits: {}, shedding: "fixed", tenants: {}, faults: true, drained: true },
    },
  };
};

const search = async (context: RunContext, request: ExploreRun, player: Player): Promise<void> => {
  const { seed, events, folder } = context;
  const { links, mutant, most = Number.POSITIVE_INFINITY } = request;
  const began = performance.now();
  const untilMs = began + request.forMs;
  const claims: Claim[] = [];
  let files = 0;
  const searched = await searchSchedules({
    ...{ seed, play: player.play, shrinkTrials: SHRINK_TRIALS[links], progress: events.progress },
    goesOn: (schedules) => !context.signal.aborted && schedules < most && performance.now() < untilMs,
    found: async (finding) => {
      files += 1;
      const name = `crashes/explore-${files}.json`;
      const crash = scheduleCrashOf(finding, { seed, links, mutant, file: folder.pathOf(name) });
      await folder.writeJson(name, crash);
      claims.push(...claimsOfFinding(finding, crash.replay));
      // On real links they were written as they came.
      if (links === "virtual") for (const line of finding.trial.lines) context.line(line);
      events.result(`  ${finding.isFlaky ? "flaky" : "fails"}: ${crash.title}\n    ${crash.replay}`);
    },
  });
  claims.push(searchedClaim(searched, context));
  await context.addStage(outcomeOf(searched, links, performance.now() - began, claims));
};

export const runExplore = (request: ExploreRun): Promise<RunResult> =>
  recordRun({ ...request, profile: "explore", targets: [] }, async (context) => {
    const { links, mutant } = request;
    context.events.step(
      links === "virtual" ? "searching in virtual time, on links in this process" : "searching on real links",
    );
    const player = links === "virtual" ? startVirtualPlayer({ mutant }) : await openRealPlayer(context);
    const stop = (): void => void player.close();
    context.signal.addEventListener("abort", stop, { once: true });
    try {
      await search(context, request, player);
    } finally {
      context.signal.removeEventListener("abort", stop);
      await player.close();
    }
  });
