/**
 * A rate limit that never ends is none (item 214: "too many requests; honor Retry-After"): a key that was limited once and is
 * limited ever after, however often its caller waits as long as it was asked to, while others are served. Looked at after
 * the other bursts, most of the time has passed by then; only where it is still limited is anything waited for.
 */

import { foreignHeader } from "../../../contract/foreign-text.ts";
import { statedWaitMs } from "../../../contract/retry-after.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { otherCaller, rateEdge } from "../../limits/load-burst.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { exchangeCall, type TestCall } from "../../sending/test-call.ts";
import { wait } from "../../sending/throttle.ts";
import { loadRule, rateEdgeCost } from "./load-rule.ts";

/** Longer than the patience of a run, a minute as it comes: windows of a minute are usual, and what they announce may be their first second. */
const LONGER = 1.1;
const WAIT_MAX_MS = 30_000;
const TIMES_MIN = 3;
const FIRST_MS = 1_000;

const isLimited = ({ subcode }: Answer): boolean => subcode === "rate_limited";

/** Asked to wait for so long; `undefined` where it cannot be read or nobody waits so long here. */
const askedMs = ({ headers }: Answer): number | undefined => {
  const text = headers["retry-after"];
  const ms = text === undefined ? undefined : statedWaitMs(text, Date.now());
  return ms !== undefined && ms <= WAIT_MAX_MS ? ms : undefined;
};

const whose = ({ testCall: { credential, secret } }: Answer): string => secret?.variable ?? JSON.stringify(credential);

const lastInMs = (context: Context, who: string): number =>
  Math.max(
    ...context.answers.filter((one) => isAdmitted(one) && whose(one) === who).map((one) => one.received.doneUs),
  ) / 1000;

export const rateLimitEnds = loadRule({
  id: "rate-limit-ends",
  level: "must",
  spec: [214, 217],
  title: "a key over its rate limit is admitted again, once its caller has waited as Retry-After says, time and again",
  cost: rateEdgeCost,
  run: async (context) => {
    const checks = new Checks("a call admitted again after the waits, while others are served");
    const edge = await rateEdge(context);
    const first = edge.limited.at(-1);
    if (first === undefined) return checks.result("no rate limit was met");
    const testCall: TestCall = { ...first.testCall, once: true, atOnce: true };
    const who = whose(first);
    for (let times = 0, waitMs = FIRST_MS; ; times++, waitMs *= 2) {
      const answer = await context.send(testCall);
      if (!isLimited(answer)) {
        if (isAdmitted(answer)) checks.fine();
        else checks.unclear(inWords(answer));
        return checks.result();
      }
      const restMs = askedMs(answer);
      if (restMs === undefined) return checks.result(`Retry-After was ${foreignHeader(answer.headers["retry-after"])}`);
      const sinceMs = answer.received.sentUs / 1000 - lastInMs(context, who);
      // Never admitted at all: it was limited before the run, and whatever for is not known.
      if (!Number.isFinite(sinceMs)) return checks.result("that key was never admitted");
      if (times < TIMES_MIN || sinceMs < LONGER * context.patienceMs) {
        // Ever longer: a limit that counts what it refuses must come to rest as well.
        await wait(Math.max(restMs, Math.min(waitMs, WAIT_MAX_MS / 2)), context.signal);
        continue;
      }
      const other = otherCaller(context);
      const beside: TestCall =
        other === null ? exchangeCall("publishable", "listed", "chat") : { route: "design.themes", ...other };
      const neighbour = await context.send({ ...beside, once: true });
      if (!isAdmitted(neighbour)) {
        checks.unclear(`others are not served either: ${inWords(neighbour)}`);
        return checks.result();
      }
      const got = `limited for ${Math.round(sinceMs / 1000)} s, after ${times} waits; others are served`;
      checks.require(false, answer, "a call admitted by a caller that has waited as long as Retry-After said", got);
      return checks.result();
    }
  },
});
