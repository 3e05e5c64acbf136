/**
 * More calls at once than the whole deployment carries, by several organizations (items 210, 211, 216, 222). A cap that is told
 * as an outage of the key service, or as an organization's own, looks like one in a single burst; told apart by bursts that come
 * again, below and above it.
 */
import { outcomeOf } from "../../contract/subcodes.ts";
import { type Answer, isAdmitted, told } from "../answer.ts";
import { Checks } from "../checks.ts";
import type { Context } from "../context.ts";
import { type Caller, crowd, forWantOfConnections, overload, rateAllowed, SHED, wave } from "../load-burst.ts";
import type { Rule } from "../rule.ts";
import { wait } from "../throttle.ts";

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

const whoseCall = ({ probe: { credential } }: Answer): string => JSON.stringify(credential);

/** Each of them below its own cap, and so many of them that all their caps together are more than the deployment's. */
const looksSwapped = (answers: readonly Answer[], { callers, above, cap, orgCap }: Plan): boolean => {
  const told = new Set(answers.filter(isOwn).map(whoseCall));
  const isBelow = Math.ceil(above / callers.length) <= orgCap;
  return isBelow && told.size >= 2 && told.size * orgCap >= cap && looksLike(answers, cap, isOwn);
};

/** What a call over the global cap was told in place of its name. */
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

/** Whether calls over the cap were refused, whatever they were told. */
const isMet = (answers: readonly Answer[], plan: Plan): boolean => owed(answers) > 0 || looksSwapped(answers, plan);

/** A few of them may be others' traffic, so they have to outnumber what else was said. */
const isTold = (answers: readonly Answer[]): boolean =>
  owed(answers) > Math.max(count(answers, isDown), count(answers, isOwn));

type Bursts = { plan: Plan; calm: Answer[][]; above: Answer[][] };

/** Calm waves and bursts in turn, until the global cap has spoken or cannot be met. */
const bursts = (context: Context): Promise<Bursts | string> =>
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
      checks.unclear(`${inCalm}: ${told(ill.find(isSuch) as Answer)}`);
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

/** Streams that surely ran side by side: each is taken to have ended well before its client saw the end. */
const sideBySide = (answers: readonly Answer[]): number => {
  const moments = answers.filter(isAdmitted).flatMap(({ exchanged: { firstUs, doneUs, ended } }) => {
    if (firstUs === null || (ended !== "done" && ended !== "eof")) return [];
    return [
      { atUs: firstUs, step: 1 },
      { atUs: firstUs + (doneUs - firstUs) * SURELY_RUNNING, step: -1 },
    ];
  });
  let [now, most] = [0, 0];
  for (const { step } of moments.sort((a, b) => a.atUs - b.atUs || a.step - b.step)) {
    now += step;
    most = Math.max(most, now);
  }
  return most;
};
const SURELY_RUNNING = 0.6;
/** A cap may be held by several threads, each a little behind the others. */
const OVER = 1.15;
/** So much of a cap is surely free for a wave that comes after a rest. */
const FREE_SHARE = 0.75;
const SHED_MIN = 3;
const SHED_SHARE = 0.1;

const shedIn = (answers: readonly Answer[]): Answer[] => answers.filter(({ outcome }) => SHED.test(outcome));
const isMuchShed = (answers: readonly Answer[]): boolean =>
  shedIn(answers).length >= Math.max(SHED_MIN, answers.length * SHED_SHARE);

/** Only where caps are stated and fixed is a shed judged call by call (interface: `shedding`). */
export const capsAreKept: Rule = {
  id: "overload-keeps-the-caps",
  level: "must",
  spec: [210, 211],
  title: "where the caps are stated and fixed, calls are shed above them and not below",
  phase: "load",
  needs: { permission: "load", anyOf: ["server", "publishable"] },
  run: async (context) => {
    const checks = new Checks("no more streams side by side than a cap allows, and none shed far below it");
    const { org_in_flight: orgCap, replicas = 1 } = context.target.limits ?? {};
    if (context.target.shedding !== "fixed" || orgCap === undefined) {
      return checks.result("fixed shedding with limits.org_in_flight in the target file");
    }
    if (replicas > 1) return checks.result("one replica: with more, nobody knows which of them was full");
    const { bySize, caller } = await overload(context);
    const judge = (answers: readonly Answer[], cap: number, whose: string): void => {
      const most = sideBySide(answers);
      const last = answers.filter(isAdmitted).at(-1);
      if (answers.length <= cap || last === undefined) return;
      checks.require(
        most <= Math.ceil(cap * OVER),
        last,
        `at most ${cap} at once, ${whose}`,
        `${most} ran side by side`,
      );
    };
    for (const [size, answers] of bySize) {
      judge(answers, orgCap, "the cap of one organization");
      if (size > orgCap * FREE_SHARE || caller === null) continue;
      // Once may be others' traffic.
      let [shed, again] = [shedIn(answers), isMuchShed(answers)];
      if (again) {
        await wait(REST_MS, context.signal);
        const second = await wave(context, size, [caller]);
        [shed, again] = [shedIn(second), isMuchShed(second)];
      }
      const one = shed.at(-1);
      if (again && one !== undefined) {
        checks.require(
          false,
          one,
          `none shed of ${size} at once, under a cap of ${orgCap}`,
          `${shed.length} were, twice`,
        );
      } else checks.fine();
    }
    const found = await bursts(context);
    if (typeof found !== "string") {
      for (const answers of found.above) judge(answers, found.plan.cap, "the global cap");
    }
    const want = forWantOfConnections(context, orgCap);
    return checks.result(["no wave came above a cap or far below it", want].filter(Boolean).join("; "));
  },
};

const RECOVER_WITHIN_MS = 12_000;
const ALMOST_FULL = 0.9;

/** Last of all: whatever the bursts and the refusals before have left behind shows now. */
export const overloadEnds: Rule = {
  id: "overload-ends",
  level: "must",
  spec: [180, 210, 220],
  title: "after bursts over the global cap and refusals, almost as many as the cap allows are served again",
  phase: "load",
  needs: { permission: "load", anyOf: ["server", "publishable"] },
  run: async (context) => {
    const found = await bursts(context);
    const checks = new Checks(`hardly any stream shed, within ${RECOVER_WITHIN_MS / 1000} s`);
    if (typeof found === "string") return checks.result(found);
    const { callers, cap, orgCap } = found.plan;
    if (!found.above.some((answers) => isMet(answers, found.plan))) {
      return checks.result(`the global cap of ${cap} was not met with ${found.plan.above} streams at once`);
    }
    const size = Math.floor(ALMOST_FULL * Math.min(cap, callers.length * orgCap));
    const broken = { body: { text: '{"messages": [', is: "malformed" }, atOnce: true, once: true } as const;
    for (let i = 0; i < cap / 2; i += callers.length) {
      await Promise.all(callers.map((caller) => context.send({ route: "chat.control", ...caller, ...broken })));
    }
    const endMs = performance.now() + RECOVER_WITHIN_MS;
    for (;;) {
      await wait(REST_MS, context.signal);
      const answers = await wave(context, size, callers);
      const shed = shedIn(answers);
      const last = shed.at(-1);
      if (last === undefined || !isMuchShed(answers)) {
        if (answers.some(isAdmitted)) checks.fine();
        else checks.unclear("nothing was served for another reason");
        return checks.result();
      }
      if (performance.now() < endMs) continue;
      checks.require(false, last, `${size} streams served at once`, `${shed.length} were shed`);
      return checks.result();
    }
  },
};

export const globalOverload: Rule = {
  id: "overload-is-no-outage",
  level: "must",
  spec: [210, 211, 216, 222],
  title:
    "calls over the global cap are told 429 b2b_overloaded, not that the key service or an organization is at its end",
  phase: "load",
  needs: { permission: "load", anyOf: ["server", "publishable"] },
  run,
};
