/** What the runner handed over. k6 opens the file once, in the init context; the runner removes it afterwards. */
import type { HandOver } from "../../src/workload/handover.ts";

const path = __ENV.FLOODGATE_HANDOVER;
if (path === undefined || path === "") {
  throw new Error("a scenario is run by Floodgate, which tells it the target: npx floodgate load SCENARIO --driver k6");
}

export const handed: HandOver = JSON.parse(open(path));
