/** Sessions in the whole run: each lasts as long as it says (items 23, 32; A19). Nothing is sent for these. */
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords } from "../../sending/answer.ts";

/** Sessions of the roles, minted again long before their end: each way of sending one that was good stays good. */
export const sessionLasts: Rule = {
  id: "session-lasts",
  level: "must",
  spec: [23, 32],
  title: "a session is taken for as long as expires_in says",
  phase: "every-answer",
  needs: {},
  cost: { calls: 0 },
  run: async (context) => {
    const checks = new Checks("no 401 for a session within its expires_in that was taken before");
    const taken = new Set<string>();
    for (const answer of context.answers) {
      const { credential, secret, form = "bearer", route, path, method } = answer.testCall;
      if (credential.as !== "session" || secret !== undefined || route === "sdk.sessions" || answer.transient) continue;
      // What comes to an address or a method that does not exist says nothing of the session.
      if (path !== undefined || method !== undefined) continue;
      const way = `${credential.of} ${credential.product} ${form}`;
      if (answer.status !== 401) taken.add(way);
      else if (!taken.has(way)) continue;
      checks.require(answer.status !== 401, answer, "no 401 before expires_in has passed", inWords(answer));
    }
    const result = checks.result("no session was used");
    return result.verdict === "skipped" ? { ...result, idle: true } : result;
  },
};

/** Whole seconds are rounded on both sides. */
const ROUNDED_S = 2;

type Minted = { token: string; atS: number; leftS: number; answer: Answer };

const mintedIn = (answer: Answer): Minted[] => {
  const { session_token: token, expires_in: leftS } = answer.fields;
  if (answer.testCall.route !== "sdk.sessions" || typeof token !== "string" || typeof leftS !== "number") return [];
  return [{ token, leftS, answer, atS: answer.received.sentUs / 1e6 }];
};

/** A19: a session may be given out again; `expires_in` is what remains of it, by item 32. */
export const remains: Rule = {
  id: "session-expires-in-remains",
  level: "must",
  spec: [32],
  title: "a session that is given out again is returned with the lifetime that remains",
  phase: "every-answer",
  needs: {},
  cost: { calls: 0 },
  run: async (context) => {
    const checks = new Checks("an expires_in that has become less by the time between");
    const first = new Map<string, Minted>();
    for (const minted of context.answers.flatMap(mintedIn)) {
      const before = first.get(minted.token);
      if (before === undefined) {
        first.set(minted.token, minted);
        continue;
      }
      const mostS = before.leftS - (minted.atS - before.atS) + ROUNDED_S;
      const passedS = Math.round(minted.atS - before.atS);
      const got = `it was ${before.leftS}, and ${minted.leftS} for the same session ${passedS} s later`;
      checks.require(minted.leftS <= mostS, minted.answer, `at most ${Math.ceil(mostS)}`, got);
    }
    const result = checks.result("no session was given out twice");
    return result.verdict === "skipped" ? { ...result, idle: true } : result;
  },
};
