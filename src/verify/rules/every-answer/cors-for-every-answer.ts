/** Answers that the page of an allowlisted Origin may read, in the whole run (item 159). Nothing is sent for it. */
import { foreignHeader } from "../../../contract/foreign-text.ts";
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import type { Answer } from "../../sending/answer.ts";

/** Refusals of the exchange that come after the Origin was found listed (item 69). */
const PAST_THE_ORIGIN = new Set<string>([
  "insufficient_scope",
  "product_not_allowed",
  "tier_capability_not_allowed",
  "map_load_quota_exceeded",
  "map_load_hard_stop",
]);

/** What a page on an allowlisted Origin is answered, once its Origin has surely been looked at. */
const isForListed = ({ testCall, subcode, transient, outcome }: Answer): boolean => {
  const { origin, credential, route, originValue } = testCall;
  const ofBrowser = credential.as === "session" || credential.as === "publishable";
  if (origin !== "listed" || originValue !== undefined || !ofBrowser || transient) return false;
  if (route.startsWith("maps.") || route === "-") return false;
  return /^2/.test(outcome) || (route === "sdk.sessions" && PAST_THE_ORIGIN.has(subcode ?? ""));
};

/**
 * Item 159: a CORS block means that the Origin is not in the allowlist. Where no answer at all has the header, it may be put on
 * further in front; where some have it, the others are blocked although their Origin is listed.
 */
export const corsIsWhole: Rule = {
  id: "cors-for-every-answer-to-a-listed-origin",
  level: "must",
  spec: [159],
  title:
    "where CORS is done here, every answer to an allowlisted Origin may be read there: streams and refusals as well",
  phase: "every-answer",
  needs: {},
  cost: { calls: 0 },
  run: async (context) => {
    const checks = new Checks("Access-Control-Allow-Origin with the Origin or * on each such answer");
    const concerned = context.answers.filter(isForListed);
    const allowedIn = (answer: Answer): string | undefined => answer.headers["access-control-allow-origin"];
    if (concerned.every((answer) => allowedIn(answer) === undefined)) {
      return { ...checks.result("no answer to an allowlisted Origin carries the header"), idle: true };
    }
    for (const answer of concerned) {
      const [allowed, sent] = [allowedIn(answer), answer.request.headers.origin];
      const fits = allowed === "*" || allowed === sent;
      checks.require(fits, answer, `${sent} or *`, `it was ${foreignHeader(allowed)}`);
    }
    return checks.result();
  },
};
