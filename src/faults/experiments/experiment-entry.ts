/** An experiment as data: what is broken, how, and what must hold meanwhile and afterwards. */
import type { FaultState } from "../../history/states-reached.ts";

/** A dependency, the API itself, or the way from callers to it. */
export type BrokenPart = "limiter" | "keys" | "api" | "edge" | "service";

export type ProcessFaultName =
  | "killed"
  | "stopped"
  | "restarted"
  /** Told to end while refunds are not confirmed yet. */
  | "restarted-unsettled";

/** Of Redis: `oom`, `readonly`, `loading`, `noscript`, `aof-slow`. Of SQLite: `locked`, `disk-full`. */
export type StoreErrorName = "oom" | "readonly" | "loading" | "noscript" | "aof-slow" | "locked" | "disk-full";

export type Breakage =
  /** A name of faults/faults/catalogue.ts, on the way to the part. */
  | { by: "link"; link: "limiter" | "keys" | "edge"; fault: string }
  | { by: "process"; link: "limiter" | "keys" | "api"; fault: ProcessFaultName }
  | { by: "store"; link: "limiter"; fault: StoreErrorName }
  /** The operator moves the clock of all parts past a month's edge. */
  | { by: "clock"; link: "service"; fault: "new-month" }
  /** Whatever the commands of a target file do (`faults`). */
  | { by: "command"; link: BrokenPart; fault: string };

export type ExperimentEntry = {
  /** The name of its stage, too. */
  name: string;
  /** More than one: at once. */
  breaks: readonly [Breakage, ...Breakage[]];
  /**
   * Whether calls that need the dependency are refused because of it: all of them, some (a deployment that tries again may
   * hide it), or none.
   */
  refuses: "all" | "some" | "none";
  /** What must hold while it lasts, in a sentence. */
  holds: string;
  /** What it has to meet, or it has proved nothing. */
  meets?: readonly FaultState[];
  /**
   * In place of reads and metered calls of many organizations: those beside streams, beside mints of organizations with one
   * map load left, or of three organizations alone, whose calls meet on one key.
   */
  load?: "streams" | "last-units" | "few-keys";
  /** Of several at once: healed in the order in which they were put in, and not in the other. */
  healsInOrder?: true;
  /** The load goes beyond what the in-flight cap holds while the dependency is silent, so that calls are shed as well. */
  pastTheCap?: true;
  /** Only where the limiter keeps its counts in this. */
  store?: "sqlite" | "redis";
};

/** What a call that needs the dependency is refused with while it is broken (items 153, 213, 216). */
export const REFUSAL_OF: Readonly<Record<"limiter" | "keys", string>> = {
  limiter: "429 limiter_unavailable",
  keys: "503",
};

/** What must hold of every experiment, beside its own sentence. */
export const HOLDS_ALWAYS: readonly string[] = [
  "no call is admitted that the broken dependency had to decide, and no valid key is answered 401",
  "what was refused is not charged, and what was admitted is charged once",
  "after the heal calls are admitted as before, by the deadline of recovery",
];

type Entry = Pick<ExperimentEntry, "refuses" | "holds" | "meets" | "load"> & { fault: string };

export const ofLink = (link: "limiter" | "keys", entries: readonly Entry[]): ExperimentEntry[] =>
  entries.map(({ fault, ...entry }) => ({
    name: `${link}-${fault}`,
    breaks: [{ by: "link", link, fault }],
    ...entry,
  }));
