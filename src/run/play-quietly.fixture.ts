/** Stages as a recorded run on a target file, with nobody who listens. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RunEvents } from "../deployments/deployment.ts";
import type { RunDocument } from "../history/run-document.ts";
import type { StagesWish } from "../stages/stage-plan.ts";
import type { Target } from "../target/target.ts";
import { runStages } from "./bodies.ts";

const quiet = (): void => undefined;
export const QUIET: RunEvents = {
  folder: quiet,
  warning: quiet,
  step: quiet,
  progress: quiet,
  result: quiet,
  stage: quiet,
  signalled: quiet,
};

type Wish = {
  profile: string;
  /** The target file is written to it; the run is in `run` there. */
  folder: string;
  target: Target;
  stages: StagesWish["stages"];
  replay?: string;
  /** No claim of the test is about time, so its drivers are not calibrated first. */
  uncalibrated?: true | undefined;
};

export const playQuietly = async (wish: Wish): Promise<RunDocument> => {
  const { folder, target, stages, profile, replay = "-", uncalibrated } = wish;
  const targetFile = join(folder, "target.json");
  await writeFile(targetFile, JSON.stringify(target));
  const { document } = await runStages({
    profile,
    seed: 3,
    reports: folder,
    out: join(folder, "run"),
    replay,
    owned: [],
    targetFile,
    stages: { stages, short: false },
    ...(uncalibrated && { uncalibrated }),
    events: QUIET,
  });
  return document;
};
