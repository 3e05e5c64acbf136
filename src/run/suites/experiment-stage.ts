/** An experiment of the catalogue as a stage: which load beside it, who judges, what has to be seen. */

import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import type { Component } from "../../faults/fault.ts";
import { dependencyBudgetMs } from "../../history/stage-facts.ts";
import type { FaultState } from "../../history/states-reached.ts";
import { REFUSAL_OF } from "../../invariants/evidence/fault-windows.ts";
import type { LoadStage, SuiteFor } from "../../stages/stage-plan.ts";
import { runtimeCallers } from "../../workload/callers/callers.ts";
import { inFlightCaps, sharesOf } from "../../workload/callers/rates.ts";
import { evenly } from "../../workload/callers/tenants.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { profilePeakPerS } from "../../workload/load-profiles.ts";
import { brokenDependency } from "../../workload/stories/beside-faults.ts";

/** Of the embedded deployment, below cap / budget: while a dependency is silent each call holds its slot for the budget. */
const RATE_EMBEDDED_PER_S = { limiter: 40, keys: 12, api: 40, edge: 30 } as const;
/** Of three keys: some calls meet while a record is looked up, and too few wait to fill the cap. */
const RATE_FEW_KEYS_PER_S = 36;
const RATE_PAST_CAP_PER_S = { limiter: 160, keys: 60, api: 160, edge: 160 } as const;
const BUDGET_MS = 1_000;
const SHARE_OF_CAP = 0.5;
const TIMES_CAP = 1.7;
const HOLD_MS = 3_000;

/** The part that decides how long a call waits. */
const slowest = ({ faults }: Experiment): Exclude<Component, "service"> => {
  const [first = "limiter"] = faults.flatMap(({ component }) => (component === "service" ? [] : [component]));
  return faults.some(({ component }) => component === "keys") ? "keys" : first;
};

/** Calls per second; `undefined`: what the story gives fits. */
const rateBeside = (entry: Experiment, { target, embedded }: SuiteFor): number | undefined => {
  const link = slowest(entry);
  const isPast = entry.pastTheCap === true;
  if (embedded && entry.load === "few-keys") return RATE_FEW_KEYS_PER_S;
  // A process that is gone refuses at once, so that no call waits.
  if (embedded && entry.load === "streams") return RATE_EMBEDDED_PER_S.api;
  if (embedded) return (isPast ? RATE_PAST_CAP_PER_S : RATE_EMBEDDED_PER_S)[link];
  const view = viewOf(target);
  const { limits = {} } = target;
  const budgetMs = dependencyBudgetMs(link, limits) ?? BUDGET_MS;
  const { org } = sharesOf(evenly(runtimeCallers(view)));
  const caps = inFlightCaps(view);
  if (isPast && caps.all !== undefined) return (TIMES_CAP * caps.all * 1000) / budgetMs;
  const atOnce = Math.min(caps.all ?? Number.POSITIVE_INFINITY, (caps.org ?? Number.POSITIVE_INFINITY) / (org || 1));
  const most = (SHARE_OF_CAP * atOnce * 1000) / budgetMs;
  const own = brokenDependency.profile(view, {});
  return own === null || profilePeakPerS(own) <= most ? undefined : most;
};

/** A fault within the budget is one that callers need not see; elsewhere than here, so is one that a second try hides. */
const reachesOf = (entry: Experiment, embedded: boolean): string[] => {
  const link = slowest(entry);
  const shed = entry.pastTheCap === true ? ["429 b2b_overloaded"] : [];
  const isRefused = entry.refuses === "all" || (entry.refuses === "some" && embedded);
  if (isRefused && (link === "limiter" || link === "keys")) return [REFUSAL_OF[link], ...shed];
  return ["200", ...shed];
};

/** Callers' own connections, as opposed to those behind the API. */
const breaksConnections = ({ faults }: Experiment): boolean =>
  faults.some(({ component }) => component === "edge" || component === "api");

const judgesOf = (entry: Experiment): string[] => {
  // Without an API nobody can be refused for want of a dependency.
  const isOfDependency =
    entry.faults.some(({ component }) => component === "limiter" || component === "keys") && !breaksConnections(entry);
  const hasStreams = breaksConnections(entry) || entry.load === "streams";
  return [
    ...["recovers", "first-failing-check-decides", "counts-agree", "charged-once", "slots-are-given-back"],
    ...["nothing-is-left-open", "organizations-do-not-share"],
    ...(isOfDependency ? ["fails-closed", "refuses-in-time"] : []),
    ...(hasStreams ? ["streams-end-once", "streams-cut"] : []),
    ...(entry.load === "last-units" ? ["admits-at-most-the-allowance", "admits-what-is-allowed"] : []),
    // They judge refusals, and where none is due there is nothing to see.
    ...(entry.refuses === "none" ? [] : ["envelope-fits-subcode", "refused-is-not-charged"]),
    ...(entry.pastTheCap === true ? ["sheds-only-over-the-cap"] : []),
  ];
};

/** What a load brings about on any deployment; the others need one that charges and shows it as ours does. */
const SEEN_ANYWHERE: readonly FaultState[] = ["cold-keys", "shedding"];

export const experimentStage = (given: SuiteFor, entry: Experiment): LoadStage => {
  const { name, faults, healsInOrder, load, requiredStates = [] } = entry;
  // Where connections break, streams are to be open on them.
  const besideOthers = load === "streams" || breaksConnections(entry) ? "broken-edge" : "broken-dependency";
  const story = load === "last-units" ? load : besideOthers;
  return {
    ...{ kind: "load", name, driver: "open-loop", story, durationS: 60, ratePerS: rateBeside(entry, given) },
    judges: judgesOf(entry),
    pastTheCap: entry.pastTheCap,
    tenants: load === "few-keys" ? "few" : load === "last-units" ? load : undefined,
    requiredStates: given.embedded ? requiredStates : requiredStates.filter((state) => SEEN_ANYWHERE.includes(state)),
    disturbance: { kind: "faults", name, faults, holdMs: HOLD_MS, healsInOrder },
    reaches: reachesOf(entry, given.embedded),
  };
};

/** In the main job, and with `--short`: the dependency is gone, or silent after it has done what it was asked. */
export const SHORT_EXPERIMENTS = ["limiter-refused", "limiter-reply-lost", "keys-refused", "keys-reply-lost"];

export const experimentNamed = (given: SuiteFor, name: string): LoadStage => {
  const experiment = EXPERIMENTS.get(name);
  if (experiment === undefined) throw new Error(`there is no experiment "${name}"`);
  return experimentStage(given, experiment);
};
