/** A suite: the stages of a run as data, for the embedded deployment and for anybody's. */

import type { StagePlan, SuiteFor } from "../../stages/stage-plan.ts";

export type Suite = {
  readonly name: string;
  /** One sentence for help texts. */
  readonly purpose: string;
  stages(given: SuiteFor): StagePlan[];
};
