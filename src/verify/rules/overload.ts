/** Overload: how it is reported, and what it leaves behind (items 170, 180, 183, 210, 211, 220-223). */
import { median } from "../../history/statistics/statistics.ts";
import { skipped } from "../checks.ts";
import type { Caller, Context } from "../context.ts";
import type { Rule } from "../rule.ts";
import { type Answer, inWords, isAdmitted, retryAfterMs } from "../sending/answer.ts";
import { asNobody, body, exchangeCall } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";
import * as load from "./load-burst.ts";

/** Up to this many bad answers in a wave may come from the network or a failing service. */
const BAD_MIN = 2;

/** `widest`: the most calls of a wave in which such answers are doubtful; any wave if it is absent. */
type Doubt = { what: string; isBad(answer: Answer): boolean; share: number; widest?: number };

/** Answers that may stand for refusals over a cap; a second wave decides. */
const DOUBTFUL: readonly Doubt[] = [
  { what: "calls had no answer", isBad: ({ status }) => status === null, share: 0.05 },
  { what: "calls were answered that something is down", isBad: load.isDown, share: 0.15 },
];

/** Where caps and rate are stated, a wave that the rest before it has made up for is refused for its calls in flight. */
const doubtsOf = (context: Context): readonly Doubt[] => {
  const { rate_per_s: ratePerS = 0, burst = ratePerS } = context.target.limits ?? {};
  if (typeof load.fixedCaps(context, false) === "string") return DOUBTFUL;
  const what = "calls were rate limited, and fewer were made than the stated rate and burst allow";
  const widest = 0.8 * Math.min(burst, (ratePerS * load.REST_MS) / 1000);
  return [...DOUBTFUL, { what, isBad: load.isLimited, share: 0.15, widest }];
};

const isMuch = (answers: readonly Answer[], { isBad, share }: Doubt): boolean =>
  answers.filter(isBad).length > Math.max(BAD_MIN, answers.length * share);

/** How many refusals of each of two kinds are asked for. */
const OWN_REFUSALS = 2;

/** The answer that confirms a doubt: one call and half the wave are served, and a second whole wave shows it again. */
const showsAgain = async (context: Context, doubt: Doubt, caller: Caller, first: readonly Answer[]) => {
  const served = first.filter(isAdmitted).length;
  if (served < 2) return null;
  for (const calmly of [1, Math.floor(served / 2)]) {
    const calm = await load.restedWave(context, calmly, [caller]);
    if (calm.some(doubt.isBad) || !calm.some(isAdmitted)) return null;
  }
  // Refusals of the API's own: a gateway's 503 lacks the headers that these have.
  const refused = { ...caller, route: "chat.control", open: true } as const;
  const malformed = body("{", "malformed");
  for (let i = 0; i < OWN_REFUSALS; i++) {
    await context.send({ ...refused, origin: "foreign" });
    await context.send({ ...refused, body: malformed });
  }
  const second = await load.restedWave(context, first.length, [caller]);
  return isMuch(second, doubt) ? (second.findLast(doubt.isBad) ?? null) : null;
};

/** Fewer wrong names than this may come from other callers' traffic. */
const MISNAMED_MIN = 3;
/** The most extra waves; a wave over a small cap has few calls. */
const MORE_WAVES = 3;

const isGlobal = ({ subcode }: Answer): boolean => subcode === "b2b_overloaded";

/** Allowance for the burst itself, which slows served and refused calls alike. */
const BURST_MS = 150;
const QUICK_CALLS = 9;

const firstByteMs = ({ received }: Answer): number => ((received.firstUs ?? received.doneUs) - received.sentUs) / 1000;
const wholeMs = ({ received }: Answer): number => (received.doneUs - received.sentUs) / 1000;

const LOOK_EVERY_MS = 1_000;
const REFUSALS_MAX = 120;
const AT_A_TIME = 8;

/** Sends calls that are refused, each of which must give its slot back. */
const refuseMany = async (context: Context, count: number): Promise<void> => {
  const more = { atOnce: true, once: true } as const;
  const call = context.has("publishable")
    ? exchangeCall("publishable", "foreign", "chat", more)
    : asNobody("chat.control", more);
  for (let i = 0; i < count; i += AT_A_TIME) {
    const many = Array.from({ length: Math.min(AT_A_TIME, count - i) }, () => context.send(call));
    await Promise.all([wait((1000 / load.rateAllowed(context)) * AT_A_TIME, context.signal), ...many]);
  }
};

export const OVERLOAD_RULES: readonly Rule[] = [
  load.ofWaves.must("overload-is-reported", [183, 210, 211, 223], {
    title: "calls over the caps are answered 429 b2b_overloaded or org_overloaded, and nothing else goes wrong",
    expected: "2xx or a limit's own subcode, in a flat body",
    step: async (context, checks) => {
      const { reached, answers, bySize, size, caller } = await load.overload(context);
      load.requireLimits(checks, answers);
      for (const answer of load.shedIn(answers)) {
        const expected = `{"error": "${answer.subcode}"} without detail`;
        checks.require(answer.envelope === "flat", answer, expected, `it was ${answer.envelope}`);
      }
      let isDoubtful = false;
      for (const doubt of doubtsOf(context)) {
        const { widest = Number.POSITIVE_INFINITY } = doubt;
        const first = bySize.values().find((wave) => wave.length <= widest && isMuch(wave, doubt));
        if (first === undefined) continue;
        isDoubtful = true;
        const bad = answers.filter(doubt.isBad);
        const what = `${bad.length} of ${answers.length} ${doubt.what}: ${inWords(bad[0] as Answer)}`;
        const last = await showsAgain(context, doubt, caller, first);
        const got = `${what}; again in a second burst, and not in calm`;
        if (last === null) checks.unclear(what);
        else checks.require(false, last, "429 b2b_overloaded or org_overloaded for calls over a cap", got);
      }
      if (!isDoubtful && !reached && !checks.failed)
        throw skipped("not-reached", load.capNotMet(context, bySize.get(size) ?? []));
    },
  }),
  load.ofWaves.must("overload-spares-others", [211], {
    title: "one organization's overload is not reported to another as its own",
    expected: "no org_overloaded for an organization that is quiet",
    needs: { ...load.NEEDS_LOAD, roles: ["publishable_other_org"] },
    step: async (context, checks) => {
      for (const answer of (await load.overCap(context)).others)
        checks.require(answer.subcode !== "org_overloaded", answer, "no org_overloaded", inWords(answer));
      return "nobody else called meanwhile";
    },
  }),
  load.ofWaves.must("overload-names-the-cap", [210, 211, 221], {
    title: "one organization over its own cap, below the global one, is answered org_overloaded",
    step: async (context, checks) => {
      const caps = load.fixedCaps(context);
      if (typeof caps === "string") return caps;
      const { bySize, caller } = await load.overload(context);
      for (const [size, answers] of bySize) {
        // One of the concurrent calls is another organization's.
        if (size <= caps.own || size + 1 >= caps.all) continue;
        const shed = load.shedIn(answers);
        // More waves are sent until enough calls were named wrongly, or one rightly.
        for (let more = 0; more < MORE_WAVES && shed.length > 0 && shed.length < MISNAMED_MIN; more++)
          if (shed.every(isGlobal)) shed.push(...load.shedIn(await load.restedWave(context, size, [caller])));
        const global = shed.filter(isGlobal);
        const last = global.at(-1);
        // Other callers may fill the deployment, which explains a few global refusals among the right ones.
        const rest = shed.length - global.length;
        if (last === undefined) for (const _ of shed) checks.fine();
        else if (rest === 0 && global.length >= MISNAMED_MIN) {
          const got = `${global.length} times ${inWords(last)}`;
          checks.require(false, last, `org_overloaded for ${size} calls of one organization`, got);
        } else if (rest > global.length && global.length < MISNAMED_MIN) {
          checks.note(`b2b_overloaded among them ${global.length} times`);
          for (let k = 0; k < rest; k++) checks.fine();
        } else {
          const names = rest === 0 ? "no other name came" : "both names came";
          checks.unclear(`${names} for ${size} calls of one organization, b2b_overloaded ${global.length} times`);
        }
      }
      return load.reasons("no wave came between the two caps", load.forWantOfConnections(context, caps.all));
    },
  }),
  load.ofWaves.info("refusals-are-cheap", [220], {
    title: "whether a call that is shed costs far less time than one that is served",
    expected: "the median refusal takes at most half the time of a served call",
    step: async (context, checks) => {
      const { answers } = await load.overCap(context);
      const [shed, served] = [load.shedIn(answers), answers.filter(isAdmitted)];
      const last = shed.at(-1);
      if (last === undefined || served.length === 0) return "nothing to compare";
      const quick = Array(QUICK_CALLS).fill(asNobody("design.styles", { once: true }));
      const wayMs = median((await context.each(quick, context.send)).map(firstByteMs)) ?? 0;
      const tookMs = median(shed.map(firstByteMs)) as number;
      const mayMs = wayMs + Math.max(BURST_MS, ((median(served.map(wholeMs)) as number) - wayMs) / 2);
      const got = `the median was ${tookMs.toFixed(0)} ms`;
      checks.require(tookMs <= mayMs, last, `at most about ${mayMs.toFixed(0)} ms`, got);
    },
  }),
  load.rules.must("slots-come-back", [180, 210, 211, 220], {
    title: "after clients have left and calls were refused, as many are served as before",
    expected: `half as many streams at once as before, none shed, within ${load.RECOVER_WITHIN_MS / 1000} s`,
    cost: load.wavesAroundAnEdgeCost,
    step: async (context, checks) => {
      const { capacity, caller } = await load.overCap(context);
      // If the whole wave was shed, slots may be lost already: then a single stream has to be served.
      const half = Math.max(1, Math.floor(capacity / 2));
      const refusals = Math.min(capacity + 8, REFUSALS_MAX);
      await load.wave(context, Math.min(Math.max(1, capacity), load.rateAllowed(context)), [caller], true);
      await refuseMany(context, refusals);
      const limited = (await load.pressRate(context, refusals)).limited.at(-1);
      const restMs = limited === undefined ? 0 : (retryAfterMs(limited) ?? 0);
      await wait(Math.min(restMs, load.WAIT_MAX_MS), context.signal);
      const endMs = performance.now() + load.RECOVER_WITHIN_MS;
      for (;;) {
        await wait(LOOK_EVERY_MS, context.signal);
        const answers = await load.wave(context, half, [caller]);
        const shed = answers.find(load.isShed);
        const says = (name: string): boolean => answers.some(({ subcode }) => subcode === name);
        if (shed === undefined && !says("rate_limited") && !says("limiter_unavailable")) return checks.fine();
        if (performance.now() < endMs) continue;
        const got = `${answers.filter(isAdmitted).length} of ${half} were served`;
        if (shed !== undefined) return void checks.require(false, shed, `${half} streams, none shed`, got);
        if (says("rate_limited"))
          return checks.because("refused-for-load", "the rate limit stood in the way of so many streams");
        return checks.unclear("the limiter was away", "not-answered");
      }
    },
  }),
];
