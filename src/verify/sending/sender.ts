/**
 * The one function through which `verify` sends. A deployment may be busy with others' traffic, so an answer of overload,
 * rate or nothing at all is tried again after what `Retry-After` says. If it stays, and a neighbouring call passes meanwhile,
 * the answer belongs to this call and is judged; otherwise it says nothing. One attempt alone stands in `attempt.ts`.
 */
import { statedWaitMs } from "../../contract/retry-after.ts";
import { type Answer, isAdmitted } from "./answer.ts";
import { type AttemptParts, createAttempts } from "./attempt.ts";
import { createOutages } from "./outages.ts";
import type { TestCall } from "./test-call.ts";
import { wait } from "./throttle.ts";

const ATTEMPTS = 4;
const WAIT_MAX_MS = 5_000;
const WAIT_FIRST_MS = 300;
const CONFIRMATIONS = 2;
/** So many outages one after the other are waited for, for one call. */
const OUTAGES = 2;

type SenderParts = AttemptParts & {
  /** All that a run waits for others' overload; beyond it, what cannot be judged stays so. */
  patienceMs: number;
  /** A call that is surely admitted and meets the same limits; `null` where there is none. */
  neighbourOf(testCall: TestCall): TestCall | null;
};

export type Sender = {
  send(testCall: TestCall): Promise<Answer>;
  /** Everything that came, in order: for rules about every answer. */
  readonly answers: readonly Answer[];
};

export const createSender = (parts: SenderParts): Sender => {
  const { throttle, signal } = parts;
  let { patienceMs } = parts;
  const { attempt, answers } = createAttempts(parts, (testCall) => outages.seenUp(testCall));

  /** Waits for a call to be admitted again; takes of the patience that all have in common. */
  const outages = createOutages({
    isUp: async (neighbour) => isAdmitted(await attempt(neighbour, true)),
    rest: async (ms) => {
      if (patienceMs < ms) return false;
      patienceMs -= ms;
      await wait(ms, signal);
      return true;
    },
  });

  const waitFor = async (answer: Answer, k: number): Promise<boolean> => {
    const stated = answer.headers["retry-after"];
    const askedMs = stated === undefined ? undefined : statedWaitMs(stated, Date.now());
    const waitMs = Math.min(Math.max(askedMs ?? 0, WAIT_FIRST_MS * 2 ** k), WAIT_MAX_MS);
    if (patienceMs < waitMs) return false;
    patienceMs -= waitMs;
    // What says that there were too many is obeyed by everybody; the rest concerns this call.
    if (answer.status === 429) {
      throttle.slower(answer.subcode === "rate_limited" ? "rate" : "overload");
      throttle.pause(waitMs);
    }
    await wait(waitMs, signal);
    return true;
  };

  /** Whether only this call is refused so, while its neighbour is admitted. `away`: the neighbour meets the same. */
  const isItsOwn = async (testCall: TestCall, neighbour: TestCall): Promise<Answer | "away" | null> => {
    let last: Answer | null = null;
    for (let round = 0; round < CONFIRMATIONS; round++) {
      const beside = await attempt(neighbour);
      if (beside.transient) return "away";
      if (!isAdmitted(beside)) return null;
      last = await attempt(testCall);
      if (!last.transient) return last;
    }
    return last === null ? null : { ...last, transient: false };
  };

  /** Whose answers of which name were found to be their own: nothing is waited for a second time. */
  const ownBefore = new Set<string>();

  const send = async (testCall: TestCall): Promise<Answer> => {
    let answer = await attempt(testCall);
    if (!answer.transient) throttle.faster();
    if (!answer.transient || testCall.once === true) return answer;
    const kind = `${answer.outcome} ${testCall.secret?.variable ?? JSON.stringify(testCall.credential)}`;
    const slow = /timeout/.test(answer.received.error ?? "");
    for (let k = 0; k < (slow ? 1 : ATTEMPTS - 1) && !ownBefore.has(kind); k++) {
      if (!(await waitFor(answer, k))) return answer;
      answer = await attempt(testCall);
      if (!answer.transient) return answer;
    }
    const neighbour = parts.neighbourOf(testCall);
    for (let outage = 0; neighbour !== null && outage < OUTAGES; outage++) {
      const own = await isItsOwn(testCall, neighbour);
      if (own !== "away") {
        if (own !== null && own.outcome === answer.outcome) ownBefore.add(kind);
        return own ?? answer;
      }
      if (!(await outages.end(neighbour))) return answer;
      answer = await attempt(testCall);
      if (!answer.transient) return answer;
    }
    return answer;
  };

  return { send, answers };
};
