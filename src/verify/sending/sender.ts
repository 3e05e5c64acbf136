/**
 * The one way in which `verify` sends. Retries transient answers after `Retry-After`, because other callers may load the
 * deployment. If a call stays refused while a neighbouring call is served, the refusal is the call's own and is judged.
 */

import type { Dispatcher } from "undici";
import { sendRequest } from "../../client/send-request.ts";
import { routeOf } from "../../contract/routes.ts";
import { lastEventOf } from "../../contract/streams.ts";
import type { CallLine } from "../../history/line.ts";
import type { Target } from "../../target/target.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { Timeouts } from "../../workload/timeouts.ts";
import { type Answer, answerOfCall, isAdmitted, retryAfterMs } from "./answer.ts";
import { type Chunk, decoding, tapped } from "./body-taps.ts";
import { createGates, type GateParts } from "./gates.ts";
import { buildRequest, stepOfTestCall, type TestCall } from "./test-call.ts";
import { wait } from "./throttle.ts";

const VERIFY_TIMEOUTS: Timeouts = { callMs: 45_000, firstEventMs: 15_000, idleMs: 15_000 };

/** Bounds memory: every answer is kept for the rules over all of them. */
const ANSWER_MOST_BYTES = 2 << 20;
const ANSWERS_MOST_BYTES = 128 << 20;
const LATER_ANSWER_MOST_BYTES = 16 << 10;

export type SenderParts = GateParts & {
  view: TargetView;
  dispatcher: Dispatcher;
  sharedHeaders: Readonly<Record<string, string>>;
  stage: string;
  idPrefix: string;
  originOf(call: TestCall): string | undefined;
  /** A call that is certainly admitted and subject to the same limits. */
  neighbourOf(call: TestCall): TestCall | null;
  /** Total time of a run to wait for overload; afterwards such answers stay unjudged. */
  patienceMs: number;
  onLine(line: CallLine): void;
  onAnswer?(answer: Answer): void;
};

const withRunId = (call: TestCall, idPrefix: string): TestCall => {
  const id = call.headers?.["x-request-id"];
  return id === undefined ? call : { ...call, headers: { ...call.headers, "x-request-id": `${idPrefix}-${id}` } };
};

const readingOf = ({ route, leaveAfterMs, wholeStream }: TestCall, { stream_end }: Target): object => {
  const kind = route === "-" ? undefined : routeOf(route).stream;
  if (kind === undefined) return {};
  const stream = { stream: lastEventOf(kind, stream_end), keepEvents: true };
  if (leaveAfterMs !== undefined) return { ...stream, abort: { afterMs: leaveAfterMs } };
  return wholeStream === true ? stream : { ...stream, abort: { afterEvents: 1 } };
};

/** Rejects on a stop, because a stream may take long. */
const unlessStopped = <T>(running: Promise<T>, signal: AbortSignal | undefined): Promise<T> => {
  if (signal === undefined) return running;
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", stop, { once: true });
    void running.then((value) => {
      signal.removeEventListener("abort", stop);
      resolve(value);
    });
  });
};

const createAttempts = (parts: SenderParts) => {
  const { target, clock, signal, idPrefix, stage } = parts;
  const dispatcher = decoding(parts.dispatcher);
  const gates = createGates(parts, (call) => attempt(call, true));
  const answers: Answer[] = [];
  let heldBytes = 0;
  let sent = 0;

  /** `looking`: sent even if the target seems away, to see whether it is back. */
  const attempt = async (testCall: TestCall, looking = false): Promise<Answer> => {
    const { secret, taken, giveBack } = await gates.enter(testCall, looking);
    const n = sent++;
    const id = `${idPrefix}-${n}`;
    const step = stepOfTestCall(parts.view, n, testCall);
    const credentials = { secret, origin: parts.originOf(testCall), shared: parts.sharedHeaders };
    const { request, shown } = buildRequest(target, withRunId(testCall, idPrefix), { step, id, ...credentials });
    const chunks: Chunk[] = [];
    const mostBytes = heldBytes > ANSWERS_MOST_BYTES ? LATER_ANSWER_MOST_BYTES : ANSWER_MOST_BYTES;
    testCall.beforeSent?.();
    const through = testCall.wholeStream === true ? tapped(dispatcher, clock, chunks, mostBytes) : dispatcher;
    const asked = { ...request, mostBytes, decoded: true as const, ...readingOf(testCall, target) };
    const running = sendRequest(through, asked, clock, VERIFY_TIMEOUTS);
    void running.then(giveBack);
    const isWaitedFor = testCall.anyway === true || testCall.toTheEnd === true;
    const received = await (isWaitedFor ? running : unlessStopped(running, signal));
    const context = { id, stage, driver: "verify" as const, intendedUs: received.sentUs };
    const answer = answerOfCall({ testCall, step, request: shown, received, chunks, context, errorUs: clock.errorUs });
    taken?.settle(clock.nowUs(), { ...received, outcome: answer.outcome, ending: answer.line });
    gates.record(answer);
    heldBytes += answer.text.length + chunks.reduce((sum, { text }) => sum + text.length, 0);
    answers.push(answer);
    parts.onLine(answer.line);
    parts.onAnswer?.(answer);
    return answer;
  };

  return { attempt, answers };
};

const ATTEMPTS = 4;
const WAIT_MAX_MS = 5_000;
const WAIT_FIRST_MS = 300;
const CONFIRMATIONS = 2;
const OUTAGES = 2;
const OUTAGE_MAX_MS = 15_000;
const LOOK_EVERY_MS = 1_000;

const nameOf = ({ route, credential }: TestCall): string => `${route} ${JSON.stringify(credential)}`;

type OutageParts = {
  isUp(call: TestCall): Promise<boolean>;
  rest(ms: number): Promise<boolean>;
};

/** Waits for the end of a short outage (items 213, 216): once a second one call, shared by all waiting calls, that was admitted before. */
export const createOutages = ({ isUp, rest }: OutageParts) => {
  const up = new Set<string>();
  const running = new Map<string, Promise<boolean>>();
  const look = async (call: TestCall): Promise<boolean> => {
    const endMs = performance.now() + OUTAGE_MAX_MS;
    while (performance.now() < endMs && (await rest(LOOK_EVERY_MS))) if (await isUp(call)) return true;
    up.delete(nameOf(call));
    return false;
  };
  return {
    seenUp: (call: TestCall): void => void up.add(nameOf(call)),
    end: (call: TestCall): Promise<boolean> => {
      const name = nameOf(call);
      if (!up.has(name)) return Promise.resolve(false);
      const found = running.get(name) ?? look(call).finally(() => running.delete(name));
      running.set(name, found);
      return found;
    },
  };
};

export const createSender = (parts: SenderParts) => {
  const { throttle, signal } = parts;
  let { patienceMs } = parts;
  const { attempt, answers } = createAttempts(parts);

  const tryOnce = async (call: TestCall, looking = false): Promise<Answer> => {
    const answer = await attempt(call, looking);
    if (isAdmitted(answer)) outages.seenUp(call);
    return answer;
  };

  const rest = async (ms: number): Promise<boolean> => {
    if (patienceMs < ms) return false;
    patienceMs -= ms;
    await wait(ms, signal);
    return true;
  };
  const outages = createOutages({ isUp: async (call) => isAdmitted(await tryOnce(call, true)), rest });

  const waitFor = (answer: Answer, k: number): Promise<boolean> => {
    const waitMs = Math.min(Math.max(retryAfterMs(answer) ?? 0, WAIT_FIRST_MS * 2 ** k), WAIT_MAX_MS);
    // A 429 slows every call; other waits concern this call alone.
    if (answer.status === 429 && patienceMs >= waitMs) {
      throttle.slower(answer.subcode === "rate_limited" ? "rate" : "overload");
      throttle.pause(waitMs);
    }
    return rest(waitMs);
  };

  /** The answer if this call is refused while its neighbour is served; `null` if not. `away`: the neighbour is refused as well. */
  const isItsOwn = async (call: TestCall, neighbour: TestCall): Promise<Answer | "away" | null> => {
    let last: Answer | null = null;
    for (let round = 0; round < CONFIRMATIONS; round++) {
      const beside = await tryOnce(neighbour);
      if (beside.transient) return "away";
      if (!isAdmitted(beside)) return null;
      last = await tryOnce(call);
      if (!last.transient) return last;
    }
    return last === null ? null : { ...last, transient: false };
  };

  const ownBefore = new Set<string>();

  const send = async (call: TestCall): Promise<Answer> => {
    let answer = await tryOnce(call);
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
      const own = await isItsOwn(call, neighbour);
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

  return { send, answers: answers as readonly Answer[] };
};
