/** Fixed caps on calls in flight, as stated in the target file: judged call by call. */
import { mostAtOnce } from "../../history/statistics/statistics.ts";
import type { KeyRole } from "../../target/roles.ts";
import { fits } from "../checks.ts";
import type { Caller, Context } from "../context.ts";
import { type Rule, roleOf, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted, retryAfterMs } from "../sending/answer.ts";
import { asServer, body, inSession } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";
import * as load from "./load-burst.ts";

/** Share of a stream's duration, as the client sees it, during which the stream certainly holds a slot. */
const SURELY_RUNNING = 0.6;

/** A lower bound of the number of concurrent streams. */
const surelyTogether = (answers: readonly Answer[]): number => {
  const moments = answers.filter(isAdmitted).flatMap(({ received: { seen, firstUs: headUs, doneUs, ended } }) => {
    const firstUs = seen?.firstUs ?? headUs;
    if (firstUs === null || (ended !== "done" && ended !== "eof")) return [];
    return [[firstUs, firstUs + (doneUs - firstUs) * SURELY_RUNNING] as const];
  });
  return mostAtOnce(moments);
};

/** The cap with a tolerance, because threads that share a cap may see each other's counts a little late. */
const mayRun = (cap: number): number => Math.ceil(cap * 1.15);
const FREE_SHARE = 0.75;
/** Waves in a row that must be shed, because other callers' traffic may explain one. */
const TIMES = 3;

const count = (answers: readonly Answer[], fits: (answer: Answer) => boolean): number => answers.filter(fits).length;
const servedIn = (answers: readonly Answer[]): number => count(answers, isAdmitted);

/** The evidence that a wave below a cap is shed each time and one of half the served size never; else `null`. */
const isShedBelow = async (context: Context, callers: readonly Caller[], first: readonly Answer[]) => {
  const size = first.length;
  const counts: number[] = [];
  for (let answers = first; ; ) {
    const shed = load.shedIn(answers);
    const one = shed.at(-1);
    const served = servedIn(answers);
    // If nothing is served, slots were lost: another rule judges that.
    if (one === undefined || served === 0) return null;
    counts.push(shed.length);
    if (counts.length === TIMES) return { one, size, counts };
    const calm = await load.restedWave(context, Math.ceil(load.sideBySide(answers) / 2), callers);
    if (load.shedIn(calm).length > 0 || servedIn(calm) === 0) return null;
    answers = await load.restedWave(context, size, callers);
  }
};

type ShedBelow = Awaited<ReturnType<typeof isShedBelow>>;

const shedBelowOwn = async (context: Context, cap: number): Promise<ShedBelow> => {
  const { bySize, caller } = await load.overload(context);
  const size = Math.floor(cap * FREE_SHARE);
  const met = bySize.values().find((wave) => wave.length <= size && load.shedIn(wave).length > 0);
  if (met === undefined && (size < 1 || load.tooWide(context, size) !== null)) return null;
  return isShedBelow(context, [caller], met ?? (await load.restedWave(context, size, [caller])));
};

/** At most `BURSTS` bursts; `CONVINCED` of them that show a mistaken name are enough. */
const BURSTS = 4;
const CONVINCED = 2;
/** Share of the cap that has to be served: streams may end early, and refusals hold a slot for a moment. */
const FULL_SHARE = 0.75;
/** Share of the refusals that must have the wrong name; fewer may come from a failing key service or other callers. */
const SUCH_SHARE = 0.25;
/** Share of a calm wave that may have the wrong name because of other callers' traffic. */
const STUMBLES_SHARE = 0.1;

/** Sizes of the waves around the global cap, or what the target file lacks for them. */
const planOf = (context: Context) => {
  const caps = load.fixedCaps(context);
  if (typeof caps === "string") return caps;
  const { all: cap, own: orgCap } = caps;
  const callers = load.crowd(context);
  if (callers.length * orgCap < cap)
    return `${Math.ceil(cap / orgCap)} organizations, to reach the global cap below their own: publishable_other_org and tenants with server keys`;
  const above = cap + Math.max(8, Math.ceil(cap / 4));
  return load.tooWide(context, above) ?? { callers, cap, orgCap, below: Math.floor(cap * 0.6), above };
};

type Plan = Exclude<ReturnType<typeof planOf>, string>;

const isDown = (answer: Answer): boolean => fits(answer, "key_service_unavailable");
const isOwn = (answer: Answer): boolean => fits(answer, "org_overloaded");
const named = (answers: readonly Answer[]): number => count(answers, (one) => fits(one, "b2b_overloaded"));

const looksLike = (answers: readonly Answer[], cap: number, isSuch: (answer: Answer) => boolean): boolean => {
  const admitted = servedIn(answers);
  const such = count(answers, isSuch);
  return admitted >= cap * FULL_SHARE && such >= (answers.length - admitted) * SUCH_SHARE && such > 4 * named(answers);
};

/** Whether organizations below their own caps were refused as if over them, although the global cap was full. */
const looksSwapped = (answers: readonly Answer[], { callers, above, cap, orgCap }: Plan): boolean => {
  const blamed = new Set(answers.filter(isOwn).map(({ testCall }) => JSON.stringify(testCall.credential)));
  const isBelow = Math.ceil(above / callers.length) <= orgCap;
  return isBelow && blamed.size >= 2 && blamed.size * orgCap >= cap && looksLike(answers, cap, isOwn);
};

const looksDown = (answers: readonly Answer[], { cap }: Plan): boolean => looksLike(answers, cap, isDown);

/** What a full deployment may be mistaken for. `inCalm`: said where waves below the cap show it as well. */
const MISTAKEN = [
  { looks: looksDown, isSuch: isDown, inCalm: "the key service was down below the cap as well" },
  { looks: looksSwapped, isSuch: isOwn, inCalm: "organizations far below their caps were shed as well" },
];

/** Whether more refusals have the right name than either wrong one, which other callers may cause. */
const isTold = (answers: readonly Answer[]) => named(answers) > Math.max(count(answers, isDown), count(answers, isOwn));
const isIll = (isSuch: (answer: Answer) => boolean) => (calm: readonly Answer[]) =>
  count(calm, isSuch) > calm.length * STUMBLES_SHARE;

/** Alternates calm waves and bursts until the global cap shows, or cannot be reached. */
const bursts = (context: Context) =>
  context.once("bursts over the global cap", async () => {
    const plan = planOf(context);
    if (typeof plan === "string") return plan;
    const found = { plan, calm: [] as Answer[][], above: [] as Answer[][] };
    for (let i = 0; i < BURSTS; i++) {
      found.calm.push(await load.restedWave(context, plan.below, plan.callers));
      const answers = await load.restedWave(context, plan.above, plan.callers);
      found.above.push(answers);
      const times = MISTAKEN.map(({ looks }) => found.above.filter((burst) => looks(burst, plan)).length);
      if (isTold(answers) || Math.max(...times) >= CONVINCED) break;
    }
    return found;
  });

const shedBelowGlobal = (context: Context): Promise<ShedBelow> =>
  context.once("shed below the global cap", async () => {
    const found = await bursts(context);
    if (typeof found === "string") return null;
    const calm = found.calm.find((answers) => load.shedIn(answers).length > 0);
    return calm === undefined ? null : isShedBelow(context, found.plan.callers, calm);
  });

const ALMOST_FULL = 0.9;
const SHED_MIN = 3;
const SHED_SHARE = 0.1;
/** Fewer sheds than the above are lost slots where this many come in every wave and nobody else calls. */
const EVERY_TIME_MIN = 2;

export const CAP_RULES: readonly Rule[] = [
  load.rules.must("overload-is-no-outage", [210, 211, 216, 222], {
    title:
      "calls over the global cap are answered 429 b2b_overloaded, not that the key service or an organization is at its end",
    cost: ({ limits }) => ({ calls: Math.ceil(4 * 1.85 * (limits?.global_in_flight ?? 0)) }),
    step: async (context, checks) => {
      const found = await bursts(context);
      if (typeof found === "string") return checks.because("not-stated", found);
      const { plan, calm, above } = found;
      if (above.some(isTold)) return checks.fine();
      for (const { looks, isSuch, inCalm } of MISTAKEN) {
        const shown = above.filter((answers) => looks(answers, plan));
        const last = shown.at(-1)?.findLast(isSuch);
        if (shown.length < CONVINCED || last === undefined) continue;
        const ill = calm.find(isIll(isSuch))?.find(isSuch);
        if (ill !== undefined) return checks.unclear(`${inCalm}: ${inWords(ill)}`, ill);
        const times = shown.map((answers) => count(answers, isSuch)).join(" and ");
        const got = `${times} of ${plan.above} were such, and hardly any of ${plan.below} before`;
        return void checks.require(false, last, `429 b2b_overloaded above ${plan.cap} calls at once`, got);
      }
      if (calm.some(isIll(isDown))) checks.unclear("the key service was down, below the cap as well", "not-answered");
      const times = named(above.flat());
      if (times > 0) checks.unclear(`b2b_overloaded came ${times} times, and never more often than another name`);
      return `the global cap of ${plan.cap} was not met with ${plan.above} streams at once`;
    },
  }),
  load.ofWaves.must("overload-keeps-the-caps", [210, 211], {
    title: "where the caps are stated and fixed, calls are shed above them and not below",
    step: async (context, checks) => {
      const caps = load.fixedCaps(context, false);
      if (typeof caps === "string") return checks.because("not-stated", caps);
      const cap = caps.own;
      const judge = (answers: readonly Answer[], most: number, whose: string): void => {
        const last = answers.findLast(isAdmitted);
        if (answers.length <= most || last === undefined) return;
        const ran = surelyTogether(answers);
        checks.require(ran <= mayRun(most), last, `at most ${most} at once, ${whose}`, `${ran} ran side by side`);
      };
      const judgeBelow = (below: ShedBelow, most: number, whose: string) => {
        if (below === null) return checks.fine();
        const expected = `none shed of ${below.size} at once, under a cap of ${most}${whose}`;
        const got = `${below.counts.join(", ")} were, time and again, and fewer at once were served`;
        checks.require(false, below.one, expected, got);
      };
      for (const answers of (await load.overload(context)).bySize.values())
        judge(answers, cap, "the cap of one organization");
      judgeBelow(await shedBelowOwn(context, cap), cap, "");
      const found = await bursts(context);
      if (typeof found !== "string") {
        for (const answers of found.above) judge(answers, found.plan.cap, "the global cap");
        judgeBelow(await shedBelowGlobal(context), found.plan.cap, " for all");
      }
      return load.reasons("no wave came above a cap or far below it", load.forWantOfConnections(context, cap));
    },
  }),
  // Calls by two keys of one organization: each key stays below the cap, both together are far above it.
  load.rules.must("overload-cap-is-per-organization", [211], {
    title: "calls of one organization are shed above its cap, whichever of its keys they use",
    needs: { permission: "load", roles: ["server", "publishable"] },
    cost: ({ limits }) => ({ calls: 2 * Math.ceil(0.75 * (limits?.org_in_flight ?? 0)) + 1 }),
    step: async (context, checks) => {
      const caps = load.fixedCaps(context, false);
      if (typeof caps === "string") return checks.because("not-stated", caps);
      const { own: cap, all: globalCap } = caps;
      const org = context.keyRole("server")?.org;
      if (org === undefined || org !== context.keyRole("publishable")?.org)
        return checks.because("not-stated", "credentials.server.org and credentials.publishable.org, the same in both");
      const each = Math.ceil(cap * FREE_SHARE);
      const size = 2 * each;
      if (size <= mayRun(cap) || globalCap <= mayRun(cap)) return "a cap of 2 and more, below the global one";
      const want = load.tooWide(context, size);
      if (want !== null) return checks.because("not-permitted", want);
      await context.mint("publishable", "chat");
      let answers: Answer[] = [];
      for (let k = 0; k < 2; k++) {
        answers = await load.restedWave(context, size, [asServer("-"), inSession("chat", "-")]);
        if (surelyTogether(answers) > mayRun(cap)) continue;
        if (load.shedIn(answers).length > 0) checks.fine();
        return `hardly more than ${cap} of ${size} streams ran side by side`;
      }
      const got = `${surelyTogether(answers)} ran side by side, ${each} calls by each of two keys`;
      checks.require(false, answers.findLast(isAdmitted) as Answer, `at most ${cap} at once, of ${org}`, got);
    },
  }),
  // The last of the burst rules, so that it shows every slot that earlier bursts and refusals lost.
  load.rules.must("overload-ends", [180, 210, 220], {
    title: "after bursts over the global cap and refusals, almost as many as the cap allows are served again",
    expected: `hardly any stream shed, within ${load.RECOVER_WITHIN_MS / 1000} s`,
    cost: ({ limits }) => ({ calls: Math.ceil(1.4 * (limits?.global_in_flight ?? 0)) + 8 }),
    step: async (context, checks) => {
      const found = await bursts(context);
      if (typeof found === "string") return checks.because("not-stated", found);
      const { plan, above } = found;
      const { callers, cap, orgCap } = plan;
      if (!above.some((answers) => named(answers) > 0 || looksSwapped(answers, plan)))
        return `the global cap of ${cap} was not met with ${plan.above} streams at once`;
      const size = Math.floor(ALMOST_FULL * Math.min(cap, callers.length * orgCap));
      const broken = { body: body('{"messages": [', "malformed"), atOnce: true, once: true } as const;
      for (let i = 0; i < cap / 2; i += callers.length)
        await Promise.all(callers.map((caller) => context.send({ ...caller, route: "chat.control", ...broken })));
      const endMs = performance.now() + load.RECOVER_WITHIN_MS;
      let served = 0;
      for (;;) {
        const answers = await load.restedWave(context, size, callers);
        // How many were served in all says little: where sending takes long, streams end before others begin.
        served = Math.max(served, load.sideBySide(answers));
        const shed = load.shedIn(answers);
        const last = shed.at(-1);
        const isMuch = shed.length >= Math.max(SHED_MIN, answers.length * SHED_SHARE);
        // Others' traffic may take as many slots as a small cap can lose.
        const isDoubtful = !isMuch && shed.length >= EVERY_TIME_MIN && context.target.exclusive === true;
        const again = isDoubtful ? await isShedBelow(context, callers, answers) : null;
        const isLost = isMuch || again?.counts.every((lost) => lost >= EVERY_TIME_MIN) === true;
        if (last === undefined || !isLost)
          return servedIn(answers) > 0 ? checks.fine() : checks.unclear("nothing was served for another reason");
        if (performance.now() < endMs) continue;
        const before = Math.max(...above.map(surelyTogether));
        // No slot was lost if earlier bursts served no more at best; `overload-keeps-the-caps` reports the low cap.
        if (served >= ALMOST_FULL * before && (await shedBelowGlobal(context)) !== null)
          return `as many are served as ever, ${served}, and that is far below the cap of ${cap}`;
        return void checks.require(false, last, `${size} streams served at once`, `${shed.length} were shed`);
      }
    },
  }),
];

const LOOK_EVERY_MS = 3_000;
const RETRY_AFTER_TIMES = 10;
const WAIT_MAX_MS = 30_000;
/** Fewer refusals than this may come from other callers' traffic. */
export const SHED_SINCE_MIN = 12;

/** Answers of the deployment and of each organization, without key management, which may be exempt (A22). */
const groupsOf = (context: Context): { whose: string; answers: Answer[] }[] => {
  const all = context.answers.filter(({ testCall: { route } }) => route !== "-" && !route.startsWith("keys."));
  const of = ({ testCall }: Answer): string | null => {
    const name = roleOf(testCall);
    return name === null ? null : (context.keyRole(name as KeyRole)?.org ?? name);
  };
  const shedWith = (subcode: string, answers: Answer[]): Answer[] =>
    answers.filter((one) => isAdmitted(one) || one.subcode === subcode);
  const own = [...Map.groupBy(all, of)].filter(([org]) => org !== null);
  return [
    { whose: "the deployment", answers: shedWith("b2b_overloaded", all) },
    ...own.map(([org, some]) => ({ whose: `the organization of ${org}`, answers: shedWith("org_overloaded", some) })),
  ];
};

const askedMs = (answer: Answer): number => retryAfterMs(answer) ?? 0;

/** A single call is below each cap: if none is admitted for over a minute, slots were not given back. */
export const SHEDDING_ENDS = rulesOf("every-answer").must("shedding-ends", [210, 211, 217], {
  title: "where the caps are stated and fixed, calls that come one at a time are not shed for ever",
  expected: ({ patienceMs }) =>
    `a call admitted again, within ${patienceMs / 1000} s and more, after the last that was`,
  step: async (context, checks) => {
    const { global_in_flight: cap, org_in_flight: orgCap } = context.target.limits ?? {};
    if (context.target.shedding !== "fixed" || cap === undefined || orgCap === undefined)
      return checks.because(
        "not-stated",
        "fixed shedding with limits.global_in_flight and limits.org_in_flight in the target file",
      );
    for (const { whose, answers } of groupsOf(context)) {
      const admitted = answers.filter(isAdmitted);
      // Without an admitted call others may have filled the cap all the time, unless nobody else calls.
      if (admitted.length === 0 && answers.length >= SHED_SINCE_MIN && context.target.exclusive !== true) {
        checks.unclear(`${whose} admitted no call at all, and ${answers.length} were shed`);
        continue;
      }
      const since = admitted.length === 0 ? answers.slice(0, 1) : admitted;
      const lastUs = Math.max(...since.map(({ received }) => received.doneUs));
      const shed = answers.filter((one) => one.received.sentUs > lastUs);
      // Only a call that spends nothing is repeated.
      const one = shed.findLast(({ testCall: { route, product } }) => route !== "design.analyze" && product !== "tile");
      if (shed.length < SHED_SINCE_MIN || one === undefined) {
        checks.fine();
        continue;
      }
      if (askedMs(one) > WAIT_MAX_MS) {
        checks.unclear(`Retry-After asked for more than ${WAIT_MAX_MS / 1000} s`);
        continue;
      }
      const forMs = Math.max(context.patienceMs, RETRY_AFTER_TIMES * askedMs(one));
      for (;;) {
        await wait(Math.max(LOOK_EVERY_MS, askedMs(one)), context.signal);
        const answer = await context.send({ ...one.testCall, once: true });
        const sinceMs = (answer.received.sentUs - lastUs) / 1000;
        if (answer.subcode !== one.subcode) {
          checks.fine();
          checks.note(`${whose} shed ${shed.length} calls that came alone, and then no more`);
          break;
        }
        if (sinceMs < forMs) continue;
        const got = `none was admitted for ${Math.round(sinceMs / 1000)} s, ${shed.length} calls were shed since`;
        const under = one.subcode === "b2b_overloaded" ? cap : orgCap;
        return void checks.require(false, answer, `a single call admitted by ${whose}, under a cap of ${under}`, got);
      }
    }
  },
});
