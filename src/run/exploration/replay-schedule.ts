/** A recorded schedule of faults again (`dev replay FILE`): fixed, failing or unclear. */
import type { ScheduleCrash } from "../../simulation/schedule-crash.ts";
import { isCertain, type PlaySchedule, type Replayed, replaySchedule } from "../../simulation/trial.ts";
import { startVirtualPlayer } from "../../simulation/virtual-player.ts";
import { type RunRequest, recordRun } from "../recorded-run.ts";
import { openRealPlayer } from "./real-player.ts";

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
