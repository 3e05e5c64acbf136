/**
 * An allowance used up on purpose: mints until they are refused, many of them at once, and loads under a session that is there
 * already. The rules of the phase `quota-burn` judge what came.
 */
import { outcomeOf } from "../contract/refusals.ts";
import type { KeyRole } from "../target/target.ts";
import { isSessionsOff } from "./checks.ts";
import type { Context } from "./context.ts";
import type { MintSeen } from "./month-windows.ts";
import { CannotJudge } from "./rule.ts";
import { type Answer, isAdmitted, told } from "./sending/answer.ts";
import { exchangeCall, role, type TestCall } from "./sending/test-call.ts";

export const EXCEEDED = outcomeOf("map_load_quota_exceeded");
export const HARD_STOP = outcomeOf("map_load_hard_stop");
const BURST_MAX = 48;

export type Burn = {
  mints: MintSeen[];
  admitted: Answer[];
  /** Mints that gave out a session again which was given out before (A19): no new map load. */
  reused: number;
  /** The refusal that ended it; `null` when nothing stopped it. */
  stop: Answer | null;
  /** Answers that were neither. */
  other: Answer[];
};

/** Whether an organization is told that its map loads of this month are spent, as far as its answer shows. */
export const isSpent = ({ outcome, fields: { limit, used } }: Answer): boolean =>
  outcome === HARD_STOP || (outcome === EXCEEDED && !(typeof used === "number" && used < Number(limit)));

export const isStop = (answer: Answer): boolean => answer.outcome === EXCEEDED || answer.outcome === HARD_STOP;

/** Tile sessions of a role, and what was loaded under them, that were let in so far. */
export const loadsOf = (context: Context, of: KeyRole): Answer[] =>
  context.answers.filter(
    (answer) =>
      answer.testCall.product === "tile" &&
      "of" in answer.testCall.credential &&
      answer.testCall.credential.of === role(of) &&
      isAdmitted(answer),
  );

const earlierTokens = (context: Context, of: KeyRole): unknown[] =>
  context.answers
    .filter(
      ({ testCall }) =>
        testCall.route === "sdk.sessions" && "of" in testCall.credential && testCall.credential.of === role(of),
    )
    .map(({ fields }) => fields.session_token);

/** A store that loses counts, or has one for each replica, refuses as well, but late: so many times what is expected is tried. */
const LATE_TIMES = 3;

/**
 * Mints until it is refused, first `enough` at the same time, of which a conforming target refuses some, then one by one. Where
 * `enough` were let in, the next ones tell late counting from none at all (A9), as far as the budget goes.
 */
export const burn = async (context: Context, of: KeyRole, enough: number): Promise<Burn> => {
  const found: Burn = { mints: [], admitted: [], reused: 0, stop: null, other: [] };
  const tokens = new Set(earlierTokens(context, of));
  const mint = async (more: Partial<TestCall>): Promise<Answer> => {
    const sentMs = context.wallMs();
    const answer = await context.send(exchangeCall(of, "listed", "tile", more));
    if (isSessionsOff(answer)) throw new CannotJudge("skipped", told(answer));
    const token = answer.fields.session_token;
    const again = isAdmitted(answer) && typeof token === "string" && tokens.has(token);
    if (again) found.reused += 1;
    tokens.add(token);
    const admitted = isAdmitted(answer) && !again;
    found.mints.push({ sentMs, doneMs: context.wallMs(), admitted });
    if (admitted) found.admitted.push(answer);
    else if (again) return answer;
    else if (isStop(answer)) found.stop = answer;
    else found.other.push(answer);
    return answer;
  };
  // The first two say that they are the same request: an id of the client's must not make one charge of two.
  const twins = { "x-request-id": `twins-${of}-${context.seed}` };
  const shared = (i: number): Partial<TestCall> => (i < 2 ? { headers: twins } : {});
  const burst = Math.min(enough, BURST_MAX, context.target.permits?.load_max_rps ?? BURST_MAX);
  await Promise.all(Array.from({ length: burst }, (_, i) => mint({ atOnce: true, once: true, ...shared(i) })));
  // One more after the burst in any case: only a refusal that comes last shows the final `used`.
  const most = enough * LATE_TIMES;
  const hasMore = (): boolean =>
    found.admitted.length < enough || (found.admitted.length < most && context.budget.left("map_loads") >= 1);
  for (let i = 0; i === 0 || (hasMore() && i <= most); i++) {
    const answer = await mint({});
    if (isStop(answer) || !isAdmitted(answer)) break;
  }
  return found;
};

/** Loads under a session that is there already: tiles, and the extension of item 128. How many were served. */
export const loadUnder = async (context: Context, of: KeyRole, token: unknown, times: number): Promise<Answer[]> => {
  if (typeof token !== "string") return [];
  const answers: Answer[] = [];
  const credential = { as: "session", of: role(of), product: "tile" } as const;
  const secret = { value: token, variable: "$SESSION_OF_THE_BURN" };
  for (const route of ["maps.tiles", "maps.loads"] as const) {
    if (route === "maps.tiles" && context.target.tile_url === undefined) continue;
    for (let i = 0; i < times; i++) {
      const answer = await context.send({ route, credential, secret, origin: "listed", open: true });
      answers.push(answer);
      if (!isAdmitted(answer)) break;
    }
  }
  return answers;
};
