/**
 * Which rate a driver holds in one of its modes: it plays catalog reads to a server that answers everything at once, and that
 * server says how many came and when the last of them did. A call that came late or not at all takes from the rate.
 */
import type { ChildProcess } from "node:child_process";
import { wallUs } from "../../client/clock.ts";
import type { Driver } from "../../drivers/driver.ts";
import { CEILING_SHARE } from "../../history/calibration-checks.ts";
import type { FoldLine } from "../../history/line.ts";
import type { Calibration } from "../../history/run-document.ts";
import { createSecrets } from "../../target/secrets.ts";
import { arrivalTimesUs } from "../../workload/arrivals.ts";
import { guardBudget } from "../../workload/budget.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { constant } from "../../workload/load-profiles.ts";
import { targetAt } from "./calibrate-driver.ts";
import type { Ceiling } from "./calibration-plan.ts";
import type { CalibrationStub } from "./start-stub.ts";

type HeldRate = Ceiling & {
  name: string;
  driver: Driver;
  seed: number;
  precise?: boolean;
  onSpawn?(child: ChildProcess): void;
  signal: AbortSignal;
};

export const heldRate = async (
  { nullUrl, look }: Pick<CalibrationStub, "nullUrl" | "look">,
  { name, driver, mode, perS, forS, seed, signal, ...more }: HeldRate,
): Promise<Calibration> => {
  const profile = constant(perS, forS);
  const arrivals = "poisson";
  const schedule = arrivalTimesUs(profile, arrivals, seed);
  const target = targetAt(nullUrl);
  const epochUs = wallUs();
  let written = 0;
  const onFold = ({ offered }: FoldLine): void => {
    written += offered;
  };
  await look();
  const { startUs } = await driver({
    job: {
      stage: "ceiling",
      idPrefix: "ceiling.c",
      story: "catalog-reads",
      seed,
      profile,
      arrivals,
      target,
      view: viewOf(target),
      epochUs,
      drainMs: 2_000,
      ...(more.precise === true ? { precise: true as const } : {}),
    },
    secrets: createSecrets("."),
    budget: guardBudget({}),
    onLine: () => {
      written += 1;
    },
    ...(mode === "folded" ? { onFold } : {}),
    ...(more.onSpawn === undefined ? {} : { onSpawn: more.onSpawn }),
    signal,
  });
  const { calls, lastUs } = await look();
  const lastDueUs = schedule.at(-1) ?? 0;
  const tookUs = Math.max(lastDueUs, lastUs - epochUs - (startUs ?? 0));
  // What came and was not written down was not held either.
  const share = schedule.length === 0 ? 0 : Math.min(calls, written) / schedule.length;
  const measured = (perS * share * lastDueUs) / Math.max(1, tookUs);
  return {
    name: `${name}: null server, ${mode}, rate held`,
    truth: perS,
    measured,
    unit: "1/s",
    verdict: measured >= CEILING_SHARE * perS ? "pass" : "fail",
  };
};
