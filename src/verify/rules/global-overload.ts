/**
 * More calls at once than the whole deployment carries, by several organizations (items 210, 216, 222). A cap that is told as
 * an outage of the key service looks like one in a single burst; told apart by bursts that come again, below and above it.
 */
import { outcomeOf } from "../../contract/subcodes.ts";
import { type Answer, isAdmitted, told } from "../answer.ts";
import { Checks } from "../checks.ts";
import type { Context } from "../context.ts";
import { type Caller, crowd, rateAllowed, wave } from "../load-burst.ts";
import type { Rule } from "../rule.ts";
import { wait } from "../throttle.ts";

const GLOBAL = outcomeOf("b2b_overloaded");
const DOWN = outcomeOf("key_service_unavailable");
/** Bursts at the most, and so many that show an outage are enough to believe it. */
const BURSTS = 4;
const CONVINCED = 2;
const REST_MS = 1_500;
/** Streams that end early, or refusals that hold a place for a moment, take away some. */
const FULL_SHARE = 0.75;
/** Less of the refusals may be a key service that stumbles. */
const DOWN_SHARE = 0.25;

/** What comes at any time, in a deployment that others use too. */
const STUMBLES_SHARE = 0.1;

const count = (answers: readonly Answer[], fits: (answer: Answer) => boolean): number => answers.filter(fits).length;
const isDown = ({ outcome }: Answer): boolean => outcome === DOWN;

type Plan = { callers: Caller[]; cap: number; below: number; above: number };

/** What the rule needs beyond roles, or the reason why it cannot be tried. */
const planOf = (context: Context): Plan | string => {
  const { global_in_flight: cap, org_in_flight: orgCap, replicas = 1 } = context.target.limits ?? {};
  if (context.target.shedding !== "fixed" || cap === undefined || orgCap === undefined) {
    return "fixed shedding with limits.global_in_flight and limits.org_in_flight in the target file";
  }
  if (replicas > 1) return "one replica: with more, nobody knows which of them was full";
  const callers = crowd(context);
  if (callers.length * orgCap < cap) {
    return `${Math.ceil(cap / orgCap)} organizations, to reach the global cap below their own: publishable_other_org and tenants with server keys`;
  }
  const above = cap + Math.max(8, Math.ceil(cap / 4));
  if (above > rateAllowed(context)) return `${above} calls at once, and permits.load_max_rps allows fewer`;
  return { callers, cap, below: Math.floor(cap * 0.6), above };
};

const owed = (answers: readonly Answer[]): number => count(answers, ({ outcome }) => outcome === GLOBAL);

/** A full house, and outages for a good part of the refusals. */
const looksDown = (answers: readonly Answer[], cap: number): boolean => {
  const admitted = count(answers, isAdmitted);
  const down = count(answers, isDown);
  return admitted >= cap * FULL_SHARE && down >= (answers.length - admitted) * DOWN_SHARE && down > 4 * owed(answers);
};

const run: Rule["run"] = async (context) => {
  const checks = new Checks("b2b_overloaded, and no 503, for calls over the global cap");
  const plan = planOf(context);
  if (typeof plan === "string") return checks.result(plan);
  const { callers, cap, below, above } = plan;
  const shown: Answer[][] = [];
  for (let i = 0; i < BURSTS && shown.length < CONVINCED; i++) {
    await wait(REST_MS, context.signal);
    const calm = await wave(context, below, callers);
    const down = calm.find(isDown);
    if (down !== undefined && count(calm, isDown) > calm.length * STUMBLES_SHARE) {
      checks.unclear(`the key service was down below the cap as well: ${told(down)}`);
      return checks.result();
    }
    await wait(REST_MS, context.signal);
    const answers = await wave(context, above, callers);
    // A few of them may be others' traffic, so they have to outnumber the outages.
    if (owed(answers) > count(answers, isDown)) {
      checks.fine();
      return checks.result();
    }
    if (looksDown(answers, cap)) shown.push(answers);
  }
  const last = shown.at(-1)?.findLast(isDown);
  if (shown.length < CONVINCED || last === undefined) {
    return checks.result(`the global cap of ${cap} was not met with ${above} streams at once`);
  }
  const downs = shown.map((answers) => count(answers, isDown)).join(" and ");
  const expected = `429 b2b_overloaded above ${cap} calls at once`;
  checks.require(false, last, expected, `${downs} of ${above} were such, and hardly any of ${below} before`);
  return checks.result();
};

export const globalOverload: Rule = {
  id: "overload-is-no-outage",
  level: "must",
  spec: [210, 216, 222],
  title: "calls over the global cap are told 429 b2b_overloaded, not 503 as if the key service were down",
  phase: "load",
  needs: { permission: "load", anyOf: ["server", "publishable"] },
  run,
};
