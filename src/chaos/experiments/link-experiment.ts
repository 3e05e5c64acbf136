/** A fault of one dependency as data: what is broken, and what must hold meanwhile and afterwards. */

export type LinkExperiment = {
  /** `<link>-<fault>`: the name of its stage, too. */
  name: string;
  link: "limiter" | "keys";
  /** A name of chaos/catalogue.ts. */
  fault: string;
  /**
   * Whether calls that need the dependency are refused because of it: all of them, some (a deployment that tries again may
   * hide it), or none.
   */
  refuses: "all" | "some" | "none";
  /** What must hold while it lasts, in a sentence. */
  holds: string;
};

/** What a call that needs the dependency is refused with while it is broken (items 153, 213, 216). */
export const REFUSAL_OF: Readonly<Record<LinkExperiment["link"], string>> = {
  limiter: "429 limiter_unavailable",
  keys: "503",
};

/** What must hold of every experiment, beside its own sentence. */
export const HOLDS_ALWAYS: readonly string[] = [
  "no call is admitted that the broken dependency had to decide, and no valid key is answered 401",
  "what was refused is not charged, and what was admitted is charged once",
  "after the heal calls are admitted as before, by the deadline of recovery",
];

type Entry = Pick<LinkExperiment, "fault" | "refuses" | "holds">;

export const ofLink = (link: LinkExperiment["link"], entries: readonly Entry[]): LinkExperiment[] =>
  entries.map((entry) => ({ name: `${link}-${entry.fault}`, link, ...entry }));
