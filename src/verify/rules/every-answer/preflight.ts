/**
 * What a browser asks before it sends a credential (items 159, 160). How a preflight is answered is a gap, and it may be done
 * further in front: so this is a should. Where it lets the Origin in and no header that could carry the key, no page gets through.
 */
import { foreignHeader } from "../../../contract/foreign-text.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import type { Answer } from "../../sending/answer.ts";
import type { TestCall } from "../../sending/test-call.ts";

/** The two headers of item 143, either of which is enough. */
const CARRIERS = ["x-api-key", "authorization"] as const;

const preflight = (context: Context, carrier: string): TestCall => ({
  route: "-",
  credential: { as: "none" },
  origin: "listed",
  originValue: context.keyRole("publishable")?.origin ?? "",
  path: "/sdk/sessions",
  method: "OPTIONS",
  headers: { "access-control-request-method": "POST", "access-control-request-headers": `content-type,${carrier}` },
  what: `preflight for ${carrier}`,
});

const isDoneHere = ({ status, headers }: Answer): boolean =>
  status !== null && status >= 200 && status < 300 && headers["access-control-allow-origin"] !== undefined;

/** Fetch standard: `*` stands for every name but Authorization. */
const allows = ({ headers }: Answer, name: string): boolean => {
  const names = (headers["access-control-allow-headers"] ?? "").toLowerCase().split(/\s*,\s*/);
  return names.includes(name) || (names.includes("*") && name !== "authorization");
};

const allowsACredential: Rule = {
  id: "preflight-allows-a-credential",
  level: "should",
  spec: [143, 159, 160],
  title: "a preflight that lets an allowlisted Origin in lets it send X-Api-Key or Authorization",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 2 },
  run: async (context) => {
    const checks = new Checks("Access-Control-Allow-Headers with X-Api-Key or Authorization");
    const answers: Answer[] = [];
    for (const carrier of CARRIERS) {
      const answer = await context.send(preflight(context, carrier));
      if (!isDoneHere(answer)) return { ...checks.result("preflights are not answered with CORS here"), idle: true };
      if (allows(answer, carrier)) checks.fine();
      else answers.push(answer);
    }
    const [first] = answers;
    const named = first?.headers["access-control-allow-headers"] ?? "absent";
    if (answers.length === CARRIERS.length && first !== undefined) {
      checks.require(
        false,
        first,
        "X-Api-Key or Authorization in Access-Control-Allow-Headers",
        `it was ${foreignHeader(named)}`,
      );
    }
    return checks.result();
  },
};

export const PREFLIGHT_RULES: readonly Rule[] = [allowsACredential];
