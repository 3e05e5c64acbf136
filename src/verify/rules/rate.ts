/** Calls above one key's rate limit: how it is reported, whom it affects, and that it ends (items 214-218, 230). */

import { foreignHeader } from "../../contract/foreign-text.ts";
import type { Limits } from "../../history/run-document.ts";
import { skipped } from "../checks.ts";
import type { Context } from "../context.ts";
import type { Rule } from "../rule.ts";
import { type Answer, inWords, isAdmitted, retryAfterMs } from "../sending/answer.ts";
import { mint, type TestCall } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";
import * as load from "./load-burst.ts";

/** Tolerance for the server's clock and for limits counted in windows. */
const SLACK = 0.8;
const CLEARLY = 3;

const spanS = (answers: readonly Answer[]): number => {
  const times = answers.flatMap(({ received: { sentUs, doneUs } }) => [sentUs, doneUs]);
  return times.length === 0 ? 0 : (Math.max(...times) - Math.min(...times)) / 1e6;
};

/** The least number of calls that the stated limit refuses; `null` if none is stated. Each replica may count alone. */
const dueRefusals = (answers: readonly Answer[], limits: Limits | undefined): number | null => {
  const { rate_per_s: ratePerS, burst = ratePerS, replicas = 1 } = limits ?? {};
  if (ratePerS === undefined || burst === undefined) return null;
  return answers.length - replicas * (burst + ratePerS * spanS(answers));
};

/** Whether outages are reported far more above the limit than below; a failing service reports them at any rate. */
const isAwayAbove = (answers: readonly Answer[], limits: Limits | undefined, restedMs: number): boolean => {
  const { rate_per_s: ratePerS = 0, burst = ratePerS } = limits ?? {};
  const surely = Math.floor(Math.min(burst, (ratePerS * restedMs) / 1000) / 2);
  const ordered = answers.toSorted((a, b) => a.received.sentUs - b.received.sentUs);
  const share = (part: readonly Answer[]): number => part.filter(load.saysAway).length / Math.max(1, part.length);
  return share(ordered.slice(surely)) > CLEARLY * share(ordered.slice(0, surely));
};

const FULL_SPEED = 0.8;

const notMet = (context: Context, { answers }: load.Edge): string => {
  const away = answers.filter(load.saysAway).length;
  const elsewhere = answers.filter(load.isLimitElsewhere).length;
  const shed = load.shedIn(answers);
  const perS = answers.length / Math.max(spanS(answers), 1e-3);
  return load.reasons(
    `no rate limit was met at ${perS.toFixed(0)} calls/s`,
    elsewhere === 0
      ? ""
      : `${elsewhere} of ${answers.length} calls were answered 429 outside the API's envelope: is it a gateway in front that limits, or a limiter of the API without the subcode rate_limited?`,
    shed.length === 0
      ? ""
      : `${shed.length} of ${answers.length} calls were answered ${shed[0]?.outcome}: a cap, or a rate limit under the name of overload?`,
    perS < FULL_SPEED * load.rateAllowed(context) ? load.forWantOfConnections(context, load.IN_FLIGHT_MAX) : "",
    away === 0 ? "" : `${away} of ${answers.length} calls were answered that something is away`,
  );
};

const REST_MAX_MS = 5_000;
/** If no rate is stated, more than this share of outage answers is a doubt. */
const AWAY_SHARE = 0.1;

/** Whether about as many calls were told of an outage as the limit would have refused. */
const looksMisnamed = (context: Context, { answers, limited }: load.Edge): boolean => {
  const away = answers.filter(load.saysAway);
  if (limited.length > 0 || away.length < load.ENOUGH) return false;
  const due = dueRefusals(answers, context.target.limits);
  // Without a stated limit, `limiter_unavailable` is believed.
  if (due === null) return away.filter(load.isDown).length > answers.length * AWAY_SHARE;
  return due >= load.ENOUGH && away.length >= due * SLACK;
};

/** Finds a rate limit reported as an outage: twice above the limit, while others, and the key in calm, are served. */
const misnamed = async (context: Context, first: load.Edge): Promise<Answer | null> => {
  const { limits } = context.target;
  const { burst = 0, rate_per_s: ratePerS } = limits ?? {};
  const spared = ({ others }: load.Edge): boolean => !others.some(load.saysAway);
  const one = first.answers.findLast(load.saysAway);
  if (one === undefined || !spared(first) || !first.answers.some(isAdmitted)) return null;
  for (let calm = 0; calm < 2; calm += 1) {
    await wait(load.REST_MS, context.signal);
    if (!isAdmitted(await context.send({ ...one.testCall, once: true, atOnce: true }))) return null;
  }
  const restMs = ratePerS === undefined ? load.REST_MS : Math.min(REST_MAX_MS, (burst / ratePerS) * 1_000);
  await wait(restMs, context.signal);
  const again = await load.pressRate(context, load.ENOUGH);
  if (!looksMisnamed(context, again) || !spared(again)) return null;
  return ratePerS === undefined || isAwayAbove(again.answers, limits, restMs) ? one : null;
};

const retryAfterIn = ({ headers }: Answer): string => foreignHeader(headers["retry-after"]);

export const RATE_RULES: readonly Rule[] = [
  load.ofEdge.must("rate-limit-is-reported", [214, 215, 218], {
    title:
      "calls over the rate limit are answered 429 rate_limited, any Retry-After can be read, and nothing else goes wrong",
    step: async (context, checks) => {
      const edge = await load.rateEdge(context);
      const { answers, limited } = edge;
      load.requireLimits(checks, answers);
      if (limited.length === 0 && !checks.failed) {
        if (!looksMisnamed(context, edge)) throw skipped("not-reached", notMet(context, edge));
        const one = await misnamed(context, edge);
        const away = answers.filter(load.saysAway);
        const what = `${away.length} of ${answers.length} calls were answered ${away[0]?.outcome}, none rate_limited`;
        if (one === null) return checks.unclear(what);
        const got = `${what}; again later, and not in calm`;
        return void checks.require(false, one, "429 rate_limited over the rate limit", got);
      }
      for (const answer of answers.filter(load.isLimited)) {
        // `rate-limited-says-when` judges a missing one.
        const isReadable = answer.headers["retry-after"] === undefined || retryAfterMs(answer) !== undefined;
        checks.require(isReadable, answer, "Retry-After in seconds or as a date", `it was ${retryAfterIn(answer)}`);
      }
    },
  }),
  load.ofEdge.should("retry-after-holds", [214, 217], {
    title: "a caller that waits as long as Retry-After says is admitted again",
    step: async (context, checks) => {
      const edge = await load.rateEdge(context);
      const last = edge.limited.at(-1);
      if (last === undefined) return notMet(context, edge);
      const waitMs = retryAfterMs(last);
      if (waitMs === undefined || waitMs > load.WAIT_MAX_MS) return `Retry-After was ${retryAfterIn(last)}`;
      await wait(waitMs, context.signal);
      const again = await context.send({ ...last.testCall, once: true, atOnce: true });
      checks.require(!load.isLimited(again), again, "no rate_limited", inWords(again));
    },
  }),
  load.ofEdge.info("rate-limit-spares-others", [230], {
    title: "whether one key's rate limit limits another organization",
    expected: "no rate_limited for the other organization",
    needs: { ...load.NEEDS_LOAD, roles: ["publishable_other_org"] },
    step: async (context, checks) => {
      const edge = await load.rateEdge(context);
      if (edge.limited.length === 0) return notMet(context, edge);
      for (const answer of edge.others)
        checks.require(!load.isLimited(answer), answer, "no rate_limited", inWords(answer));
      return "nobody else called meanwhile";
    },
  }),
];

/**
 * How many times the run's patience the rule waits: windows of a minute are usual, and `Retry-After` may point to the first
 * second of the next window.
 */
const LONGER = 1.1;
const ASKED_MAX_MS = 30_000;
const TIMES_MIN = 3;
const FIRST_MS = 1_000;

const whose = ({ testCall: { credential, secret } }: Answer): string => secret?.variable ?? JSON.stringify(credential);

/** Item 214: "too many requests; honor Retry-After". Runs after the other bursts, when a conforming limit has ended. */
export const RATE_LIMIT_ENDS = load.ofEdge.must("rate-limit-ends", [214, 217], {
  title: "a key over its rate limit is admitted again, once its caller has waited as Retry-After says, time and again",
  step: async (context, checks) => {
    const first = (await load.rateEdge(context)).limited.at(-1);
    if (first === undefined) return "no rate limit was met";
    const call: TestCall = { ...first.testCall, once: true, atOnce: true };
    for (let times = 0, waitMs = FIRST_MS; ; times++, waitMs *= 2) {
      const answer = await context.send(call);
      if (!load.isLimited(answer)) return isAdmitted(answer) ? checks.fine() : checks.unclear(inWords(answer), answer);
      const restMs = retryAfterMs(answer);
      if (restMs === undefined || restMs > ASKED_MAX_MS) return `Retry-After was ${retryAfterIn(answer)}`;
      const admitted = context.answers.filter((one) => isAdmitted(one) && whose(one) === whose(first));
      const sinceMs = (answer.received.sentUs - Math.max(...admitted.map(({ received }) => received.doneUs))) / 1000;
      // The key was limited before the run, for a reason unknown here.
      if (!Number.isFinite(sinceMs)) return "that key was never admitted";
      if (times < TIMES_MIN || sinceMs < LONGER * context.patienceMs) {
        // Each wait is longer, because some limits count refused calls.
        await wait(Math.max(restMs, Math.min(waitMs, ASKED_MAX_MS / 2)), context.signal);
        continue;
      }
      const other = load.otherCaller(context);
      const beside = other === null ? mint("publishable", "chat") : { ...other, route: "design.themes" as const };
      const neighbour = await context.send({ ...beside, once: true });
      if (!isAdmitted(neighbour))
        return checks.unclear(`others are not served either: ${inWords(neighbour)}`, neighbour);
      const expected = "a call admitted by a caller that has waited as long as Retry-After said";
      const got = `limited for ${Math.round(sinceMs / 1000)} s, after ${times} waits; others are served`;
      return void checks.require(false, answer, expected, got);
    }
  },
});
