/** A fault as a value (which component is broken, by what means, and how), and the interface of what injects it. */
import type { Limits } from "../history/run-document.ts";
import { REFUSAL_OF } from "../invariants/evidence/fault-windows.ts";
import type { Undo } from "../supervision/journal.ts";
import { tryEach } from "../supervision/waiting.ts";
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

/** Injects a fault, shows its effect and heals it; `undo` heals it even after this process has died. */
export type FaultInjector = {
  /** Throws if the injection failed, or if another fault is in force. */
  inject: (signal: AbortSignal) => Promise<void>;
  /** Reports whether the effect shows at the place of injection; `null` if only callers can see it. */
  shows: (() => Promise<boolean>) | null;
  /** Heals by all means and returns the steps. Harmless without a fault. Throws if the fault is still in force. */
  heal: (signal: AbortSignal) => Promise<string[] | undefined>;
  undo: Undo;
  stream: FaultStream;
  injectMs: number;
  effectMs: number;
  healMs: number;
  notes: readonly string[];
};

/** Default deadlines: a command may wait for an orchestrator, a process for refunds, an effect for the first call. */
export const TIMES = { injectMs: 30_000, effectMs: 10_000, healMs: 30_000 };

/** Injects a fault that ends with this process or with the deployment that it started, so it needs no undo. */
export type OwnInjector = Pick<FaultInjector, "inject" | "shows" | "heal"> & Partial<FaultInjector>;

/** Adds the fields that most injectors of our own parts share. */
export const endsWithUs = (injector: OwnInjector): FaultInjector => ({
  ...{ ...TIMES, stream: "both", undo: { how: "nothing" }, notes: [] },
  ...injector,
});

/** Combines faults: injected in order, healed in reverse by default, and shown only if all of them show. */
export const atOnce = (parts: readonly FaultInjector[], healsInOrder = false): FaultInjector => {
  const [only, second] = parts as [FaultInjector, ...FaultInjector[]];
  if (second === undefined) return only;
  const sum = (field: "injectMs" | "effectMs" | "healMs"): number => parts.reduce((ms, part) => ms + part[field], 0);
  const shown = parts.flatMap(({ shows }) => shows ?? []);
  return {
    inject: async (signal) => {
      for (const part of parts) await part.inject(signal);
    },
    shows: shown.length === 0 ? null : async () => (await Promise.all(shown.map((shows) => shows()))).every(Boolean),
    heal: async (signal) => {
      const inOrder = healsInOrder ? parts : parts.toReversed();
      return (await tryEach(inOrder, (part) => part.heal(signal))).flatMap((did) => did ?? []);
    },
    undo: { how: "all", undos: parts.map(({ undo }) => undo) },
    stream: parts.every(({ stream }) => stream === only.stream) ? only.stream : "both",
    ...{ injectMs: sum("injectMs"), effectMs: sum("effectMs"), healMs: sum("healMs") },
    notes: parts.flatMap(({ notes }) => notes),
  };
};
