/** Trials on real links: the embedded deployment behind toxiproxy, loaded by the open-loop driver's own process. */
import { type EmbeddedOptions, openDeployment } from "../../deployments/embedded.ts";
import type { RunContext } from "../../deployments/run-context.ts";
import { AFTER_MS, durationS, type FaultSchedule, RECOVERY_MS } from "../../faults/fault-schedule.ts";
import type { Line } from "../../history/line.ts";
import { INVARIANTS } from "../../invariants/catalogue.ts";
import { inOrder } from "../../invariants/judge-stage.ts";
import type { ScheduleCrash } from "../../simulation/schedule-crash.ts";
import {
  isCertain,
  type PlaySchedule,
  type Replayed,
  replaySchedule,
  type Trial,
} from "../../simulation/search-schedules.ts";
import { type Player, startVirtualPlayer } from "../../simulation/virtual-player.ts";
import { playLoadStage } from "../../stages/load-stage.ts";
import type { LoadStage } from "../../stages/stage-plan.ts";
import { type RunRequest, recordRun } from "../recorded-run.ts";

type ScheduleReplayed = {
  verdict: "fixed" | "failing" | "unclear";
  reason: string;
  expected: string;
  got: string;
};

const verdictOf = (crash: ScheduleCrash, { failed, of, last }: Replayed): ScheduleReplayed => {
  const [first] = crash.failed;
  const often = `failed in ${failed} of ${of} replays`;
  const [claim] = last?.failed ?? [];
  const came = {
    reason: often,
    expected: claim?.expected ?? first?.expected ?? "",
    got: claim === undefined ? "as expected" : `${claim.reason}: ${claim.got}`,
  };
  if (isCertain({ failed, of, last })) return { verdict: "failing", ...came };
  return { verdict: failed === 0 ? "fixed" : "unclear", ...came };
};

/** `record`: how a run on real links is recorded; on virtual ones nothing is written. */
export const replayScheduleCrash = async (
  crash: ScheduleCrash,
  record: Omit<RunRequest, "targets" | "profile">,
): Promise<ScheduleReplayed> => {
  const as = new Set(crash.failed.map(({ id }) => id));
  const replay = async (play: PlaySchedule): Promise<ScheduleReplayed> =>
    verdictOf(crash, await replaySchedule(play, crash.schedule, as));
  if (crash.links === "virtual") {
    const player = startVirtualPlayer({ mutant: crash.mutant });
    return replay(player.play).finally(player.close);
  }
  let replayed: ScheduleReplayed | null = null;
  const { document } = await recordRun({ ...record, profile: "replay", targets: [] }, async (context) => {
    replayed = await replay((await openRealPlayer(context, { limiter: crash.limiter ?? "sqlite" })).play);
  });
  const why = document.claims.find(({ id }) => id === "run/completed")?.reason ?? "the run did not come to its end";
  return replayed ?? { verdict: "unclear", reason: why, expected: "a whole run", got: "none" };
};

const SPARE_S = 30;
/** Says whether the stage can be judged; it is no invariant. */
const ABOUT_THE_STAGE = /^reached\//;

const planOf = (schedule: FaultSchedule, number: number): LoadStage => ({
  kind: "load",
  name: `explore-${number}`,
  driver: "open-loop",
  story: schedule.story,
  arrivals: "poisson",
  ratePerS: schedule.ratePerS,
  durationS: durationS(schedule) + SPARE_S,
  judges: INVARIANTS.map(({ id }) => id),
  disturbance: {
    kind: "fault-schedule",
    events: schedule.events,
    recoveryMs: RECOVERY_MS,
    restMs: RECOVERY_MS + AFTER_MS,
  },
});

export const openRealPlayer = async (context: RunContext, wish: EmbeddedOptions): Promise<Player> => {
  const deployment = await openDeployment(context, wish);
  let number = 0;
  return {
    play: async (schedule): Promise<Trial> => {
      number += 1;
      const lines: Line[] = [];
      const plan = planOf(schedule, number);
      const played = await playLoadStage(context, deployment, plan, { onLine: (line) => void lines.push(line) });
      const { claims, summary, facts } = played;
      const doubts = claims.filter(({ id, verdict }) => ABOUT_THE_STAGE.test(id) && verdict !== "pass");
      const judged = claims.filter(({ id }) => !ABOUT_THE_STAGE.test(id));
      return {
        failed: judged
          .filter(({ verdict, level }) => verdict === "fail" && level === "must")
          // One name for all trials.
          .map((claim) => ({ ...claim, id: claim.id.replace(/\/explore-\d+$/, "/explore"), stage: "explore" })),
        judged: judged.filter(({ verdict }) => verdict === "pass" || verdict === "fail").length,
        byOutcome: summary.by_outcome,
        stage: summary.name,
        lines: inOrder(lines),
        facts,
        doubt: doubts.length === 0 ? null : doubts.map(({ reason }) => reason).join("; "),
      };
    },
    close: async () => undefined,
  };
};
