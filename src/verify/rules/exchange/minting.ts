/** What the exchange gives (items 20-34, 224): a token of the stated form, for the stated time, for the product asked for. */

import { outcomeOf } from "../../../contract/refusals.ts";
import type { Product } from "../../../contract/routes.ts";
import { isSpent } from "../../allowance-burn.ts";
import { ANY_SUCCESS, Checks, tell } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, isAdmitted, isObject, parseJson } from "../../sending/answer.ts";
import { until } from "../../sending/settling.ts";
import { exchangeCall, role, type TestCall } from "../../sending/test-call.ts";
import { wait } from "../../sending/throttle.ts";
import { hintOf } from "../../target-hints.ts";

/** Item 24. */
const LIFETIME_MAX_S = 1800;
/** Clocks of two hosts, and the way of the answer. */
const SLACK_S = 120;

/** One session of each product that a full key mints; tile only where the budget ever had a map load for it. */
export const mintedSpecimens = async (context: Context): Promise<Answer[]> => {
  const products: Product[] = ["chat", "editor"];
  if (context.short("map_loads", 1)?.verdict !== "skipped") products.push("tile");
  return Promise.all(products.map((product) => context.mint("publishable", product)));
};

const minted = (
  rule: Omit<Rule, "run" | "phase" | "needs" | "cost">,
  judge: (checks: Checks, answer: Answer) => void,
): Rule => ({
  ...rule,
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 0 },
  run: async (context) => {
    const checks = new Checks(rule.title);
    for (const answer of await mintedSpecimens(context)) {
      if (isAdmitted(answer)) judge(checks, answer);
    }
    return checks.result("no session was minted");
  },
});

/** One organization may have spent its map loads before the run; that two have, of which the target file says nothing, is no chance. */
const isSpentElsewhere = async (context: Context): Promise<boolean> =>
  context.has("publishable_other_org") && isSpent(await context.mint("publishable_other_org", "tile"));

const mints: Rule = {
  id: "exchange-mints",
  level: "must",
  spec: [2, 9, 37, 64, 65, 69, 80],
  title: "the exchange mints chat, editor and tile for a full key of a Pro organization from its Origin",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 0, map_loads: 1 },
  run: async (context) => {
    const checks = new Checks("200 or 201");
    for (const answer of await mintedSpecimens(context)) {
      if (answer.testCall.product === "tile" && isSpent(answer) && !(await isSpentElsewhere(context))) {
        checks.unclear(`${tell(answer)}: the organization's map loads of this month seem to be spent`);
        continue;
      }
      const hint = checks.expect(answer, { accepts: [ANY_SUCCESS] }) ? null : hintOf(answer, "publishable", context);
      if (hint !== null) checks.note(hint);
      // 204 or 202 would be a success without a session.
      if (/^2\d\d$/.test(answer.outcome) && answer.status !== 200 && answer.status !== 201) {
        checks.require(false, answer, "200 or 201", `it was ${answer.status}`);
      }
    }
    return checks.result();
  },
};

const tokenForm = minted(
  {
    id: "session-token-format",
    level: "must",
    spec: [20, 21, 31],
    title: "session_token is svc_sess_{env}_{jwt}",
  },
  (checks, answer) => {
    const { session_token: token } = answer.fields;
    const fits = typeof token === "string" && /^svc_sess_[A-Za-z0-9-]+_[\w-]+\.[\w-]+\.[\w-]+$/.test(token);
    const came = typeof token === "string" ? `a text of another form (${token.slice(0, 9)}...)` : JSON.stringify(token);
    checks.require(fits, answer, "svc_sess_{env}_{jwt}, the JWT in three parts", `it was ${came}`);
  },
);

const expiresIn = minted(
  {
    id: "session-expires-in",
    level: "must",
    spec: [23, 24, 32, 36, 224],
    title: "expires_in is a number above 0 and at most 1800 seconds",
  },
  (checks, answer) => {
    const value = answer.fields.expires_in;
    const fits = typeof value === "number" && value > 0 && value <= LIFETIME_MAX_S;
    checks.require(fits, answer, `a number in (0, ${LIFETIME_MAX_S}]`, `it was ${JSON.stringify(value)}`);
  },
);

const productEcho = minted(
  {
    id: "session-product",
    level: "must",
    spec: [33],
    title: "product is the product that was asked for",
  },
  (checks, answer) => {
    const { product } = answer.fields;
    const asked = answer.testCall.product;
    checks.require(product === asked, answer, `"${asked}"`, `it was ${JSON.stringify(product)}`);
  },
);

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

const lifetime = minted(
  {
    id: "session-lifetime-is-bounded",
    level: "must",
    spec: [24, 224],
    title: "a token whose own end can be read ends within 30 minutes",
  },
  (checks, answer) => {
    const leftS = lifeS(answer);
    if (leftS === undefined) return checks.note("the token does not tell its end");
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

const ends: Rule = {
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

export const MINTING_RULES: readonly Rule[] = [mints, tokenForm, expiresIn, productEcho, lifetime, ends];
