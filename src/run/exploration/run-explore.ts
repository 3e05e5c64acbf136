/** The body of `chaos --explore`: random schedules of faults, on virtual or real links; failing ones are shortened. */
import { addAbortListener } from "node:events";
import type { RunContext } from "../../deployments/deployment.ts";
import { openDeployment } from "../../deployments/embedded.ts";
import { faultRecords } from "../../faults/disturbance.ts";
import { describeSchedule, durationS, type FaultSchedule } from "../../faults/fault-schedule.ts";
import { type Line, lineTimeUs } from "../../history/line.ts";
import { type Claim, claimOf } from "../../history/run-document.ts";
import { bareFacts, countedSummary, stageOutcome } from "../../history/stage-facts.ts";
import { INVARIANTS } from "../../invariants/catalogue.ts";
import { inOrder } from "../../invariants/invariant.ts";
import {
  type Finding,
  isCertain,
  type LinksKind,
  OFTEN_ENOUGH,
  replaySchedule,
  type ScheduleCrash,
  type Searched,
  scheduleCrashOf,
  searchSchedules,
  type Trial,
} from "../../simulation/search-schedules.ts";
import { type Player, startVirtualPlayer } from "../../simulation/virtual-player.ts";
import { playLoadStage } from "../../stages/load-stage.ts";
import type { LoadStage } from "../../stages/stage-plan.ts";
import { type Asked, type RunResult, recordRun } from "../recorded-run.ts";

export type ExploreWish = {
  forMs: number;
  /** The most schedules; as many as the time allows if absent. */
  most?: number;
  links: LinksKind;
  /** The embedded deployment's store, on real links. */
  limiter: "sqlite" | "redis";
  /** Replaces the healthy platform on virtual links, to test the search itself. */
  mutant: string | null;
};

type ExploreRun = Asked & ExploreWish;

const STAGE = "explore";
const EXPECTED = "whatever breaks when, and for how long: every invariant holds during it and after the heal";
const SHRINK_TRIALS: Readonly<Record<LinksKind, number>> = { virtual: 200, real: 12 };
const SPARE_S = 30;

const ofStage = (claim: Claim, stage: string): Claim => {
  return { ...claim, id: claim.id.replace(/\/.*/, `/${stage}`), stage };
};

const openRealPlayer = async (context: RunContext, limiter: ExploreWish["limiter"]): Promise<Player> => {
  const deployment = await openDeployment(context, { limiter });
  let number = 0;
  const play = async (schedule: FaultSchedule): Promise<Trial> => {
    number += 1;
    const plan: LoadStage = {
      ...{ kind: "load", name: `${STAGE}-${number}`, driver: "open-loop", arrivals: "poisson" },
      ...{ story: schedule.story, ratePerS: schedule.ratePerS, durationS: durationS(schedule) + SPARE_S },
      judges: INVARIANTS.map(({ id }) => id),
      disturbance: { kind: "fault-schedule", events: schedule.events },
    };
    const lines: Line[] = [];
    const onLine = (line: Line): void => void lines.push(line);
    const { claims, summary, facts } = await playLoadStage(context, deployment, plan, { onLine });
    // A claim that the stage was reached says whether it can be judged; it is no invariant.
    const isAbout = ({ id }: Claim): boolean => id.startsWith("reached/");
    const failed = claims.filter((one) => !isAbout(one) && one.verdict === "fail" && one.level === "must");
    const doubts = claims.filter((one) => isAbout(one) && one.verdict !== "pass");
    return {
      failed: failed.map((claim) => ofStage(claim, STAGE)),
      byOutcome: summary.by_outcome,
      stage: summary.name,
      lines: inOrder(lines),
      facts,
      doubt: doubts.map(({ reason }) => reason).join("; ") || null,
    };
  };
  return { play, close: async () => undefined };
};

type ScheduleReplayed = Pick<Claim, "reason" | "expected" | "got"> & { verdict: "fixed" | "failing" | "unclear" };

/** `record`: how to record a run on real links; a run on virtual links is not recorded. */
export const replayScheduleCrash = async (crash: ScheduleCrash, record: Asked): Promise<ScheduleReplayed> => {
  const replay = async ({ play }: Player): Promise<ScheduleReplayed> => {
    const replayed = await replaySchedule(play, crash.schedule, new Set(crash.failed.map(({ id }) => id)));
    const { failed, of, last } = replayed;
    const [claim] = last?.failed ?? [];
    return {
      verdict: isCertain(replayed) ? "failing" : failed === 0 ? "fixed" : "unclear",
      reason: `failed in ${failed} of ${of} replays`,
      expected: (claim ?? crash.failed[0])?.expected ?? "",
      got: claim === undefined ? "as expected" : `${claim.reason}: ${claim.got}`,
    };
  };
  if (crash.links === "virtual") {
    const player = startVirtualPlayer({ mutant: crash.mutant });
    return replay(player).finally(player.close);
  }
  const { came, document } = await recordRun({ ...record, profile: "replay", targets: [] }, async (context) =>
    replay(await openRealPlayer(context, crash.limiter ?? "sqlite")),
  );
  const why = document.claims.find(({ id }) => id === "run/completed")?.reason ?? "the run did not come to its end";
  return came ?? { verdict: "unclear", reason: why, expected: "a whole run", got: "none" };
};

const textOf = ({ failed, schedule, replayed, isFlaky, number }: Finding): string => {
  const broken = failed.map(({ id }) => id.replace(/\/.*/, "")).join(", ");
  const often = `${replayed.failed} of ${replayed.of} replays`;
  return isFlaky
    ? `schedule ${number} failed ${broken} once and then in ${often}, where ${OFTEN_ENOUGH} are needed: flaky (${describeSchedule(schedule)})`
    : `schedule ${number} fails ${broken} in ${often}; at its shortest: ${describeSchedule(schedule)}`;
};

const searchedClaim = ({ schedules, doubtful, events, findings }: Searched, replay: string): Claim => {
  const doubts = doubtful === 0 ? "" : `, ${doubtful} of them in doubt because of the load's generator`;
  const isFailed = findings.some(({ isFlaky }) => !isFlaky);
  const isDoubtful = findings.length > 0 || schedules === 0 || doubtful * 2 > schedules;
  const verdict = isFailed ? "fail" : isDoubtful ? "inconclusive" : "pass";
  const found = findings.length === 0 ? "nothing failed in any of them" : findings.map(textOf).join("; ");
  return claimOf({
    ...{ id: `schedules/${STAGE}`, stage: STAGE, expected: EXPECTED, replay, verdict },
    reason: `${schedules} schedules with ${events} faults were played${doubts}; ${found}`,
    got: verdict === "pass" ? "as expected" : found,
  });
};

const search = async (context: RunContext, request: ExploreRun, player: Player): Promise<void> => {
  const { seed, events, folder, signal } = context;
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
    goesOn: (schedules) => !signal.aborted && schedules < most && performance.now() < untilMs,
    found: async (finding) => {
      files += 1;
      const name = `crashes/explore-${files}.json`;
      const crash = scheduleCrashOf(finding, { seed, links, limiter, mutant, file: folder.pathOf(name) });
      await folder.writeJson(name, crash);
      events.result(`  ${finding.isFlaky ? "flaky" : "fails"}: ${crash.title}\n    ${crash.replay}`);
      if (finding.isFlaky) return;
      // The shortest failing schedule becomes a stage, so that it can be judged again from its lines. On real links the
      // history already has them, under their own stage.
      const { failed, byOutcome, ...trial } = finding.trial;
      const stage = links === "real" ? trial.stage : `${STAGE}-${files}`;
      const lines = trial.lines.map((line): Line => ({ ...line, stage }));
      if (links === "virtual") for (const line of lines) context.line(line);
      const { texts: _, ...facts } = trial.facts;
      const [first, last] = [lines[0], lines.at(-1)];
      const spanUs = first === undefined || last === undefined ? 0 : lineTimeUs(last) - lineTimeUs(first);
      await context.addStage(
        stageOutcome({
          summary: countedSummary(stage, driver, Math.round(spanUs / 1000), byOutcome),
          facts: { ...facts, stage },
          claims: failed.map((claim) => ({ ...ofStage(claim, stage), replay: crash.replay })),
          faults: faultRecords(lines.filter((line) => line.type === "fault")),
        }),
      );
    },
  });
  const claim = searchedClaim(searched, context.replay);
  events.result(`  ${claim.reason}`);
  await context.addStage(
    stageOutcome({
      summary: countedSummary(STAGE, driver, Math.round(performance.now() - began), searched.byOutcome),
      claims: [claim],
      facts: { ...bareFacts(STAGE), exclusive: true, shedding: "fixed", faults: true, drained: true },
    }),
  );
};

export const runExplore = (request: ExploreRun): Promise<RunResult> =>
  recordRun({ ...request, profile: "explore", targets: [] }, async (context) => {
    const { links, limiter, mutant } = request;
    const isVirtual = links === "virtual";
    context.events.step(isVirtual ? "searching in virtual time, on links in this process" : "searching on real links");
    const player = isVirtual ? startVirtualPlayer({ mutant }) : await openRealPlayer(context, limiter);
    using _stop = addAbortListener(context.signal, () => void player.close());
    await search(context, request, player).finally(player.close);
  });
