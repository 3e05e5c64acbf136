/**
 * An allowance used up on purpose: mints until they are refused, many of them at once, and loads under a session that is there
 * already. The rules of the phase `quota-burn` judge what came.
 */
import { inFlightMax } from "../../client/transport.ts";
import { outcomeOf } from "../../contract/refusals.ts";
import type { KeyRole } from "../../target/target.ts";
import { CannotJudge } from "../cannot-judge.ts";
import { isSessionsOff } from "../checks.ts";
import type { Context } from "../context.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { exchangeCall, role, type TestCall } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";
import type { MintSeen } from "./month-windows.ts";

export const EXCEEDED = outcomeOf("map_load_quota_exceeded");
export const HARD_STOP = outcomeOf("map_load_hard_stop");
const BURST_MAX = 48;

export type Burn = {
  of: KeyRole;
  mints: MintSeen[];
  admitted: Answer[];
  /** Mints that gave out a session again which was given out before (A19): no new map load. */
  reused: number;
  /** The refusal that ended it; `null` when nothing stopped it. */
  stop: Answer | null;
  /** Answers that were neither. */
  other: Answer[];
  /** Of mints at the same time some were admitted and some refused: they met at the last unit. */
  edgeMetAtOnce: boolean;
};

/** Whether an organization hears that its map loads of this month are spent, as far as its answer shows. */
export const isSpent = ({ outcome, fields: { limit, used } }: Answer): boolean =>
  outcome === HARD_STOP || (outcome === EXCEEDED && !(typeof used === "number" && used < Number(limit)));

export const isStop = (answer: Answer): boolean => answer.outcome === EXCEEDED || answer.outcome === HARD_STOP;

/** Tile sessions of a role, and what was loaded under them, that were admitted so far. */
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
/** Mints past the edge that a conforming target refuses. */
export const PAST = 3;
/** Where the target file does not say how large the allowance is. */
export const UNKNOWN_MOST = 40;
/** Where calls were shed, the edge is tried once more with fewer of them. */
const WAVES_MAX = 5;
/** A permitted rate counts for each second. */
const WAVE_EVERY_MS = 1_000;

/** So many mints at the same time that neither the permit, a stated cap nor our own connections stand in the way. */
const widthOf = ({ target: { limits = {}, permits, ...target } }: Context): number =>
  Math.max(
    1,
    Math.min(
      ...[BURST_MAX, permits?.load_max_rps, limits.org_in_flight, limits.global_in_flight, inFlightMax(target)].filter(
        (n) => n !== undefined,
      ),
    ),
  );

type Mint = (more: Partial<TestCall>) => Promise<Answer>;

/**
 * Uses the allowance up so that its last unit is asked for by several at once: paced until fewer units are left than may be
 * in flight, then all at once. Calls that are shed there would leave the edge to those that come alone afterwards, so the
 * width shrinks to what was served, and it is done again. Where nobody knows how many units there are, wave follows wave.
 */
const meetTheEdge = async (context: Context, found: Burn, units: number | undefined, mint: Mint): Promise<void> => {
  const twins = { "x-request-id": `twins-${found.of}-${context.seed}` };
  const enough = (units ?? UNKNOWN_MOST) + PAST;
  let width = Math.min(widthOf(context), enough);
  const hasEnded = (): boolean => found.stop !== null || found.admitted.length >= enough;
  const wave = async (size: number, isFirst: boolean): Promise<void> => {
    // The first two say that they are the same request: an id of the client's must not make one charge of two.
    const shared = (i: number): Partial<TestCall> => (isFirst && i < 2 ? { headers: twins } : {});
    const answers = await Promise.all(
      Array.from({ length: size }, (_, i) => mint({ atOnce: true, once: true, ...shared(i) })),
    );
    const served = answers.filter((answer) => !answer.transient);
    if (served.some(isStop) && served.some(isAdmitted)) found.edgeMetAtOnce = true;
    if (served.length < size) width = Math.max(2, served.length);
  };
  const burnDown = async (count: number): Promise<void> => {
    await context.each([...Array(Math.max(0, count)).keys()], async () => {
      if (!hasEnded()) await mint({});
    });
  };
  for (let i = 0; i < WAVES_MAX && !hasEnded(); i++) {
    const left = enough - found.admitted.length;
    if (units === undefined) {
      if (i > 0) await wait(WAVE_EVERY_MS, context.signal);
      await wave(Math.min(width, left), i === 0);
      continue;
    }
    const past = Math.min(PAST, Math.floor(width / 2));
    await burnDown(units - found.admitted.length - (width - past));
    if (found.stop !== null) return;
    await wave(Math.min(width, enough - found.admitted.length), i === 0);
  }
};

/**
 * Mints until it is refused: `units` of them, of which a conforming target refuses the last few, the last unit asked for by
 * several at once, then one by one. Where all were admitted, the next ones show late counting from none at all (A9), as far as
 * the budget goes. `units`: of the allowance; `undefined` where the target file does not say.
 */
export const burn = async (context: Context, of: KeyRole, units: number | undefined): Promise<Burn> => {
  const found: Burn = { of, mints: [], admitted: [], reused: 0, stop: null, other: [], edgeMetAtOnce: false };
  const tokens = new Set(earlierTokens(context, of));
  const enough = (units ?? UNKNOWN_MOST) + PAST;
  const mint: Mint = async (more) => {
    const sentMs = context.wallMs();
    const answer = await context.send(exchangeCall(of, "listed", "tile", more));
    if (isSessionsOff(answer)) throw new CannotJudge("skipped", inWords(answer));
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
  await meetTheEdge(context, found, units, mint);
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
