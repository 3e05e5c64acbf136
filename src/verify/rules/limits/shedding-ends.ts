/**
 * Shedding that never ends (items 210, 211): where the caps are stated and fixed, a call that comes alone is below each of
 * them. One such refusal, or many, may be others' traffic; none admitted for a minute and more, up to the end of the run, by a
 * deployment that admitted calls before, are slots that do not come back. The run itself shows it; only then anything is sent.
 */

import { statedWaitMs } from "../../../contract/retry-after.ts";
import type { KeyRole } from "../../../target/target.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";
import { wait } from "../../sending/throttle.ts";

const LOOK_EVERY_MS = 3_000;
const RETRY_AFTER_TIMES = 10;
/** Nobody waits for longer than this; a deployment that asks for more is not found out about. */
const WAIT_MAX_MS = 30_000;
/** Fewer refusals since the last call that was admitted may be others' traffic. */
const SHED_MIN = 12;
const GLOBAL = "b2b_overloaded";
const ORGANIZATION = "org_overloaded";

/** Whose calls were shed: everybody's, or one organization's. */
type Group = { whose: string; answers: Answer[] };

const organizationOf = (context: Context, { testCall: { credential } }: Answer): string | null => {
  if (!("of" in credential)) return null;
  const name = credential.of.replace(/^role:/, "");
  return context.keyRole(name as KeyRole)?.org ?? name;
};

/** Shedding concerns runtime and exchange; key management may be spared (A22), and a path of no route is never shed. */
const isConcerned = ({ testCall: { route } }: Answer): boolean => route !== "-" && !route.startsWith("keys.");

const groups = (context: Context): Group[] => {
  const all = context.answers.filter(isConcerned);
  const found: Group[] = [
    { whose: "the deployment", answers: all.filter((one) => isAdmitted(one) || one.subcode === GLOBAL) },
  ];
  for (const name of new Set(all.map((answer) => organizationOf(context, answer)))) {
    const own = all.filter((answer) => name !== null && organizationOf(context, answer) === name);
    const answers = own.filter((one) => isAdmitted(one) || one.subcode === ORGANIZATION);
    found.push({ whose: `the organization of ${name}`, answers });
  }
  return found;
};

/** Refusals since the last call that was admitted; `null` where none ever was, or too few came since. */
const shedSince = ({ answers }: Group): { lastIn: Answer; shed: Answer[] } | null => {
  const lastIn = answers
    .filter(isAdmitted)
    .sort((a, b) => a.received.doneUs - b.received.doneUs)
    .at(-1);
  if (lastIn === undefined) return null;
  const shed = answers.filter((one) => !isAdmitted(one) && one.received.sentUs > lastIn.received.doneUs);
  return shed.length >= SHED_MIN ? { lastIn, shed } : null;
};

/** A call that uses nothing up, to be made again. */
const again = (shed: readonly Answer[]): Answer | undefined =>
  shed.findLast(({ testCall: { route, product } }) => route !== "design.analyze" && product !== "tile");

const askedMs = (answer: Answer): number => statedWaitMs(answer.headers["retry-after"] ?? "0", Date.now()) ?? 0;

export const sheddingEnds: Rule = {
  id: "shedding-ends",
  level: "must",
  spec: [210, 211, 217],
  title: "where the caps are stated and fixed, calls that come one at a time are not shed for ever",
  phase: "every-answer",
  needs: {},
  cost: { calls: 0 },
  run: async (context) => {
    const checks = new Checks(
      `a call admitted again, within ${context.patienceMs / 1000} s and more, after the last that was`,
    );
    const { global_in_flight: cap, org_in_flight: orgCap } = context.target.limits ?? {};
    if (context.target.shedding !== "fixed" || cap === undefined || orgCap === undefined) {
      return checks.result("fixed shedding with limits.global_in_flight and limits.org_in_flight in the target file");
    }
    for (const group of groups(context)) {
      const found = shedSince(group);
      const one = found === null ? undefined : again(found.shed);
      if (found === null || one === undefined) {
        checks.fine();
        continue;
      }
      if (askedMs(one) > WAIT_MAX_MS) {
        checks.unclear(`Retry-After asked for more than ${WAIT_MAX_MS / 1000} s`);
        continue;
      }
      const { lastIn, shed } = found;
      const forMs = Math.max(context.patienceMs, RETRY_AFTER_TIMES * askedMs(one));
      for (;;) {
        await wait(Math.max(LOOK_EVERY_MS, askedMs(one)), context.signal);
        const answer = await context.send({ ...one.testCall, once: true });
        const sinceMs = (answer.received.sentUs - lastIn.received.doneUs) / 1000;
        if (answer.subcode !== one.subcode) {
          checks.fine();
          checks.note(`${group.whose} shed ${shed.length} calls that came alone, and then no more`);
          break;
        }
        if (sinceMs < forMs) continue;
        const got = `none was admitted for ${Math.round(sinceMs / 1000)} s, ${shed.length} calls were shed since`;
        checks.require(
          false,
          answer,
          `a single call admitted by ${group.whose}, under a cap of ${one.subcode === GLOBAL ? cap : orgCap}`,
          got,
        );
        break;
      }
      if (checks.failed) break;
    }
    return checks.result();
  },
};
