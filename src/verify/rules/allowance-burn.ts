/** Uses up an allowance of map loads; `allowance.ts` judges the result. */
import { inFlightMax } from "../../client/transport.ts";
import { outcomeOf } from "../../contract/refusals.ts";
import type { KeyRole } from "../../target/roles.ts";
import { inconclusive, isSessionsOff, skipped } from "../checks.ts";
import type { Context } from "../context.ts";
import { roleOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { inSession, mint, type TestCall } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";

export const EXCEEDED = outcomeOf("map_load_quota_exceeded");
export const HARD_STOP = outcomeOf("map_load_hard_stop");
const BURST_MAX = 48;

export type Burn = Awaited<ReturnType<typeof burn>>;

export const isStop = ({ outcome }: Answer): boolean => outcome === EXCEEDED || outcome === HARD_STOP;

/** Whether the answer says that the organization's map loads of this month are used up. */
export const isSpent = ({ outcome, fields: { limit, used } }: Answer): boolean =>
  outcome === HARD_STOP || (outcome === EXCEEDED && !(typeof used === "number" && used < Number(limit)));

export const loadsOf = ({ answers }: Context, of: KeyRole): Answer[] =>
  answers.filter((one) => one.testCall.product === "tile" && roleOf(one.testCall) === of && isAdmitted(one));

/** Whether a month begins within a day of `ms`, from UTC+14 to UTC-12: items 10 and 229 state no time zone. */
export const monthTurns = (ms: number): boolean => {
  const monthIn = (hours: number): number => new Date(ms + hours * 3_600_000).getUTCMonth();
  return monthIn(-36) !== monthIn(38);
};

export const withinAMonth = (context: Context): void => {
  if (monthTurns(context.wallMs()))
    throw skipped("ambiguous", "within a day a month begins in some time zone, and allowances with it");
};

/** The most times the allowance that is tried: a store that loses counts, or counts per replica, refuses late. */
const LATE_TIMES = 3;
export const PAST = 3;
export const UNKNOWN_MOST = 40;
/** Bounds the waves; after a wave with shed calls the next one is smaller. */
const WAVES_MAX = 5;
const WAVE_EVERY_MS = 1_000;

const widthOf = ({ target: { limits = {}, permits, ...target } }: Context): number => {
  const bounds = [permits?.load_max_rps, limits.org_in_flight, limits.global_in_flight, inFlightMax(target)];
  return Math.max(1, Math.min(BURST_MAX, ...bounds.filter((n) => n !== undefined)));
};

/**
 * Mints until refused, then once more. `bandFrom`: the count gets `settleMs` after so many mints too, and the mint after
 * them shows whether a band follows, however late the count is. A known allowance is used up at a steady pace, with
 * `atOnce` until the rest fits into one wave of concurrent mints, which race for the last unit. An unknown one is used up
 * wave by wave. Then the count gets `settleMs`. If no mint is refused, minting goes on up to `LATE_TIMES` the allowance,
 * which tells late counting from none (A9).
 */
export const burn = async (
  context: Context,
  of: KeyRole,
  units: number | undefined,
  { atOnce = units === undefined, bandFrom }: { atOnce?: boolean; bandFrom?: number } = {},
) => {
  const found = {
    ...{ of, admitted: [] as Answer[], stop: null as Answer | null },
    /** Index in `admitted` of the first mint after the count had its time. */
    settledFrom: Number.POSITIVE_INFINITY,
    /** Mints that returned an earlier session again (A19): no new map load. */
    reused: 0,
    /** Answers that neither admit nor stop. */
    other: [] as Answer[],
    /** A mint was admitted after `bandFrom` others had been counted. */
    isInBand: false,
    /** Some mints of one wave were admitted and some refused: they raced for the last unit. */
    edgeMetAtOnce: false,
  };
  const enough = (units ?? UNKNOWN_MOST) + PAST;
  const tokens = new Set(
    context.answers
      .filter(({ testCall }) => testCall.route === "sdk.sessions" && roleOf(testCall) === of)
      .map(({ fields }) => fields.session_token),
  );
  const mintOne = async (more: Partial<TestCall> = {}): Promise<Answer> => {
    const answer = await context.send(mint(of, "tile", more));
    if (isSessionsOff(answer)) throw skipped("not-provided", inWords(answer));
    const token = answer.fields.session_token;
    if (isAdmitted(answer) && typeof token === "string" && tokens.has(token)) found.reused += 1;
    else if (isAdmitted(answer)) found.admitted.push(answer);
    else if (isStop(answer)) found.stop = answer;
    else found.other.push(answer);
    // Refused beside a neighbour that is served, in words that are not the API's: no mint will show the API's stop.
    const isHidden = answer.status === 429 && answer.foreign && !answer.transient;
    if (isHidden && found.admitted.length <= (units ?? Number.POSITIVE_INFINITY)) {
      const after = `each try of a mint after ${found.admitted.length} that were admitted`;
      throw inconclusive(
        "edge-answered",
        `${inWords(answer)} to ${after}: does an edge put this in place of the API's refusal?`,
      );
    }
    tokens.add(token);
    return answer;
  };
  // Two mints share a request id: a deployment that charges them once trusts the client's ids.
  const twins = { headers: { "x-request-id": `twins-${of}-${context.seed}` } };
  let width = Math.min(widthOf(context), enough);
  const hasEnded = (): boolean => found.stop !== null || found.admitted.length >= enough;
  const mintInTurn = async (count: number, isFirst: boolean): Promise<void> => {
    await context.each([...Array(Math.max(0, count)).keys()], async (k) => {
      if (!hasEnded()) await mintOne(isFirst && k < 2 ? twins : {});
    });
  };
  if (bandFrom !== undefined) {
    await mintInTurn(bandFrom, false);
    await wait(context.settleMs, context.signal);
    if (!hasEnded()) found.isInBand = isAdmitted(await mintOne()) && found.admitted.length > bandFrom;
  }
  if (units !== undefined && !atOnce) await mintInTurn(units, true);
  for (let i = 0; atOnce && i < WAVES_MAX && !hasEnded(); i++) {
    if (units === undefined && i > 0) await wait(WAVE_EVERY_MS, context.signal);
    if (units !== undefined) {
      // A cap that only sheds have shown lets fewer through at times: with one unit left, any two of a wave race for it.
      const left = i === 0 ? width - Math.min(PAST, Math.floor(width / 2)) : 1;
      await mintInTurn(units - found.admitted.length - left, false);
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
  // At least one mint follows the waves, because only the last refusal shows the final `used`.
  const most = enough * LATE_TIMES;
  const hasMore = (): boolean =>
    found.admitted.length < enough || (found.admitted.length < most && context.budget.left("map_loads") >= 1);
  for (let i = 0; i === 0 || (hasMore() && i <= most); i++) {
    const isUsedUp = found.stop !== null || found.admitted.length >= (units ?? Number.POSITIVE_INFINITY);
    if (isUsedUp && found.admitted.length > 0 && !Number.isFinite(found.settledFrom)) {
      await wait(context.settleMs, context.signal);
      found.settledFrom = found.admitted.length;
    }
    const answer = await mintOne();
    if (isStop(answer) || !isAdmitted(answer)) break;
  }
  return found;
};

const LOADS: readonly ("maps.tiles" | "maps.loads")[] = ["maps.tiles", "maps.loads"];

export const loadUnder = async (context: Context, of: KeyRole, token: unknown, times: number, routes = LOADS) => {
  const answers: Answer[] = [];
  if (typeof token !== "string") return answers;
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
