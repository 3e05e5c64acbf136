/** Refunds that a replica has begun and the limiter has not confirmed: a moment at which a fault costs somebody money. */

import { readGauges } from "../../client/control-planes.ts";
import { waitUntil } from "../../supervision/waiting.ts";

/** Some calls more than the first that was given up. */
const ENOUGH = 5;

/** Whether so many are under way before the time is over. `apis`: control planes of the replicas. */
export const untilRefundsAreUnderWay = async (
  apis: readonly string[],
  forMs: number,
  signal: AbortSignal,
): Promise<boolean> => {
  const areUnderWay = async (): Promise<boolean> =>
    (await readGauges(apis)).reduce((sum, { unsettled = 0 }) => sum + unsettled, 0) >= ENOUGH;
  return (await waitUntil(areUnderWay, { forMs, pollMs: 10, signal })).met;
};
