/** A log line for support, with everything in it. */
import type { Mutant } from "./mutant.ts";

export const printsTheToken: Mutant = {
  name: "prints-the-token",
  harm: "logs travel further than anybody means them to, and each line is a credential",
  kills: ["secrets-stay-secret"],
  stage: "answers",
  spoil: (healthy) => ({
    ...healthy,
    requestLog: (entry) => ({ ...healthy.requestLog(entry), credential: entry.credential }),
  }),
};
