/**
 * The one way in which `verify` sends. It retries transient answers after `Retry-After`, because other callers may load
 * the deployment. If a call stays refused while a neighbouring call is served, the refusal is its own and judged.
 */
import { add, byFrequency, known } from "../../history/statistics/statistics.ts";
import { type Answer, isAdmitted, isStray, lookOf, retryAfterMs } from "./answer.ts";
import { type AttemptParts, createAttempts } from "./attempts.ts";
import type { TestCall } from "./test-call.ts";
import { lookEverySecond, wait } from "./throttle.ts";

export type SenderParts = AttemptParts & {
  /** A call that is certainly admitted and subject to the same limits. */
  neighbourOf(call: TestCall): TestCall | null;
  /** Total time that a run waits for overload to end; later overload answers stay unjudged. */
  patienceMs: number;
  /** Reports whether an answer looks like one that another server gave earlier in the API's place. */
  isStrange(answer: Answer): boolean;
};

const ATTEMPTS = 4;
const WAIT_MAX_MS = 5_000;
const WAIT_FIRST_MS = 300;
const STRAY_WAIT_FIRST_MS = 100;
/** Once so many calls have met the same stray in every try, each later call has only `LASTING_TRIES` tries. */
const LASTING = 5;
const LASTING_TRIES = 2;
const CONFIRMATIONS = 3;
const OUTAGES = 2;
const OUTAGE_MAX_MS = 15_000;

const nameOf = ({ route, credential }: TestCall): string => `${route} ${JSON.stringify(credential)}`;

/** Waits for an outage to end (items 213, 216): sends once a second, for all waiters, a call admitted before it. */
export const createOutages = (isUp: (call: TestCall) => Promise<boolean>, rest: (ms: number) => Promise<boolean>) => {
  const up = new Set<string>();
  const running = new Map<string, Promise<boolean>>();
  return {
    seenUp: (call: TestCall): void => void up.add(nameOf(call)),
    end: async (call: TestCall): Promise<boolean> => {
      const name = nameOf(call);
      if (!up.has(name)) return false;
      const look = () => lookEverySecond(() => isUp(call), OUTAGE_MAX_MS, rest).finally(() => running.delete(name));
      const isBack = await known(running, name, look);
      if (!isBack) up.delete(name);
      return isBack;
    },
  };
};

/** Follows which strays came to every try of call after call: an edge that always answers so is not worth all tries. */
export const createLastingStrays = () => {
  const callsInRow = new Map<string, number>();
  return {
    tries: (look: string): number => ((callsInRow.get(look) ?? 0) < LASTING ? ATTEMPTS : LASTING_TRIES),
    stayed: (look: string): void => add(callsInRow, look, 1),
    cleared: (look: string): void => void callsInRow.delete(look),
  };
};

type Tried = Pick<Answer, "outcome" | "transient">;

/**
 * A call's own answer while its neighbour is served, else `null`. `away`: the neighbour is refused as well. The neighbour
 * is sent once more in each round, because a balancer that takes its backends in turn would otherwise give every call to
 * a dead one and every neighbour to a good one.
 */
export const answerBeside = async <A extends Tried>(tryCall: () => Promise<A>, tryNeighbour: () => Promise<Tried>) => {
  let last: A | null = null;
  for (let round = 1; round <= CONFIRMATIONS; round++) {
    for (let i = 0; i < round; i++) {
      const beside = await tryNeighbour();
      if (beside.transient) return "away";
      if (!isAdmitted(beside)) return null;
    }
    last = await tryCall();
    if (!last.transient) return last;
  }
  return last === null ? null : { ...last, transient: false };
};

export const createSender = (parts: SenderParts) => {
  const { throttle, signal, clock } = parts;
  let { patienceMs } = parts;
  const { attempt, answers, lose } = createAttempts(parts);

  const tryOnce = async (call: TestCall, looking = false): Promise<Answer> => {
    const answer = await attempt(call, looking);
    if (isAdmitted(answer)) outages.seenUp(call);
    return answer;
  };

  const rest = async (ms: number): Promise<boolean> => {
    if (patienceMs < ms) return false;
    patienceMs -= ms;
    return wait(ms, signal);
  };
  const outages = createOutages(async (call) => isAdmitted(await tryOnce(call, true)), rest);

  const waitFor = (answer: Answer, k: number): Promise<boolean> => {
    const waitMs = Math.min(Math.max(retryAfterMs(answer) ?? 0, WAIT_FIRST_MS * 2 ** k), WAIT_MAX_MS);
    // A 429 slows every call; other waits concern this call alone.
    if (answer.status === 429 && patienceMs >= waitMs) {
      throttle.slower(answer.subcode === "rate_limited" ? "rate" : "overload");
      throttle.pause(waitMs);
    }
    return rest(waitMs);
  };

  const isToRepeat = (answer: Answer): boolean =>
    isStray(answer) || (answer.transient && answer.status === 401) || parts.isStrange(answer);

  const lasting = createLastingStrays();

  /** The first answer that is no stray, or else the one that came most often. */
  const trySeveralTimes = async (call: TestCall): Promise<Answer> => {
    const strays: Answer[] = [];
    for (let tries = 1; tries > strays.length; ) {
      if (strays.length > 0) await wait(STRAY_WAIT_FIRST_MS * 2 ** (strays.length - 1), signal);
      const answer = await tryOnce(call);
      if (call.once === true || !isToRepeat(answer)) {
        if (!answer.transient) for (const stray of strays) lasting.cleared(lookOf(stray));
        return answer;
      }
      strays.push(answer);
      tries = lasting.tries(lookOf(answer));
    }
    const looks = new Set(strays.map(lookOf));
    if (looks.size === 1) for (const look of looks) lasting.stayed(look);
    const [[, most = []] = []] = byFrequency(strays, ({ outcome }) => outcome);
    return most.at(-1) as Answer;
  };

  const ownBefore = new Set<string>();

  const sendUntilClear = async (call: TestCall): Promise<Answer> => {
    let answer = await trySeveralTimes(call);
    if (!answer.transient) throttle.faster();
    if (!answer.transient || call.once === true) return answer;
    const kind = `${answer.outcome} ${call.secret?.variable ?? JSON.stringify(call.credential)}`;
    const isSlow = /timeout/.test(answer.received.error ?? "");
    for (let k = 0; k < (isSlow ? 1 : ATTEMPTS - 1) && !ownBefore.has(kind); k++) {
      if (!(await waitFor(answer, k))) return answer;
      answer = await tryOnce(call);
      if (!answer.transient) return answer;
    }
    const neighbour = parts.neighbourOf(call);
    for (let outage = 0; neighbour !== null && outage < OUTAGES; outage++) {
      const own = await answerBeside(
        () => tryOnce(call),
        () => tryOnce(neighbour),
      );
      if (own !== "away") {
        if (own !== null && own.outcome === answer.outcome) ownBefore.add(kind);
        return own ?? answer;
      }
      if (!(await outages.end(neighbour))) return answer;
      answer = await tryOnce(call);
      if (!answer.transient) return answer;
    }
    return answer;
  };

  /** What ends without a clear answer counts as lost time, whatever it waited for; so a run ends in bounded time. */
  const send = async (call: TestCall): Promise<Answer> => {
    const fromUs = clock.nowUs();
    const answer = await sendUntilClear(call);
    if (call.once !== true && (answer.transient || isToRepeat(answer))) lose(answer.outcome, fromUs, clock.nowUs());
    return answer;
  };

  return { send, answers };
};
