/**
 * The table of experiments: what is broken, whether calls that need it are refused, what must hold, and which states
 * the fault must meet to prove anything.
 */
import type { FaultState } from "../history/run-document.ts";
import type { Fault } from "./fault.ts";

export type Experiment = {
  name: string;
  faults: readonly [Fault, ...Fault[]];
  /** Which calls that need the broken part are refused. `some`: a deployment that retries may hide the fault. */
  refuses: "all" | "some" | "none";
  holds: string;
  requiredStates?: readonly FaultState[];
  /**
   * Default: reads and metered calls of many organizations. `streams`: streams too. `last-units`: also mints of
   * organizations with one map load left. `few-keys`: three organizations only, whose calls share keys.
   */
  load?: "streams" | "last-units" | "few-keys";
  healsInOrder?: true;
  /** The load exceeds the in-flight cap while the dependency is silent, so that calls are shed as well. */
  pastTheCap?: true;
  store?: "sqlite" | "redis";
};

export const HOLDS_ALWAYS: readonly string[] = [
  "no call is admitted that the broken dependency had to decide, and no valid key is answered 401",
  "what was refused is not charged, and what was admitted is charged once",
  "after the heal calls are admitted as before, by the deadline of recovery",
];

type More = Partial<Omit<Experiment, "faults" | "refuses" | "holds" | "pastTheCap">>;
type Row = readonly [faults: Experiment["faults"] | Fault, refuses: Experiment["refuses"], holds: string, more?: More];

const link = (component: "limiter" | "keys" | "edge", fault: string): Fault => ({ by: "link", component, fault });
type By<Way extends Fault["by"]> = Extract<Fault, { by: Way }>;
const process = (component: By<"process">["component"], fault: By<"process">["fault"]): Fault => {
  return { by: "process", component, fault };
};
const store = (fault: By<"store">["fault"]): Fault => ({ by: "store", component: "limiter", fault });

const REPLY_LOST = link("limiter", "reply-lost");
const COLD: More = { requiredStates: ["cold-keys"] };
const REFUND: More = { requiredStates: ["refund-under-way"] };
const OPEN: More = { requiredStates: ["streams-open"] };
const REDIS: More = { store: "redis" };
const SQLITE: More = { store: "sqlite" };

// biome-ignore format: an experiment on a line
const ROWS: readonly Row[] = [
  [link("limiter", "refused"), "all", "every call that needs the limiter is refused with 429 limiter_unavailable"],
  [link("limiter", "accepted-then-closed"), "all", "a connection that looks healthy and is closed counts as no answer: 429 limiter_unavailable"],
  [link("limiter", "request-lost"), "all", "silence ends at the limiter's budget with 429 limiter_unavailable; nothing was charged"],
  [REPLY_LOST, "all", "silence ends at the limiter's budget with 429 limiter_unavailable; what the limiter charged is given back", REFUND],
  [link("limiter", "reset"), "all", "a connection that is reset is no answer: 429 limiter_unavailable; what the limiter charged is given back"],
  [link("limiter", "slow-within-budget"), "none", "an answer inside the budget is an answer: nothing is refused because of it"],
  [link("limiter", "slow-beyond-budget"), "all", "an answer beyond the budget counts as no answer: 429 limiter_unavailable; what the limiter charged is given back", REFUND],
  [link("limiter", "truncated-reply"), "some", "an answer that is cut short counts as no answer: 429 limiter_unavailable; what the limiter charged is given back"],
  [link("limiter", "trickle"), "some", "the budget bounds the whole answer and not each of its pieces: 429 limiter_unavailable"],
  [link("limiter", "flapping"), "some", "calls are decided while the link is up and refused with 429 limiter_unavailable while it is down"],
  // The link from the API to the key service. Cached records are used for up to the revocation budget.
  [link("keys", "refused"), "all", "once the cached record is too old a call is refused with 503, and never with 401", COLD],
  [link("keys", "accepted-then-closed"), "all", "a connection that looks healthy and is closed counts as no answer: 503", COLD],
  [link("keys", "request-lost"), "all", "silence ends at the key service's budget with 503", COLD],
  [link("keys", "reply-lost"), "all", "silence ends at the key service's budget with 503", COLD],
  [link("keys", "reset"), "all", "a connection that is reset is no answer: 503, and not an unknown key", COLD],
  [link("keys", "slow-within-budget"), "none", "an answer inside the budget is an answer: nothing is refused, and calls by one key share one look-up", { load: "few-keys" }],
  [link("keys", "slow-beyond-budget"), "all", "an answer beyond the budget counts as no answer: 503", COLD],
  [link("keys", "truncated-reply"), "some", "an answer that is cut short counts as no answer: 503, and not an unknown key"],
  [link("keys", "trickle"), "some", "the budget bounds the whole answer and not each of its pieces: 503"],
  [link("keys", "flapping"), "some", "calls are decided while the link is up or a record is fresh, and refused with 503 otherwise"],
  // Processes, restarted on the same ports and stores. A kill cuts calls off, so streams have to be open.
  [process("limiter", "killed"), "all", "429 limiter_unavailable while it is gone; what it had charged before is in the ledger", { ...OPEN, load: "streams" }],
  [process("limiter", "stopped"), "all", "silence ends at the limiter's budget; what it charges when it wakes is given back", { requiredStates: [] }],
  [process("limiter", "restarted"), "all", "it finishes what it had begun; 429 limiter_unavailable while it is gone", { requiredStates: [] }],
  [process("keys", "killed"), "all", "once the cached record is too old a call is refused with 503, and never with 401", { requiredStates: ["cold-keys", "streams-open"], load: "streams" }],
  [process("keys", "stopped"), "all", "silence ends at the key service's budget with 503", COLD],
  [process("keys", "restarted"), "all", "503 while it is gone; no key is forgotten", COLD],
  [process("api", "killed"), "none", "calls in flight get no answer; what was answered before is charged exactly", OPEN],
  [process("api", "stopped"), "none", "calls wait, and are answered when it goes on: it does not accuse its dependencies", OPEN],
  [process("api", "restarted"), "none", "calls in flight are answered to their end; refunds are confirmed before it is gone", OPEN],
  // The limiter's store fails or is slow, while processes and links are well.
  [store("oom"), "all", "Redis takes no more writes: 429 limiter_unavailable, and nothing is charged by half", REDIS],
  [store("readonly"), "all", "Redis became a replica: 429 limiter_unavailable until it is a master again", REDIS],
  [store("loading"), "all", "Redis reads its files after a kill: 429 limiter_unavailable; nothing charged is lost", REDIS],
  [store("noscript"), "none", "Redis forgets the scripts, over and over: they are loaded again, and charge once", REDIS],
  [store("aof-slow"), "all", "writes wait as behind a slow disk: refused at the limiter's budget, and given back", REDIS],
  [store("locked"), "some", "somebody else holds the file: what cannot be charged in time is refused", SQLITE],
  [store("disk-full"), "some", "no file can be written: what cannot be charged is refused, and is not charged later", SQLITE],
  [[link("limiter", "refused"), link("keys", "refused")], "all", "the key service is asked first: 503 once the cached record is too old, 429 limiter_unavailable before", { name: "both-refused" }],
  [[process("limiter", "killed"), process("keys", "killed")], "all", "as with broken links; both come back with what they had stored", { name: "both-killed" }],
  // The link from callers to the API: callers see broken answers, and the API must account for them correctly.
  [link("edge", "truncated-reply"), "none", "a slot is given back when the connection ends in mid-stream", { ...OPEN, name: "client-cut-mid-stream" }],
  [link("edge", "trickle"), "none", "an answer that is read in crumbs holds its own slot and nobody else's", { ...OPEN, name: "slow-client" }],
  [link("edge", "reset"), "none", "a call whose connection is reset is charged at most once, and its slot is given back", OPEN],
  // Moments at which a wrong charge or refund costs money.
  [REPLY_LOST, "all", "a mint that takes the last map load and hears nothing is refused, and one mint has it afterwards",
    { name: "last-unit-reply-lost", load: "last-units", requiredStates: ["last-unit", "refund-under-way"] }],
  [[{ by: "operator", component: "service", fault: "new-month" }, REPLY_LOST], "all", "what was charged before a month's edge is given back to that month, and the new one begins with nothing used",
    { name: "month-edge-reply-lost", load: "last-units", requiredStates: ["month-edge", "refund-under-way"] }],
  // The API exits only after the limiter has confirmed its refunds, so the limiter is healed first.
  [[process("limiter", "stopped"), process("api", "restarted-unsettled")], "some", "told to end while the limiter is silent, the API stays until its refunds are confirmed",
    { name: "api-restarted-unsettled", load: "streams", requiredStates: ["refund-under-way"], healsInOrder: true }],
];

/** Experiments that are repeated under a load beyond the in-flight cap, to test shedding and refunds at once. */
export const PAST_THE_CAP: readonly string[] = [
  ...["limiter-reply-lost", "limiter-slow-beyond-budget", "limiter-stopped"],
  ...["keys-request-lost", "keys-stopped"],
];

const BELOW_THE_CAP = ROWS.map(([broken, refuses, holds, more]): Experiment => {
  const faults: Experiment["faults"] = "by" in broken ? [broken] : broken;
  const [{ component, fault }] = faults;
  return { name: `${component}-${fault}`, faults, refuses, holds, ...more };
});

const beyondTheCap = ({ name, holds, requiredStates = [], ...experiment }: Experiment): Experiment => ({
  ...experiment,
  name: `${name}-past-the-cap`,
  holds: `${holds}; beyond the cap on calls in flight, 429 b2b_overloaded, and only there`,
  requiredStates: [...requiredStates, "shedding"],
  pastTheCap: true,
});

export const EXPERIMENTS: ReadonlyMap<string, Experiment> = new Map(
  [...BELOW_THE_CAP, ...BELOW_THE_CAP.filter(({ name }) => PAST_THE_CAP.includes(name)).map(beyondTheCap)].map(
    (experiment) => [experiment.name, experiment],
  ),
);
