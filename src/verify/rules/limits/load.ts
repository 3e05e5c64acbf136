/**
 * More streams at once than a cap allows (items 170, 180, 183, 210, 211, 220-223): with `--allow-load`, inside `load_max_rps`.
 * Which numbers hold may not be stated, so these rules look at how a cap is told, whom it concerns and whether it ends.
 */

import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import {
  DOWN,
  forWantOfConnections,
  type Overload,
  overload,
  pressRate,
  rateAllowed,
  SHED,
  wave,
} from "../../load-burst.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, isAdmitted, told } from "../../sending/answer.ts";
import { retryAfterMs } from "../../sending/retry-after.ts";
import { exchangeCall, type TestCall } from "../../sending/test-call.ts";
import { wait } from "../../sending/throttle.ts";
import { CALM_MS, loadRule, needs, requireLimits, wavesAroundAnEdgeCost, wavesCost } from "./load-rule.ts";
import { RATE_RULES } from "./rate-limit.ts";

/** More of a wave than a network loses, or a service that stumbles now and then: by one wave alone nobody can tell. */
const BAD_MIN = 2;
type Doubt = { what: string; isBad(answer: Answer): boolean; share: number };

const isMuch = (answers: readonly Answer[], { isBad, share }: Doubt): boolean =>
  answers.filter(isBad).length > Math.max(BAD_MIN, answers.length * share);

/** In place of a refusal: a lone call is served, half the wave is served whole, the whole wave shows it again. */
const showsAgain = async (context: Context, doubt: Doubt): Promise<Answer | null> => {
  const { isBad } = doubt;
  const { caller, bySize } = await overload(context);
  const bad = [...bySize].find(([, answers]) => isMuch(answers, doubt));
  if (caller === null || bad === undefined) return null;
  const [size, first] = bad;
  const served = first.filter(isAdmitted).length;
  if (served < 2) return null;
  for (const calmly of [1, Math.floor(served / 2)]) {
    await wait(CALM_MS, context.signal);
    const calm = await wave(context, calmly, [caller]);
    if (calm.some(isBad) || !calm.some(isAdmitted)) return null;
  }
  await wait(CALM_MS, context.signal);
  const second = await wave(context, size, [caller]);
  return isMuch(second, doubt) ? (second.findLast(isBad) ?? null) : null;
};

/** How a call over a cap may be told apart from refusals only by looking twice. */
const DOUBTFUL: readonly Doubt[] = [
  { what: "calls had no answer", isBad: ({ status }) => status === null, share: 0.05 },
  { what: "calls were told that something is down", isBad: ({ outcome }) => DOWN.test(outcome), share: 0.15 },
];

const capNotMet = (context: Context, { size }: Overload): string =>
  [`no cap was met with ${size} streams at once`, forWantOfConnections(context)].filter(Boolean).join("; ");

const overloadIsTold = loadRule({
  id: "overload-is-told",
  level: "must",
  spec: [183, 210, 211, 223],
  title: "calls over the caps are answered 429 b2b_overloaded or org_overloaded, and nothing else goes wrong",
  cost: wavesCost,
  run: async (context) => {
    const checks = new Checks("2xx or a limit's own subcode, in a flat body");
    const found = await overload(context);
    const { reached, answers, bySize } = found;
    requireLimits(checks, answers);
    for (const answer of answers) {
      if (!SHED.test(answer.outcome)) continue;
      checks.require(
        answer.envelope === "flat",
        answer,
        `{"error": "${answer.subcode}"} without detail`,
        `it was ${answer.envelope}`,
      );
    }
    let isDoubtful = false;
    for (const doubt of DOUBTFUL) {
      if (![...bySize.values()].some((one) => isMuch(one, doubt))) continue;
      isDoubtful = true;
      const bad = answers.filter(doubt.isBad);
      const what = `${bad.length} of ${answers.length} ${doubt.what}: ${told(bad[0] as Answer)}`;
      const last = await showsAgain(context, doubt);
      if (last === null) checks.unclear(what);
      else checks.require(false, last, "429 for calls over a cap", `${what}; again in a second burst, and not in calm`);
    }
    if (!isDoubtful && !reached && !checks.failed) {
      return new Checks(overloadIsTold.title).result(capNotMet(context, found));
    }
    return checks.result();
  },
});

const overloadSparesOthers = loadRule({
  id: "overload-spares-others",
  level: "must",
  spec: [211],
  title: "one organization's overload is not told to another as its own",
  needs: { permission: "load", roles: ["publishable_other_org"], anyOf: needs.anyOf },
  cost: wavesCost,
  run: async (context) => {
    const checks = new Checks("no org_overloaded for an organization that is quiet");
    const found = await overload(context);
    const { reached, others } = found;
    if (!reached) return checks.result(capNotMet(context, found));
    for (const answer of others) {
      checks.require(answer.subcode !== "org_overloaded", answer, "no org_overloaded", told(answer));
    }
    return checks.result("nobody else called meanwhile");
  },
});

/** Fewer may be others' traffic. */
const MISNAMED_MIN = 3;

const overloadNamesTheCap = loadRule({
  id: "overload-names-the-cap",
  level: "must",
  spec: [210, 211, 221],
  title: "one organization over its own cap, below the global one, is told org_overloaded",
  cost: wavesCost,
  run: async (context) => {
    const checks = new Checks("org_overloaded, and no b2b_overloaded, for fewer calls than the global cap");
    const { global_in_flight: globalCap, org_in_flight: orgCap, replicas = 1 } = context.target.limits ?? {};
    if (context.target.shedding !== "fixed" || globalCap === undefined || orgCap === undefined) {
      return checks.result("fixed shedding with limits.global_in_flight and limits.org_in_flight in the target file");
    }
    if (replicas > 1) return checks.result("one replica: with more, nobody knows which of them was full");
    const { bySize } = await overload(context);
    for (const [size, answers] of bySize) {
      // One call of another organization comes beside them.
      if (size <= orgCap || size + 1 >= globalCap) continue;
      const shed = answers.filter(({ outcome }) => SHED.test(outcome));
      const global = shed.filter(({ subcode }) => subcode === "b2b_overloaded");
      const last = global.at(-1);
      // Others may fill the deployment at any moment: a few such answers among the right ones are theirs.
      const rest = shed.length - global.length;
      if (last === undefined) for (const _ of shed) checks.fine();
      else if (rest === 0 && global.length >= MISNAMED_MIN) {
        const got = `${global.length} times ${told(last)}`;
        checks.require(false, last, `org_overloaded for ${size} calls of one organization`, got);
      } else if (rest > global.length) checks.note(`b2b_overloaded among them ${global.length} times`);
      else
        checks.unclear(`both names came for ${size} calls of one organization, b2b_overloaded ${global.length} times`);
    }
    const want = forWantOfConnections(context, globalCap);
    return checks.result(["no wave came between the two caps", want].filter(Boolean).join("; "));
  },
});

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const firstByteMs = ({ received }: Answer): number => ((received.firstUs ?? received.doneUs) - received.sentUs) / 1000;
const wholeMs = ({ received }: Answer): number => (received.doneUs - received.sentUs) / 1000;
/** What a burst from one host does to both kinds alike. */
const BURST_MS = 150;
const QUICK_CALLS = 9;

/** How long an answer takes that needs no work at all: the way there and back, and what is in between for all of them. */
const wayMs = async (context: Context): Promise<number> => {
  const testCall: TestCall = { route: "design.styles", credential: { as: "none" }, origin: "none", once: true };
  const took: number[] = [];
  await context.each(Array(QUICK_CALLS).fill(testCall), async (one: TestCall) => {
    took.push(firstByteMs(await context.send(one)));
  });
  return median(took);
};

const refusalsAreCheap = loadRule({
  id: "refusals-are-cheap",
  level: "info",
  spec: [220],
  title: "whether a call that is shed costs far less time than one that is served",
  cost: wavesCost,
  run: async (context) => {
    const checks = new Checks("the median refusal takes at most half the time of a served call");
    const found = await overload(context);
    const { reached, answers } = found;
    if (!reached) return checks.result(capNotMet(context, found));
    const shed = answers.filter(({ outcome }) => SHED.test(outcome));
    const served = answers.filter(isAdmitted);
    const last = shed.at(-1);
    if (last === undefined || served.length === 0) return checks.result("nothing to compare");
    const quickMs = await wayMs(context);
    const tookMs = median(shed.map(firstByteMs));
    const mayMs = quickMs + Math.max(BURST_MS, (median(served.map(wholeMs)) - quickMs) / 2);
    checks.require(
      tookMs <= mayMs,
      last,
      `at most about ${mayMs.toFixed(0)} ms`,
      `the median was ${tookMs.toFixed(0)} ms`,
    );
    return checks.result();
  },
});

const WAIT_MAX_MS = 15_000;
const RECOVER_WITHIN_MS = 12_000;
const LOOK_EVERY_MS = 1_000;
const REFUSALS_MAX = 120;
const AT_A_TIME = 8;

/** Refusals that have been through the door: each may have taken a slot and must have given it back. */
const refuseMany = async (context: Context, count: number): Promise<void> => {
  const testCall: TestCall = context.has("publishable")
    ? exchangeCall("publishable", "foreign", "chat", { atOnce: true, once: true })
    : { route: "chat.control", credential: { as: "none" }, origin: "none", atOnce: true, once: true };
  const everyMs = (1000 / rateAllowed(context)) * AT_A_TIME;
  for (let i = 0; i < count; i += AT_A_TIME) {
    await Promise.all([
      wait(everyMs, context.signal),
      ...Array.from({ length: Math.min(AT_A_TIME, count - i) }, () => context.send(testCall)),
    ]);
  }
};

const slotsComeBack = loadRule({
  id: "slots-come-back",
  level: "must",
  spec: [180, 210, 211, 220],
  title: "after clients have left and calls were refused, as many are served as before",
  cost: wavesAroundAnEdgeCost,
  run: async (context) => {
    const found = await overload(context);
    const { reached, capacity, caller } = found;
    const half = Math.max(1, Math.floor(capacity / 2));
    const checks = new Checks(`streams served again, ${half} at once, none shed, within ${RECOVER_WITHIN_MS / 1000} s`);
    // Where the whole wave was shed, slots may be lost already: then a single stream has to come through.
    if (!reached || caller === null) return checks.result(capNotMet(context, found));
    await wave(context, Math.min(Math.max(1, capacity), rateAllowed(context)), [caller], true);
    await refuseMany(context, Math.min(capacity + 8, REFUSALS_MAX));
    const { limited: overRate } = await pressRate(context, Math.min(capacity + 8, REFUSALS_MAX));
    const after = overRate.at(-1)?.headers["retry-after"];
    const restMs = after === undefined ? 0 : (retryAfterMs(after, Date.now()) ?? 0);
    await wait(Math.min(restMs, WAIT_MAX_MS), context.signal);
    const endMs = performance.now() + RECOVER_WITHIN_MS;
    for (;;) {
      await wait(LOOK_EVERY_MS, context.signal);
      const answers = await wave(context, half, [caller]);
      const shed = answers.find(({ outcome }) => SHED.test(outcome));
      const limited = answers.some(({ subcode }) => subcode === "rate_limited" || subcode === "limiter_unavailable");
      if (shed === undefined && !limited) {
        checks.fine();
        return checks.result();
      }
      if (performance.now() < endMs) continue;
      if (shed === undefined) {
        // Nobody can do anything about a stated limit; one that is away is another matter.
        if (answers.some(({ subcode }) => subcode === "rate_limited")) {
          return checks.result("the rate limit stood in the way of so many streams");
        }
        checks.unclear("the limiter was away");
      } else {
        const stays = `${answers.filter(isAdmitted).length} of ${half} were served`;
        checks.require(false, shed, `${half} streams, none shed`, stays);
      }
      return checks.result();
    }
  },
});

export const LOAD_RULES: readonly Rule[] = [
  ...RATE_RULES,
  overloadIsTold,
  overloadSparesOthers,
  overloadNamesTheCap,
  refusalsAreCheap,
  slotsComeBack,
];
