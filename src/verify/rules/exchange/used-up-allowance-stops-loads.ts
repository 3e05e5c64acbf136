/**
 * Map loads under a tile session that is there already, once the allowance is used up (items 128, 205, 225, 227; A9). The
 * allowance and the hard stop concern tile sessions and map loads alike; but only what a deployment counts can use anything
 * up, so a load that leaves `used` as it was is none here, and nothing is asked of it.
 */
import type { KeyRole } from "../../../target/target.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { burn, EXCEEDED, HARD_STOP, isStop, UNKNOWN_MOST } from "../../limits/allowance-burn.ts";
import { OutOfBudget } from "../../planning/shortage.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { exchangeCall, role } from "../../sending/test-call.ts";
import { usedIn } from "./quota-and-hard-stop.ts";

const FREE = "publishable_expendable";
const PAID = "publishable_expendable_paid";
/** Loads past the end: one may be admitted by A8b, and of the rest each one counts. */
const TRIES = 4;

const mintTile = (context: Context, of: KeyRole): Promise<Answer> => context.send(exchangeCall(of, "listed", "tile"));

/** The newest tile session that this run was given for the role. */
const sessionOf = (context: Context, of: KeyRole): unknown =>
  context.answers.findLast(
    (answer) =>
      answer.testCall.route === "sdk.sessions" &&
      answer.testCall.product === "tile" &&
      "of" in answer.testCall.credential &&
      answer.testCall.credential.of === role(of) &&
      isAdmitted(answer),
  )?.fields.session_token;

/** Uses the allowance up where no rule before has; the refusal of a mint that shows it, or why there is none. */
const spent = async (context: Context): Promise<Answer | string> => {
  const first = await mintTile(context, FREE);
  if (first.outcome === EXCEEDED) return first;
  const { limit } = context.keyRole(FREE) ?? {};
  const most = (limit ?? UNKNOWN_MOST) + 1;
  const short = context.short("map_loads", most);
  if (short !== null) throw new OutOfBudget(short);
  if (isAdmitted(first)) await burn(context, FREE, limit);
  const last = await mintTile(context, FREE);
  return last.outcome === EXCEEDED ? last : `the allowance of ${FREE} is not used up by minting: ${inWords(last)}`;
};

const loads = async (context: Context, of: KeyRole): Promise<Answer[]> => {
  const token = sessionOf(context, of);
  if (typeof token !== "string") return [];
  const answers: Answer[] = [];
  for (let i = 0; i < TRIES; i++) {
    const answer = await context.send({
      route: "maps.loads",
      credential: { as: "session", of: role(of), product: "tile" },
      secret: { value: token, variable: "$SESSION_OF_THE_BURN" },
      origin: "listed",
      open: true,
    });
    answers.push(answer);
    if (!isAdmitted(answer)) break;
  }
  return answers;
};

/** A month may begin meanwhile, so the exchange has to refuse before and after. */
const judgePaid = async (context: Context, checks: Checks): Promise<void> => {
  const isStopped = async (): Promise<boolean> => (await mintTile(context, PAID)).outcome === HARD_STOP;
  if (!context.has(PAID) || !(await isStopped())) return;
  const answers = await loads(context, PAID);
  const last = answers.at(-1);
  if (last === undefined) checks.note(`no session of ${PAID} is left to try`);
  else if (last.transient) checks.unclear(inWords(last));
  else if (!isAdmitted(last) || (await isStopped()))
    checks.expect(last, { accepts: [HARD_STOP] }, answers.slice(0, -1));
};

export const quotaAtLoads: Rule = {
  id: "used-up-allowance-stops-loads",
  level: "must",
  spec: [10, 204, 205, 225, 227],
  title: "what stops tile sessions stops counted map loads under sessions that are there already as well",
  phase: "quota-burn",
  needs: { permission: "quota-burn", roles: [FREE] },
  cost: { calls: 4 },
  run: async (context) => {
    const checks = new Checks("map_load_quota_exceeded, and map_load_hard_stop for a paid organization");
    const before = await spent(context);
    if (typeof before === "string") return checks.result(before);
    const answers = await loads(context, FREE);
    const last = answers.at(-1);
    if (last === undefined) return checks.result(`no session of ${FREE} is left: it was spent in an earlier run`);
    if (last.transient) {
      checks.unclear(inWords(last));
      return checks.result();
    }
    if (!isAdmitted(last) && !isStop(last)) return checks.result(`POST /maps/loads is not offered: ${inWords(last)}`);
    if (isStop(last)) checks.expect(last, { accepts: [EXCEEDED] });
    else {
      const after = await mintTile(context, FREE);
      const [from, to] = [usedIn(before), usedIn(after)];
      if (from === undefined || to === undefined || to < from + answers.length) {
        return checks.result("POST /maps/loads counts nothing here (A9)");
      }
      const counted = `${answers.length} more were admitted, and used went from ${from} to ${to}`;
      checks.require(false, last, "no map load past the allowance of a Free organization", counted);
    }
    await judgePaid(context, checks);
    return checks.result();
  },
};
