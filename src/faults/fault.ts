/** A fault as a value: which component is broken, by what means, and how. Effects, injection and undo follow. */
import type { Limits } from "../history/stage-facts.ts";
import { REFUSAL_OF } from "../invariants/evidence/fault-windows.ts";
import { type FaultStream, linkBudgetMs, makeFault } from "./link-faults.ts";

/** `edge` is the way from callers to the API; `service` is everything that the operator controls. */
export type Component = "limiter" | "keys" | "api" | "edge" | "service";

/** Faults of a process, which is restarted on the same ports and store. */
const PROCESS_FAULTS = {
  killed: "its process is killed (SIGKILL), and started again on the same port and store",
  stopped: "its process is stopped (SIGSTOP), and goes on (SIGCONT)",
  restarted: "its process is ended in order (SIGTERM), and started again after a while",
  "restarted-unsettled": "its process is told to end (SIGTERM) while refunds are not confirmed, and started again",
};

/** Faults of the limiter's store: `locked` and `disk-full` for SQLite, the others for Redis. */
const STORE_FAULTS = {
  oom: "Redis is out of memory (maxmemory)",
  readonly: "Redis is made the replica of a master that is not there",
  loading: "Redis is killed and takes its time to read its files",
  noscript: "Redis is made to forget its scripts every 50 ms",
  "aof-slow": "Redis lets no write through (CLIENT PAUSE), as behind a disk that does not come back",
  locked: "another connection holds the SQLite file for writing",
  "disk-full": "no file of the limiter's process may grow or be written (prlimit)",
};

const OPERATOR_FAULTS = {
  slowed: "each call takes several times as long",
  halved: "half as many calls are served at once",
  "rolling-deploy": "all replicas are replaced, one after the other",
  "new-month": "the clock of all parts is moved to just before the next month, which then comes",
};

export type Fault =
  /** `fault`: one of `LINK_FAULTS`. */
  | { by: "link"; component: "limiter" | "keys" | "edge"; fault: string }
  /** `replica`: counted from 0. */
  | { by: "process"; component: "limiter" | "keys" | "api"; fault: keyof typeof PROCESS_FAULTS; replica?: number }
  | { by: "store"; component: "limiter"; fault: keyof typeof STORE_FAULTS }
  | { by: "operator"; component: "service"; fault: keyof typeof OPERATOR_FAULTS }
  | { by: "commands"; component: Component; fault: string };

/** The key of a fault's commands in a target file, such as `limiter.refused`. */
export const faultKey = ({ component, fault }: Pick<Fault, "component" | "fault">): string => `${component}.${fault}`;

const WHAT = { ...PROCESS_FAULTS, ...STORE_FAULTS, ...OPERATOR_FAULTS };

/** What the fault does, as a sentence, and which direction of a link it affects. */
export const aboutFault = (fault: Fault, limits: Limits | undefined): { what: string; stream: FaultStream } => {
  if (fault.by === "link") return makeFault(fault.fault, { budgetMs: linkBudgetMs(fault.component, limits) });
  return {
    what: fault.by === "commands" ? "what the commands of the target file do" : WHAT[fault.fault],
    stream: "both",
  };
};

/** Prefixes of outcomes that faults may cause: refusals; with a broken API or edge also no answer or a gateway's. */
export const outcomesOf = (faults: readonly Fault[]): readonly string[] => {
  const refusals = Object.values(REFUSAL_OF);
  const cutsCalls = faults.some(({ component }) => component === "api" || component === "edge");
  return cutsCalls ? [...refusals, "indeterminate", "edge "] : refusals;
};
