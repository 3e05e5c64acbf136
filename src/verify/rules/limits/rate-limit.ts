/**
 * More calls of one key than its rate limit allows (items 214-218, 230): with `--allow-load`, inside `load_max_rps`. How high the
 * limit is may not be stated, so these rules look at how it is reported, whom it concerns and whether it ends.
 */

import { foreignHeader } from "../../../contract/foreign-text.ts";
import { statedWaitMs } from "../../../contract/retry-after.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import {
  DOWN,
  type Edge,
  ENOUGH,
  forWantOfConnections,
  IN_FLIGHT_MAX,
  pressRate,
  rateAllowed,
  rateEdge,
  saysAway,
} from "../../limits/load-burst.ts";
import { comesAbove, dueRefusals, isWorthOf, madePerS } from "../../limits/rate-excess.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { wait } from "../../sending/throttle.ts";
import { CALM_MS, loadRule, needs, rateEdgeCost, requireLimits } from "./load-rule.ts";

/** As fast as was asked for, or nearly. */
const FULL_SPEED = 0.8;

const notMet = (context: Context, { answers }: Edge): string => {
  const away = answers.filter(saysAway).length;
  const perS = madePerS(answers);
  const reasons = [
    `no rate limit was met at ${perS.toFixed(0)} calls/s`,
    perS < FULL_SPEED * rateAllowed(context) ? forWantOfConnections(context, IN_FLIGHT_MAX) : "",
    away === 0 ? "" : `${away} of ${answers.length} calls were answered that something is away`,
  ];
  return reasons.filter(Boolean).join("; ");
};

/** Long enough for most limits to fill up again. */
const REST_MAX_MS = 5_000;
/** Where no rate is stated. */
const AWAY_SHARE = 0.1;

/** So many calls heard that something is away as a limit would have refused. */
const looksMisnamed = (context: Context, { answers, limited }: Edge): boolean => {
  const away = answers.filter(saysAway);
  if (limited.length > 0 || away.length < ENOUGH) return false;
  const due = dueRefusals(answers, context.target.limits);
  // Without a number, the limiter that says it is away is believed.
  if (due === null) return away.filter(({ outcome }) => DOWN.test(outcome)).length > answers.length * AWAY_SHARE;
  return due >= ENOUGH && isWorthOf(away, due);
};

/**
 * A rate limit under another name: only one key hears that something is away, and that twice, once it has used up what is
 * stated, while others are served and, in calm, the same key.
 */
const misnamed = async (context: Context, first: Edge): Promise<Answer | null> => {
  const { limits } = context.target;
  const { burst = 0, rate_per_s: ratePerS } = limits ?? {};
  const spared = ({ others }: Edge): boolean => !others.some(saysAway);
  const one = first.answers.findLast(saysAway);
  if (one === undefined || !spared(first) || !first.answers.some(isAdmitted)) return null;
  for (let calm = 0; calm < 2; calm += 1) {
    await wait(CALM_MS, context.signal);
    if (!isAdmitted(await context.send({ ...one.testCall, once: true, atOnce: true }))) return null;
  }
  const restMs = ratePerS === undefined ? CALM_MS : Math.min(REST_MAX_MS, (burst / ratePerS) * 1_000);
  await wait(restMs, context.signal);
  const again = await pressRate(context, ENOUGH);
  if (!looksMisnamed(context, again) || !spared(again)) return null;
  return ratePerS === undefined || comesAbove(again.answers, saysAway, limits, restMs) ? one : null;
};

const edgeIsTold = loadRule({
  id: "rate-limit-is-reported",
  level: "must",
  spec: [214, 215, 218],
  title: "calls over the rate limit are answered 429 rate_limited with Retry-After, and nothing else goes wrong",
  cost: rateEdgeCost,
  run: async (context) => {
    const checks = new Checks("2xx or a limit's own subcode, Retry-After with rate_limited");
    const edge = await rateEdge(context);
    const { answers, limited } = edge;
    requireLimits(checks, answers);
    if (limited.length === 0 && !checks.failed) {
      if (!looksMisnamed(context, edge)) return new Checks(edgeIsTold.title).result(notMet(context, edge));
      const one = await misnamed(context, edge);
      const away = answers.filter(saysAway);
      const what = `${away.length} of ${answers.length} calls were answered ${away[0]?.outcome}, none rate_limited`;
      if (one === null) checks.unclear(what);
      else checks.require(false, one, "429 rate_limited over the rate limit", `${what}; again later, and not in calm`);
      return checks.result();
    }
    for (const answer of answers) {
      if (answer.subcode !== "rate_limited") continue;
      const text = answer.headers["retry-after"];
      const readable = text !== undefined && statedWaitMs(text, Date.now()) !== undefined;
      checks.require(readable, answer, "Retry-After in seconds or as a date", `it was ${foreignHeader(text)}`);
    }
    return checks.result();
  },
});

const WAIT_MAX_MS = 15_000;

const retryAfterHolds = loadRule({
  id: "retry-after-holds",
  level: "should",
  spec: [214, 217],
  title: "a caller that waits as long as Retry-After says is admitted again",
  cost: rateEdgeCost,
  run: async (context) => {
    const checks = new Checks("a call admitted after the wait");
    const edge = await rateEdge(context);
    const last = edge.limited.at(-1);
    if (last === undefined) return checks.result(notMet(context, edge));
    const text = last.headers["retry-after"];
    const waitMs = text === undefined ? undefined : statedWaitMs(text, Date.now());
    if (waitMs === undefined || waitMs > WAIT_MAX_MS) return checks.result(`Retry-After was ${foreignHeader(text)}`);
    await wait(waitMs, context.signal);
    const again = await context.send({ ...last.testCall, once: true, atOnce: true });
    checks.require(again.subcode !== "rate_limited", again, "no rate_limited", inWords(again));
    return checks.result();
  },
});

const rateSparesOthers = loadRule({
  id: "rate-limit-spares-others",
  level: "info",
  spec: [230],
  title: "whether one key's rate limit limits another organization",
  needs: { permission: "load", roles: ["publishable_other_org"], anyOf: needs.anyOf },
  cost: rateEdgeCost,
  run: async (context) => {
    const checks = new Checks("no rate_limited for the other organization");
    const edge = await rateEdge(context);
    const { limited, others } = edge;
    if (limited.length === 0) return checks.result(notMet(context, edge));
    for (const answer of others) {
      checks.require(answer.subcode !== "rate_limited", answer, "no rate_limited", inWords(answer));
    }
    return checks.result("nobody else called meanwhile");
  },
});

export const RATE_RULES: readonly Rule[] = [edgeIsTold, retryAfterHolds, rateSparesOthers];
