/** One attempt at a call: passes the gates, is sent, named and recorded. Retries are in `sender.ts`. */
import type { Dispatcher } from "undici";
import { sendRequest } from "../../client/send-request.ts";
import { routeOf } from "../../contract/routes.ts";
import { lastEventOf } from "../../contract/streams.ts";
import type { CallLine } from "../../history/line.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { Timeouts } from "../../workload/timeouts.ts";
import { type Answer, answerOfCall } from "./answer.ts";
import { type Chunk, decoding, tapped } from "./body-taps.ts";
import { createGates, type GateParts } from "./gates.ts";
import { buildRequest, stepOfTestCall, type TestCall } from "./test-call.ts";

const VERIFY_TIMEOUTS: Timeouts = { callMs: 45_000, firstEventMs: 15_000, idleMs: 15_000 };

/** Bounds memory: every answer is kept for the rules over all of them. */
const ANSWER_MOST_BYTES = 2 << 20;
const ANSWERS_MOST_BYTES = 128 << 20;
const LATER_ANSWER_MOST_BYTES = 16 << 10;

export type AttemptParts = GateParts & {
  view: TargetView;
  dispatcher: Dispatcher;
  sharedHeaders: Readonly<Record<string, string>>;
  stage: string;
  idPrefix: string;
  originOf(call: TestCall): string | undefined;
  onLine(line: CallLine): void;
  onAnswer?(answer: Answer): void;
};

/** Puts the run's prefix before a call's own id, by which the platform counts. */
const withRunId = (call: TestCall, idPrefix: string): TestCall => {
  const id = call.headers?.["x-request-id"];
  return id === undefined ? call : { ...call, headers: { ...call.headers, "x-request-id": `${idPrefix}-${id}` } };
};

/** Reads a stream to its end, for a while, or to its first event. */
const readingOf = ({ route, leaveAfterMs, wholeStream }: TestCall, { stream_end }: AttemptParts["target"]): object => {
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

export const createAttempts = (parts: AttemptParts) => {
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
    const running = sendRequest(
      testCall.wholeStream === true ? tapped(dispatcher, clock, chunks, mostBytes) : dispatcher,
      { ...request, mostBytes, decoded: true, ...readingOf(testCall, target) },
      clock,
      VERIFY_TIMEOUTS,
    );
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
