/** What the exchange gives (items 20-34, 224): a token of the stated form, for the stated time, for the product asked for. */
import { shapeOf } from "../../../contract/foreign-text.ts";
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";
import { mintedSpecimens } from "./exchange-mints.ts";

/** Item 24. */
export const LIFETIME_MAX_S = 1800;

export const minted = (
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

export const tokenForm = minted(
  {
    id: "session-token-format",
    level: "must",
    spec: [20, 21, 31],
    title: "session_token is svc_sess_{env}_{jwt}",
  },
  (checks, answer) => {
    const { session_token: token } = answer.fields;
    const fits = typeof token === "string" && /^svc_sess_[A-Za-z0-9-]+_[\w-]+\.[\w-]+\.[\w-]+$/.test(token);
    checks.require(fits, answer, "svc_sess_{env}_{jwt}, the JWT in three parts", `it was ${shapeOf(token)}`);
  },
);

export const expiresIn = minted(
  {
    id: "session-expires-in",
    level: "must",
    spec: [23, 24, 32, 36, 224],
    title: "expires_in is a number above 0 and at most 1800 seconds",
  },
  (checks, answer) => {
    const value = answer.fields.expires_in;
    const fits = typeof value === "number" && value > 0 && value <= LIFETIME_MAX_S;
    checks.require(fits, answer, `a number in (0, ${LIFETIME_MAX_S}]`, `it was ${shapeOf(value)}`);
  },
);

export const productEcho = minted(
  {
    id: "session-product",
    level: "must",
    spec: [33],
    title: "product is the product that was asked for",
  },
  (checks, answer) => {
    const { product } = answer.fields;
    const asked = answer.testCall.product;
    checks.require(product === asked, answer, `"${asked}"`, `it was ${shapeOf(product)}`);
  },
);
