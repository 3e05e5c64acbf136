/** When a session ends (items 23-24, 32, 61, 164, 224): by what its token says of itself, and where it is short, by the clock. */
import { isObject, parseJson } from "../../../contract/envelopes.ts";
import { outcomeOf } from "../../../contract/refusals.ts";
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";
import { until } from "../../sending/settling.ts";
import { exchangeCall, role, type TestCall } from "../../sending/test-call.ts";
import { wait } from "../../sending/throttle.ts";
import { LIFETIME_MAX_S, minted } from "./minted-session.ts";

/** Clocks of two hosts, and the way of the answer. */
const SLACK_S = 120;

type Life = { iat?: unknown; exp?: unknown };

/** `iat` and `exp` of a token whose payload can be read. RFC 7519 gives them their meaning, so they are not the deployment's secret. */
const lifeOf = (token: unknown): Life => {
  const payload = typeof token === "string" ? token.split(".")[1] : undefined;
  if (payload === undefined) return {};
  const claims = parseJson(Buffer.from(payload, "base64url").toString("utf8"));
  return isObject(claims) ? claims : {};
};

/** Seconds from the mint to the token's end, by the clock that makes it shortest: the deployment's may differ from ours. */
const lifeS = ({ fields, headers }: Answer): number | undefined => {
  const { iat, exp } = lifeOf(fields.session_token);
  if (typeof exp !== "number") return undefined;
  const theirsMs = Date.parse(headers.date ?? "");
  const begins = [Date.now() / 1000, theirsMs / 1000, typeof iat === "number" ? iat : Number.NaN];
  return Math.round(exp - Math.max(...begins.filter(Number.isFinite)));
};

export const lifetime = minted(
  {
    id: "session-lifetime-is-bounded",
    level: "must",
    spec: [24, 224],
    title: "a token whose own end can be read ends within 30 minutes",
  },
  (checks, answer) => {
    const leftS = lifeS(answer);
    if (leftS === undefined) return checks.note("the token does not say when it ends");
    checks.require(
      leftS <= LIFETIME_MAX_S + SLACK_S,
      answer,
      `an end at most ${LIFETIME_MAX_S} s away`,
      `it ends in ${leftS} s`,
    );
  },
);

/** Longer than this nobody waits for a token to end. */
const WAIT_MAX_S = 20;
const PAST_THE_END_MS = 2_000;

export const ends: Rule = {
  id: "session-ends",
  level: "must",
  spec: [23, 32, 61, 164],
  title: "a session is answered 401 once expires_in has passed, where that is soon enough to wait for",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 1 },
  run: async (context) => {
    const checks = new Checks("401 after expires_in");
    const minted = await context.send(exchangeCall("publishable", "listed", "chat"));
    const { session_token: token, expires_in: lifeS } = minted.fields;
    if (!isAdmitted(minted) || typeof token !== "string" || typeof lifeS !== "number")
      return checks.result("no session");
    if (lifeS > WAIT_MAX_S) {
      return { ...checks.result(`sessions live ${lifeS} s, too long to wait for`), idle: true };
    }
    await wait(lifeS * 1000 + PAST_THE_END_MS, context.signal);
    const testCall: TestCall = {
      route: "poi.enrich",
      credential: { as: "session", of: role("publishable"), product: "chat" },
      secret: { value: token, variable: "$ENDED_SESSION" },
      origin: "listed",
      facts: { state: "expired" },
      what: "a session past its end",
    };
    const accepts = [outcomeOf("unauthenticated")];
    const beganMs = performance.now();
    // Item 29: clocks may be allowed to differ.
    const after = await until(context, testCall, accepts, beganMs + context.leewayMs);
    const lateS = Math.round((performance.now() - beganMs) / 1000) + PAST_THE_END_MS / 1000;
    if (checks.expect(after, { accepts }, [minted])) checks.note(`it ended at most ${lateS} s late`);
    return checks.result();
  },
};
