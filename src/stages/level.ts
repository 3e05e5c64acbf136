/** A level: one rate or profile on one deployment, with the lines of its calls, cut off as soon as it is clear. */
import { wallUs } from "../client/clock.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { RunContext } from "../deployments/run-context.ts";
import type { DriveJob, Driven } from "../drivers/driver.ts";
import { driveOpenLoop } from "../drivers/open-loop/driver.ts";
import type { CallLine } from "../history/line.ts";
import { pause } from "../supervision/waiting.ts";
import { inHand } from "./play.ts";

export type LevelRoom = Pick<RunContext, "epochUs" | "signal" | "supervisor" | "line">;

export type Level = Driven & {
  lines: CallLine[];
  /** When it was cut off, in microseconds of the run; `null` where it was played to its end. */
  cutOffUs: number | null;
};

/** Asked four times a second with the lines so far: whether more would change nothing. Moments are of the run. */
type IsClear = (lines: readonly CallLine[], startUs: number, nowUs: number) => boolean;

const LOOK_EVERY_MS = 250;

export const playLevel = async (
  { epochUs, signal, supervisor, line: write }: LevelRoom,
  { target, secrets, budget }: Pick<Deployment, "target" | "secrets" | "budget">,
  job: Omit<DriveJob, "target" | "epochUs">,
  isClear?: IsClear,
): Promise<Level> => {
  const lines: CallLine[] = [];
  let startUs: number | null = null;
  let cutOffUs: number | null = null;
  const untilClear = async (loadOver: AbortSignal): Promise<void> => {
    while (!loadOver.aborted && cutOffUs === null) {
      await pause(LOOK_EVERY_MS, loadOver);
      const nowUs = wallUs() - epochUs;
      if (startUs !== null && isClear?.(lines, startUs, nowUs)) cutOffUs = nowUs;
    }
  };
  const driven = await inHand(
    supervisor,
    "the open-loop driver",
    driveOpenLoop,
  )(
    {
      ...{ job: { ...job, target, epochUs }, secrets, budget, signal },
      onLine: (line) => {
        lines.push(line);
        write(line);
      },
      onStart: (us) => {
        startUs = us;
      },
    },
    isClear === undefined ? undefined : untilClear,
  );
  return { ...driven, lines, cutOffUs };
};
