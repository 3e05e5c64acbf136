/** Processes that are killed, stopped, or ended in order, and brought back on the same ports and stores. */
import type { ExperimentEntry, ProcessFaultName } from "./experiment-entry.ts";

type Part = "limiter" | "keys" | "api";

/** One that is killed takes what is under way with it, so streams are to be open. */
const meetsOf = (link: Part, fault: ProcessFaultName): Pick<ExperimentEntry, "meets" | "load"> => {
  const cold = link === "keys" ? (["cold-keys"] as const) : [];
  if (link === "api") return { meets: ["streams-open"] };
  return fault === "killed" ? { meets: [...cold, "streams-open"], load: "streams" } : { meets: cold };
};

const entry = (link: Part, fault: ProcessFaultName, holds: string): ExperimentEntry => ({
  name: `${link}-${fault}`,
  breaks: [{ by: "process", link, fault }],
  refuses: link === "api" ? "none" : "all",
  holds,
  ...meetsOf(link, fault),
});

export const PROCESS_EXPERIMENTS: readonly ExperimentEntry[] = [
  entry("limiter", "killed", "429 limiter_unavailable while it is gone; what it had charged before is in the ledger"),
  entry("limiter", "stopped", "silence ends at the limiter's budget; what it charges when it wakes is given back"),
  entry("limiter", "restarted", "it finishes what it had begun; 429 limiter_unavailable while it is gone"),
  entry("keys", "killed", "once the cached record is too old a call is refused with 503, and never with 401"),
  entry("keys", "stopped", "silence ends at the key service's budget with 503"),
  entry("keys", "restarted", "503 while it is gone; no key is forgotten"),
  entry("api", "killed", "calls in flight get no answer; what was answered before is charged exactly"),
  entry("api", "stopped", "calls wait, and are answered when it goes on: it does not accuse its dependencies"),
  entry("api", "restarted", "calls in flight are answered to their end; refunds are confirmed before it is gone"),
];
