/** Plays a stage or a level. Whatever throws, the load and everything beside it have ended on return. */

import { dirname, join } from "node:path";
import { wallUs } from "../client/clock.ts";
import type { Deployment, RunContext } from "../deployments/deployment.ts";
import { driveAutocannon } from "../drivers/autocannon/autocannon.ts";
import type { Drive, DriveJob, Driven, Driver } from "../drivers/driver.ts";
import { driveK6 } from "../drivers/k6/k6.ts";
import { driveOpenLoop } from "../drivers/open-loop/driver.ts";
import {
  consequencesOf,
  type Disturbance,
  type DisturbanceContext,
  type Disturbed,
  faultFacts,
  inconclusive,
  watchBesideFault,
} from "../faults/disturbance.ts";
import { breakBySchedule, injectBesideLoad } from "../faults/experiment.ts";
import { changeDeployment } from "../faults/injectors/operator.ts";
import { createRecentCalls } from "../faults/seen-by-callers.ts";
import type { CallLine, FaultLine, Line, MarkLine } from "../history/line.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { pause } from "../supervision/waiting.ts";
import { profilePeakPerS } from "../workload/load-profiles.ts";
import { sampleStage } from "./machine-use.ts";
import type { LoadStage } from "./stage-plan.ts";

/** Registers processes to end and folders to remove if the runner cannot. */
export type Hands = Pick<Supervisor, "adopt" | "ownFolder">;

/** For use without a run: children end when the runner's pipe closes. */
export const NO_HANDS: Hands = { adopt: () => () => undefined, ownFolder: () => () => undefined };

/** `beside` runs during the load and ends the load when it resolves; its signal fires when the load is over. */
type DriverInHand = (drive: Drive, beside?: (loadOver: AbortSignal) => Promise<void>) => Promise<Driven>;

export const inHand =
  (hands: Hands, name: string, driver: Driver): DriverInHand =>
  async (drive, beside) => {
    using atEnd = new DisposableStack();
    const loadOver = new AbortController();
    let besideOver: Promise<void> = Promise.resolve();
    const begun = (): Promise<void> => {
      besideOver = beside?.(loadOver.signal) ?? besideOver;
      besideOver.catch(() => undefined);
      return besideOver;
    };
    const inHands: Drive = {
      ...drive,
      onSpawn: (child) => {
        drive.onSpawn?.(child);
        if (child.pid !== undefined) atEnd.defer(hands.adopt(name, child.pid));
      },
      onFolder: (path) => atEnd.defer(hands.ownFolder(`${drive.job.stage}: what ${name} is handed`, path)),
    };
    try {
      return await driver(inHands, beside === undefined ? undefined : begun);
    } finally {
      loadOver.abort();
      await besideOver;
    }
  };

export const scenarioOf = (story: string): string => join(REPOSITORY, "scenarios", `${story}.ts`);

const driverFor = async (context: RunContext, plan: LoadStage): Promise<Driver> => {
  if (plan.driver === "open-loop") return driveOpenLoop;
  if (plan.driver === "autocannon") return driveAutocannon({ maxPerS: plan.ratePerS });
  return driveK6({
    k6Path: await context.tool("k6"),
    scenario: scenarioOf(plan.story),
    keepIn: dirname(context.folder.pathOf("k6/summary")),
  });
};

const disturb = (disturbance: Disturbance, beside: DisturbanceContext): Promise<Disturbed> => {
  if (disturbance.kind === "faults") return injectBesideLoad(disturbance, beside);
  if (disturbance.kind === "fault-schedule") return breakBySchedule(disturbance, beside);
  return changeDeployment(disturbance, beside);
};

type Playing = {
  onLine(line: Line): void;
  /** Awaited just before a disturbance acts on the deployment. */
  onDisturbance(): Promise<void>;
  driver?: Driver | undefined;
};

export const play = async (
  context: RunContext,
  deployment: Deployment,
  plan: LoadStage,
  job: Drive["job"],
  { onLine: see, onDisturbance, driver: given }: Playing,
) => {
  const { disturbance, name: stage, requiredStates = [] } = plan;
  const pids: number[] = [];
  const recent = createRecentCalls();
  const faults: FaultLine[] = [];
  const keep = (line: Line): void => {
    see(line);
    context.line(line);
  };
  const ratePerS = profilePeakPerS(job.profile);
  const { recovery_deadline_ms: recoveryMs } = faultFacts(disturbance, ratePerS, deployment.target.limits);
  const tolerated = consequencesOf(disturbance).mayCause;
  const errors = recoveryMs === undefined ? undefined : watchBesideFault(deployment.budget, recoveryMs, tolerated);
  let disturbed: Disturbed = { problems: [], notes: [] };
  const disturbing = async (disturbance: Disturbance, loadOver: AbortSignal): Promise<void> => {
    await onDisturbance();
    const onLine = (line: FaultLine | MarkLine): void => {
      keep(line);
      if (line.type === "mark") return;
      faults.push(line);
      errors?.fault(line);
    };
    const signal = AbortSignal.any([context.signal, loadOver]);
    const about = { context, deployment, stage, ratePerS, signal, recent, onLine, requiredStates };
    disturbed = await disturb(disturbance, about).catch((error: Error): Disturbed => {
      const reason = `the disturbance could not be carried out: ${error.message}`;
      return { problems: [inconclusive(reason)], notes: [] };
    });
  };
  using atEnd = new DisposableStack();
  atEnd.defer(sampleStage(context, stage, deployment.target.control?.api ?? [], pids));
  const driver = inHand(context.supervisor, `the ${plan.driver} driver`, given ?? (await driverFor(context, plan)));
  const driven = await driver(
    {
      job,
      secrets: deployment.secrets,
      budget: errors?.budget ?? deployment.budget,
      segments: plan.segments,
      onLine: (line) => {
        keep(line);
        recent.add(line);
        errors?.call(line);
      },
      onFold: plan.fold === true && disturbance === undefined ? keep : undefined,
      onProgress: (text) => context.events.progress(`${stage}: ${text}`),
      onSpawn: ({ pid }) => void (pid !== undefined && pids.push(pid)),
      signal: errors === undefined ? context.signal : AbortSignal.any([context.signal, errors.signal]),
    },
    disturbance === undefined ? undefined : (loadOver) => disturbing(disturbance, loadOver),
  );
  return { driven, disturbed, faults };
};

export type LevelRoom = Pick<RunContext, "epochUs" | "signal" | "supervisor" | "line">;

const LOOK_EVERY_MS = 250;

/** Plays one rate or profile. `cutOffUs`: when it was cut off, in microseconds of the run; `null` if it was not. */
export const playLevel = async (
  { epochUs, signal, supervisor, line: write }: LevelRoom,
  { target, secrets, budget }: Pick<Deployment, "target" | "secrets" | "budget">,
  job: Omit<DriveJob, "target" | "epochUs">,
  /** Called four times a second with the lines so far; `true` cuts the level off. Times are of the run. */
  isClear?: (lines: readonly CallLine[], startUs: number, nowUs: number) => boolean,
): Promise<Driven & { lines: CallLine[]; cutOffUs: number | null }> => {
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
  const driver = inHand(supervisor, "the open-loop driver", driveOpenLoop);
  const driven = await driver(
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
