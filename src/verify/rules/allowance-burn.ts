/** Uses an allowance of map loads up on purpose, several mints asking for its last unit. `allowance.ts` judges what comes. */
import { inFlightMax } from "../../client/transport.ts";
import { outcomeOf } from "../../contract/refusals.ts";
import type { KeyRole } from "../../target/target.ts";
import { isSessionsOff } from "../checks.ts";
import type { Context } from "../context.ts";
import { roleOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { inSession, mint, type TestCall } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";
import { skipped } from "../verdict.ts";

export const EXCEEDED = outcomeOf("map_load_quota_exceeded");
export const HARD_STOP = outcomeOf("map_load_hard_stop");
const BURST_MAX = 48;

export type Burn = {
  of: KeyRole;
  admitted: Answer[];
  /** Mints that gave out a session again (A19): no new map load. */
  reused: number;
  /** The refusal that ended it; `null` if nothing stopped it. */
  stop: Answer | null;
  /** Answers that were neither. */
  other: Answer[];
  /** Of mints at the same time some were admitted and some refused: they met at the last unit. */
  edgeMetAtOnce: boolean;
};

export const isStop = ({ outcome }: Answer): boolean => outcome === EXCEEDED || outcome === HARD_STOP;

/** Whether the answer says that an organization's map loads of this month are spent. */
export const isSpent = ({ outcome, fields: { limit, used } }: Answer): boolean =>
  outcome === HARD_STOP || (outcome === EXCEEDED && !(typeof used === "number" && used < Number(limit)));

/** Admitted answers about tiles of a role, the newest last. */
export const loadsOf = (context: Context, of: KeyRole): Answer[] =>
  context.answers.filter(
    (answer) => answer.testCall.product === "tile" && roleOf(answer.testCall) === of && isAdmitted(answer),
  );

const HOUR_MS = 3_600_000;

/**
 * Whether a month begins within a day. Its time zone is not stated (items 10, 229), and midnight is somewhere between UTC+14 and
 * UTC-12, so what is used up may be there again for a while.
 */
export const monthTurns = (ms: number): boolean => {
  const day = (hours: number): number => new Date(ms + hours * HOUR_MS).getUTCMonth();
  return day(-36) !== day(38);
};

/** Throws where the month may turn during a burn. */
export const withinAMonth = (context: Context): void => {
  if (monthTurns(context.wallMs())) throw skipped("a month begins somewhere within a day, and an allowance with it");
};

/** A store that loses counts, or has one for each replica, refuses late: so many times the expected number is tried. */
const LATE_TIMES = 3;
/** Mints past the edge, which a conforming target refuses. */
export const PAST = 3;
/** Where the target file does not say how large the allowance is. */
export const UNKNOWN_MOST = 40;
/** Where calls were shed, the edge is tried again with fewer of them. */
const WAVES_MAX = 5;
/** A permitted rate counts for each second. */
const WAVE_EVERY_MS = 1_000;

/** So many mints at once that neither the permit, a stated cap nor our own connections stand in the way. */
const widthOf = ({ target: { limits = {}, permits, ...target } }: Context): number => {
  const bounds = [permits?.load_max_rps, limits.org_in_flight, limits.global_in_flight, inFlightMax(target)];
  return Math.max(1, Math.min(BURST_MAX, ...bounds.filter((n) => n !== undefined)));
};

/**
 * Mints until it is refused, then some more. While units are known, paced until fewer are left than may be in flight, then all at
 * once, so that several ask for the last unit; a wave in which calls were shed is tried again with fewer. Without a number, wave
 * follows wave. Where all were admitted, the next mints show late counting from none at all (A9), as far as the budget goes.
 */
export const burn = async (context: Context, of: KeyRole, units: number | undefined): Promise<Burn> => {
  const found: Burn = { of, admitted: [], reused: 0, stop: null, other: [], edgeMetAtOnce: false };
  const enough = (units ?? UNKNOWN_MOST) + PAST;
  const tokens = new Set(
    context.answers
      .filter(({ testCall }) => testCall.route === "sdk.sessions" && roleOf(testCall) === of)
      .map(({ fields }) => fields.session_token),
  );
  const mintOne = async (more: Partial<TestCall> = {}): Promise<Answer> => {
    const answer = await context.send(mint(of, "tile", more));
    if (isSessionsOff(answer)) throw skipped(inWords(answer));
    const token = answer.fields.session_token;
    if (isAdmitted(answer) && typeof token === "string" && tokens.has(token)) found.reused += 1;
    else if (isAdmitted(answer)) found.admitted.push(answer);
    else if (isStop(answer)) found.stop = answer;
    else found.other.push(answer);
    tokens.add(token);
    return answer;
  };
  // The first two say that they are the same request: an id of the client's must not make one charge of two.
  const twins = { headers: { "x-request-id": `twins-${of}-${context.seed}` } };
  let width = Math.min(widthOf(context), enough);
  const hasEnded = (): boolean => found.stop !== null || found.admitted.length >= enough;
  for (let i = 0; i < WAVES_MAX && !hasEnded(); i++) {
    if (units === undefined && i > 0) await wait(WAVE_EVERY_MS, context.signal);
    if (units !== undefined) {
      const paced = units - found.admitted.length - (width - Math.min(PAST, Math.floor(width / 2)));
      await context.each([...Array(Math.max(0, paced)).keys()], async () => {
        if (!hasEnded()) await mintOne();
      });
      if (found.stop !== null) break;
    }
    const size = Math.min(width, enough - found.admitted.length);
    const wave = Array.from({ length: size }, (_, k) =>
      mintOne({ atOnce: true, once: true, ...(i === 0 && k < 2 ? twins : {}) }),
    );
    const served = (await Promise.all(wave)).filter((answer) => !answer.transient);
    if (served.some(isStop) && served.some(isAdmitted)) found.edgeMetAtOnce = true;
    if (served.length < size) width = Math.max(2, served.length);
  }
  // One more after the burst in any case: only a refusal that comes last shows the final `used`.
  const most = enough * LATE_TIMES;
  const hasMore = (): boolean =>
    found.admitted.length < enough || (found.admitted.length < most && context.budget.left("map_loads") >= 1);
  for (let i = 0; i === 0 || (hasMore() && i <= most); i++) {
    const answer = await mintOne();
    if (isStop(answer) || !isAdmitted(answer)) break;
  }
  return found;
};

/** Loads under a session that is there already, until one is refused. */
export const loadUnder = async (
  context: Context,
  of: KeyRole,
  token: unknown,
  times: number,
  routes: readonly ("maps.tiles" | "maps.loads")[] = ["maps.tiles", "maps.loads"],
): Promise<Answer[]> => {
  if (typeof token !== "string") return [];
  const answers: Answer[] = [];
  const secret = { value: token, variable: "$SESSION_OF_THE_BURN" };
  for (const route of routes) {
    if (route === "maps.tiles" && context.target.tile_url === undefined) continue;
    for (let i = 0; i < times; i++) {
      const answer = await context.send(inSession("tile", route, { secret, open: true }, of));
      answers.push(answer);
      if (!isAdmitted(answer)) break;
    }
  }
  return answers;
};
