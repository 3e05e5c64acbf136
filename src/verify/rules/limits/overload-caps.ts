/**
 * Caps that are stated and fixed (items 210, 211; interface: `shedding`): only there a call that is shed, or is not, is judged one
 * by one. No more streams side by side than a cap allows, none shed far below it, and one cap for all keys of an organization.
 */
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { type Caller, forWantOfConnections, overload, rateAllowed, SHED, wave } from "../../limits/load-burst.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";
import { role } from "../../sending/test-call.ts";
import { wait } from "../../sending/throttle.ts";
import { loadRule, wavesCost } from "./load-rule.ts";
import { bursts } from "./overload-is-no-outage.ts";

const REST_MS = 1_500;

/** Streams that surely ran side by side: each is taken to have ended well before its client saw the end. */
const sideBySide = (answers: readonly Answer[]): number => {
  const moments = answers.filter(isAdmitted).flatMap(({ received: { seen, firstUs: headUs, doneUs, ended } }) => {
    const firstUs = seen?.firstUs ?? headUs;
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
const mayRun = (cap: number): number => Math.ceil(cap * OVER);
/** So much of a cap is surely free for a wave that comes after a rest. */
const FREE_SHARE = 0.75;

export const shedIn = (answers: readonly Answer[]): Answer[] => answers.filter(({ outcome }) => SHED.test(outcome));

type ShedBelow = { one: Answer; size: number; counts: number[] };
/** Once may be others' traffic; of a small cap there is no number that could not be. */
const TIMES = 3;

/** Whether a wave below a cap loses some each time, and one of half of what was served loses none. */
const isShedBelow = async (
  context: Context,
  size: number,
  callers: readonly Caller[],
  first: readonly Answer[],
): Promise<ShedBelow | null> => {
  const counts: number[] = [];
  for (let answers = first; ; ) {
    const shed = shedIn(answers);
    const one = shed.at(-1);
    const served = answers.filter(isAdmitted).length;
    // Nothing at all is another matter: slots that have not come back.
    if (one === undefined || served === 0) return null;
    counts.push(shed.length);
    if (counts.length === TIMES) return { one, size, counts };
    await wait(REST_MS, context.signal);
    const calm = await wave(context, Math.ceil(served / 2), callers);
    if (shedIn(calm).length > 0 || !calm.some(isAdmitted)) return null;
    await wait(REST_MS, context.signal);
    answers = await wave(context, size, callers);
  }
};

const shedBelowOwn = async (context: Context, orgCap: number): Promise<ShedBelow | null> => {
  const { bySize, caller } = await overload(context);
  if (caller === null) return null;
  const size = Math.floor(orgCap * FREE_SHARE);
  const met = [...bySize].find(([wide, answers]) => wide <= size && shedIn(answers).length > 0);
  if (met !== undefined) return isShedBelow(context, met[0], [caller], met[1]);
  if (size < 1 || size > rateAllowed(context) || forWantOfConnections(context, size) !== "") return null;
  await wait(REST_MS, context.signal);
  return isShedBelow(context, size, [caller], await wave(context, size, [caller]));
};

/** As `isShedBelow`, for the calm waves between the bursts of several organizations. */
export const shedBelowGlobal = (context: Context): Promise<ShedBelow | null> =>
  context.once("shed below the global cap", async () => {
    const found = await bursts(context);
    if (typeof found === "string") return null;
    const calm = found.calm.find((answers) => shedIn(answers).length > 0);
    return calm === undefined ? null : isShedBelow(context, found.plan.below, found.plan.callers, calm);
  });

export const capsAreKept = loadRule({
  id: "overload-keeps-the-caps",
  level: "must",
  spec: [210, 211],
  title: "where the caps are stated and fixed, calls are shed above them and not below",
  cost: wavesCost,
  run: async (context) => {
    const checks = new Checks("no more streams side by side than a cap allows, and none shed far below it");
    const { org_in_flight: orgCap, replicas = 1 } = context.target.limits ?? {};
    if (context.target.shedding !== "fixed" || orgCap === undefined) {
      return checks.result("fixed shedding with limits.org_in_flight in the target file");
    }
    if (replicas > 1) return checks.result("one replica: with more, nobody knows which of them was full");
    const { bySize } = await overload(context);
    const judge = (answers: readonly Answer[], cap: number, whose: string): void => {
      const most = sideBySide(answers);
      const last = answers.filter(isAdmitted).at(-1);
      if (answers.length <= cap || last === undefined) return;
      checks.require(most <= mayRun(cap), last, `at most ${cap} at once, ${whose}`, `${most} ran side by side`);
    };
    const judgeBelow = (below: ShedBelow | null, cap: number, whose: string): void => {
      if (below === null) {
        checks.fine();
        return;
      }
      const { one, size, counts } = below;
      const expected = `none shed of ${size} at once, under a cap of ${cap}${whose}`;
      checks.require(false, one, expected, `${counts.join(", ")} were, time and again, and fewer at once were served`);
    };
    for (const answers of bySize.values()) judge(answers, orgCap, "the cap of one organization");
    judgeBelow(await shedBelowOwn(context, orgCap), orgCap, "");
    const found = await bursts(context);
    if (typeof found !== "string") {
      for (const answers of found.above) judge(answers, found.plan.cap, "the global cap");
      judgeBelow(await shedBelowGlobal(context), found.plan.cap, " for all");
    }
    const want = forWantOfConnections(context, orgCap);
    return checks.result(["no wave came above a cap or far below it", want].filter(Boolean).join("; "));
  },
});

/** Two credentials of one organization, each below its cap, both together far above. */
export const capIsTheOrganizations = loadRule({
  id: "overload-cap-is-per-organization",
  level: "must",
  spec: [211],
  title: "calls of one organization are shed above its cap, whichever of its keys they use",
  needs: { permission: "load", roles: ["server", "publishable"] },
  cost: ({ limits }) => ({ calls: 2 * Math.ceil(0.75 * (limits?.org_in_flight ?? 0)) + 1 }),
  run: async (context) => {
    const checks = new Checks(
      "no more streams side by side than the cap of an organization allows, by two of its keys",
    );
    const {
      org_in_flight: cap,
      global_in_flight: globalCap = Number.POSITIVE_INFINITY,
      replicas = 1,
    } = context.target.limits ?? {};
    if (context.target.shedding !== "fixed" || cap === undefined) {
      return checks.result("fixed shedding with limits.org_in_flight in the target file");
    }
    if (replicas > 1) return checks.result("one replica: with more, nobody knows which of them was full");
    const org = context.keyRole("server")?.org;
    if (org === undefined || org !== context.keyRole("publishable")?.org) {
      return checks.result("credentials.server.org and credentials.publishable.org, the same in both");
    }
    const each = Math.ceil(cap * FREE_SHARE);
    const size = 2 * each;
    if (size <= mayRun(cap) || globalCap <= mayRun(cap))
      return checks.result("a cap of 2 and more, below the global one");
    if (size > rateAllowed(context)) return checks.result(`${size} calls at once: permits.load_max_rps allows fewer`);
    const want = forWantOfConnections(context, size);
    if (want !== "") return checks.result(`${size} calls at once; ${want}`);
    const callers: Caller[] = [
      { credential: { as: "server", of: role("server") }, origin: "none" },
      { credential: { as: "session", of: role("publishable"), product: "chat" }, origin: "listed" },
    ];
    // The session is there before the wave begins.
    await context.mint("publishable", "chat");
    let answers: Answer[] = [];
    // One wave alone decides nothing.
    for (let k = 0; k < 2; k++) {
      await wait(REST_MS, context.signal);
      answers = await wave(context, size, callers);
      if (sideBySide(answers) > mayRun(cap)) continue;
      if (shedIn(answers).length > 0) checks.fine();
      return checks.result(`hardly more than ${cap} of ${size} streams ran side by side`);
    }
    const got = `${sideBySide(answers)} ran side by side, ${each} calls by each of two keys`;
    checks.require(false, answers.filter(isAdmitted).at(-1) as Answer, `at most ${cap} at once, of ${org}`, got);
    return checks.result();
  },
});
