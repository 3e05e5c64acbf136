/**
 * How a rule is made of a creation that must be refused: sent, perhaps in other words as well, and judged only where the
 * deployment has shown that it understood what was meant. What creates nothing when it fails is tried without permission.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import type { AdminRole } from "../../../target/target.ts";
import { Checks, fits } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { misunderstood, readsOurBodies } from "../../keys/key-bodies.ts";
import type { KeyBody } from "../../keys/key-calls.ts";
import { noMoreKeys, notAsExpected } from "../../keys/key-making.ts";
import { createKey } from "../../keys/managed-keys.ts";
import type { Needs } from "../../planning/needs.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";

const MALFORMED = outcomeOf("malformed_body");
export const LIMIT = outcomeOf("key_limit_reached");

export const ANY_ADMIN: readonly AdminRole[] = ["admin_pro", "admin_key_limit", "admin_free"];

/** Why a creation that was admitted, or refused in other words, proves nothing; `null` where it is a breach. */
export type Doubt = (context: Context, answer: Answer, secret: string | null) => Promise<string | null>;

type Refused = {
  id: string;
  spec: readonly number[];
  title: string;
  needs: Needs;
  cost: Rule["cost"];
  admins: readonly AdminRole[];
  body: KeyBody;
  accepts: readonly string[];
  /** The same said in other ways; a deployment may find them malformed. */
  others?: readonly { readonly what: string; readonly body: KeyBody }[];
  doubt?: Doubt;
  /** A creation that is admitted, and after which the body is refused as before. */
  evenAfter?: readonly KeyBody[];
};

const never: Doubt = () => Promise.resolve(null);

export const adminOf = ({ testCall }: Answer): AdminRole =>
  ("of" in testCall.credential ? testCall.credential.of.replace(/^role:/, "") : "admin_pro") as AdminRole;

/**
 * Whether it was key management that spoke: what is malformed may be so for another member than the one that the rule is about,
 * and where another administrator is understood, a path that is not found was found.
 */
const isOurs = (context: Context, admin: AdminRole, { status }: Answer): Promise<boolean> => {
  const asked = status === 422 ? admin : ANY_ADMIN.find((other) => other !== admin && context.has(other));
  return asked === undefined ? Promise.resolve(false) : readsOurBodies(context, asked);
};

/** The rule. */
export const refused = ({ others = [], evenAfter = [], doubt = never, ...rule }: Refused): Rule => ({
  id: rule.id,
  level: "must",
  spec: rule.spec,
  title: rule.title,
  phase: "management",
  needs: rule.needs,
  cost: rule.cost,
  run: async (context) => {
    const { admins, body, accepts } = rule;
    const checks = new Checks(rule.title);
    const admin = admins.find(context.has);
    if (admin === undefined) return checks.result(`none of ${admins.join(", ")}`);
    for (const { body: tried, what } of [{ body, what: undefined }, ...others]) {
      const { answer, secret } = await createKey(context, admin, tried, what === undefined ? {} : { what });
      // Which error decides where two apply is open (item 135).
      if (answer.outcome === LIMIT && !accepts.includes(LIMIT))
        return checks.result(`the organization of ${admin} is at its key limit, and that is reported first`);
      const left = isAdmitted(answer) ? noMoreKeys(context) : null;
      if (left !== null) checks.note(left);
      const tolerates = what === undefined ? [] : [MALFORMED];
      if (!fits(answer, [...accepts, ...tolerates]) && !answer.transient) {
        const otherwise = notAsExpected(answer);
        if (otherwise !== null && !(await isOurs(context, admin, answer))) return checks.result(otherwise);
        const open = (await misunderstood(context, answer)) ?? (await doubt(context, answer, secret));
        if (open !== null && what === undefined) return checks.result(open);
        if (open !== null) {
          checks.note(open);
          continue;
        }
      }
      checks.expect(answer, { accepts, tolerates });
    }
    for (const given of checks.failed || noMoreKeys(context) !== null ? [] : evenAfter) {
      const { answer: before } = await createKey(context, admin, given);
      if (!isAdmitted(before)) continue;
      const { answer } = await createKey(context, admin, body);
      checks.expect(answer, { accepts }, [before]);
      break;
    }
    return checks.result("what was answered proves nothing");
  },
});
