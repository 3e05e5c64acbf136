/** Both dependencies at once. */
import type { ExperimentEntry } from "./experiment-entry.ts";

export const AT_ONCE_EXPERIMENTS: readonly ExperimentEntry[] = [
  {
    name: "both-refused",
    breaks: [
      { by: "link", link: "limiter", fault: "refused" },
      { by: "link", link: "keys", fault: "refused" },
    ],
    refuses: "all",
    holds: "the key service is asked first: 503 once the cached record is too old, 429 limiter_unavailable before",
  },
  {
    name: "both-killed",
    breaks: [
      { by: "process", link: "limiter", fault: "killed" },
      { by: "process", link: "keys", fault: "killed" },
    ],
    refuses: "all",
    holds: "as with broken links; both come back with what they had stored",
  },
];
