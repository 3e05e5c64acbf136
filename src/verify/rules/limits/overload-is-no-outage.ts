/**
 * More calls at once than the whole deployment carries, by several organizations (items 210, 211, 216, 222). A cap that is reported
 * as an outage of the key service, or as an organization's own, looks like one in a single burst; distinguished by bursts that come
 * again, below and above it.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { type Caller, crowd, forWantOfConnections, rateAllowed, wave } from "../../limits/load-burst.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { wait } from "../../sending/throttle.ts";

const GLOBAL = outcomeOf("b2b_overloaded");
const OWN = outcomeOf("org_overloaded");
const DOWN = outcomeOf("key_service_unavailable");
/** Bursts at the most, and so many that show an outage are enough to believe it. */
const BURSTS = 4;
const CONVINCED = 2;
const REST_MS = 1_500;
/** Streams that end early, or refusals that hold a place for a moment, take away some. */
const FULL_SHARE = 0.75;
/** Less of the refusals may be a key service that stumbles, or others' traffic. */
const SUCH_SHARE = 0.25;

/** What comes at any time, in a deployment that others use too. */
const STUMBLES_SHARE = 0.1;

const count = (answers: readonly Answer[], fits: (answer: Answer) => boolean): number => answers.filter(fits).length;
const isDown = ({ outcome }: Answer): boolean => outcome === DOWN;

type Plan = { callers: Caller[]; cap: number; orgCap: number; below: number; above: number };

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
  const want = forWantOfConnections(context, above);
  if (want !== "") return `${above} calls at once; ${want}`;
  return { callers, cap, orgCap, below: Math.floor(cap * 0.6), above };
};

const isOwn = ({ outcome }: Answer): boolean => outcome === OWN;
const isNamed = ({ outcome }: Answer): boolean => outcome === GLOBAL;

const owed = (answers: readonly Answer[]): number => count(answers, isNamed);

/** A full house, and such answers for a good part of the refusals. */
const looksLike = (answers: readonly Answer[], cap: number, isSuch: (answer: Answer) => boolean): boolean => {
  const admitted = count(answers, isAdmitted);
  const such = count(answers, isSuch);
  return admitted >= cap * FULL_SHARE && such >= (answers.length - admitted) * SUCH_SHARE && such > 4 * owed(answers);
};

const whoseCall = ({ testCall: { credential } }: Answer): string => JSON.stringify(credential);

/** Each of them below its own cap, and so many of them that all their caps together are more than the deployment's. */
const looksSwapped = (answers: readonly Answer[], { callers, above, cap, orgCap }: Plan): boolean => {
  const blamed = new Set(answers.filter(isOwn).map(whoseCall));
  const isBelow = Math.ceil(above / callers.length) <= orgCap;
  return isBelow && blamed.size >= 2 && blamed.size * orgCap >= cap && looksLike(answers, cap, isOwn);
};

/** What a call over the global cap was answered in place of its name. */
const MISTAKEN: readonly {
  looks(answers: readonly Answer[], plan: Plan): boolean;
  isSuch(answer: Answer): boolean;
  inCalm: string;
}[] = [
  {
    looks: (answers, { cap }) => looksLike(answers, cap, isDown),
    isSuch: isDown,
    inCalm: "the key service was down below the cap as well",
  },
  { looks: looksSwapped, isSuch: isOwn, inCalm: "organizations far below their caps were shed as well" },
];

/** Whether calls over the cap were refused, whatever the answer said. */
export const isMet = (answers: readonly Answer[], plan: Plan): boolean =>
  owed(answers) > 0 || looksSwapped(answers, plan);

/** A few of them may be others' traffic, so they have to outnumber what else was said. */
const isTold = (answers: readonly Answer[]): boolean =>
  owed(answers) > Math.max(count(answers, isDown), count(answers, isOwn));

type Bursts = { plan: Plan; calm: Answer[][]; above: Answer[][] };

/** Calm waves and bursts in turn, until the global cap has spoken or cannot be met. */
export const bursts = (context: Context): Promise<Bursts | string> =>
  context.once("bursts over the global cap", async () => {
    const plan = planOf(context);
    if (typeof plan === "string") return plan;
    const { callers, below, above } = plan;
    const found: Bursts = { plan, calm: [], above: [] };
    for (let i = 0; i < BURSTS; i++) {
      await wait(REST_MS, context.signal);
      found.calm.push(await wave(context, below, callers));
      await wait(REST_MS, context.signal);
      const answers = await wave(context, above, callers);
      found.above.push(answers);
      const isConvincing = MISTAKEN.some(
        ({ looks }) => found.above.filter((burst) => looks(burst, plan)).length >= CONVINCED,
      );
      if (isTold(answers) || isConvincing) break;
    }
    return found;
  });

const run: Rule["run"] = async (context) => {
  const checks = new Checks("b2b_overloaded, and nothing else, for calls over the global cap");
  const found = await bursts(context);
  if (typeof found === "string") return checks.result(found);
  const { plan } = found;
  const { cap, below, above } = plan;
  if (found.above.some(isTold)) {
    checks.fine();
    return checks.result();
  }
  for (const { looks, isSuch, inCalm } of MISTAKEN) {
    const shown = found.above.filter((answers) => looks(answers, plan));
    const last = shown.at(-1)?.findLast(isSuch);
    if (shown.length < CONVINCED || last === undefined) continue;
    const ill = found.calm.find((calm) => count(calm, isSuch) > calm.length * STUMBLES_SHARE);
    if (ill !== undefined) {
      checks.unclear(`${inCalm}: ${inWords(ill.find(isSuch) as Answer)}`);
      return checks.result();
    }
    const times = shown.map((answers) => count(answers, isSuch)).join(" and ");
    const expected = `429 b2b_overloaded above ${cap} calls at once`;
    checks.require(false, last, expected, `${times} of ${above} were such, and hardly any of ${below} before`);
    return checks.result();
  }
  const down = found.calm.find((calm) => count(calm, isDown) > calm.length * STUMBLES_SHARE);
  if (down !== undefined) checks.unclear("the key service was down, below the cap as well");
  return checks.result(`the global cap of ${cap} was not met with ${above} streams at once`);
};

export const globalOverload: Rule = {
  id: "overload-is-no-outage",
  level: "must",
  spec: [210, 211, 216, 222],
  title:
    "calls over the global cap are answered 429 b2b_overloaded, not that the key service or an organization is at its end",
  phase: "load",
  needs: { permission: "load", anyOf: ["server", "publishable"] },
  // Four bursts, each with calm between.
  cost: ({ limits }) => ({ calls: Math.ceil(4 * 1.85 * (limits?.global_in_flight ?? 0)) }),
  run,
};
