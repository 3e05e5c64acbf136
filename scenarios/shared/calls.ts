/** Makes the calls of one iteration, each when it is due, and passes the answers to callbacks. */
import type { SseParams, SseResponse } from "k6/x/sse";
import { codingOf, countedAs, emptyOutcome, outcomeOfStream, readAnswer } from "../../src/contract/refusals.ts";
import { isStreamed, routeOf } from "../../src/contract/routes.ts";
import { ERROR_EVENT, lastEventOf, type StreamEnding } from "../../src/contract/streams.ts";
import { type HandOver, needNoVu } from "../../src/workload/handover.ts";
import { triesOf } from "../../src/workload/retry.ts";
import {
  callId,
  credentialName,
  headersOf,
  mayHaveAnyBody,
  nobodysCredential,
  type Step,
  urlOf,
} from "../../src/workload/step.ts";
import type { Story } from "../../src/workload/story.ts";
import { begin, type CallMade, floodgate, type Outgoing, type RequestKind, send, type Turn } from "./extension.ts";

type Calling = {
  handed: HandOver;
  takeTurn(): Turn | null;
  /** Answers are only printed, so a call that nothing follows is made async. */
  isPrinted?: boolean;
  /** The session token of a `credentialName`; `undefined`: taken from `handed.credentials`. */
  sessionOf(name: string): string | undefined;
  /** Called with the number of the call that the iteration plays. */
  onTurn?(i: number): void;
  /** Called with the number of an iteration for which the story plans no call. */
  onNothing?(i: number): void;
  /** Called with each call and its answer. */
  onAnswer(made: CallMade, step: Step, answer: SseResponse): void;
  /** Called when the budget forbids a call, or the load ends before the call is due. */
  onUnsent(reason: string): void;
};

const credentialOf = (step: Step, { handed, sessionOf }: Pick<Calling, "handed" | "sessionOf">): string | null => {
  const nobodys = nobodysCredential(step);
  if (nobodys !== undefined) return nobodys;
  const name = credentialName(step.credential);
  const found = (step.credential.as === "session" ? sessionOf(name) : undefined) ?? handed.credentials[name];
  if (found === undefined) throw new Error(`no credential was handed over for ${name}`);
  return found;
};

type Sending = Pick<Calling, "handed" | "sessionOf">;

/** Each VU's request kinds, kept so that the extension checks each only once (`extension.ts`). */
const kinds = new Map<string, RequestKind>();

const kindOf = (step: Step, handed: HandOver): RequestKind => {
  const { route, method, meter, abort, slowReadMs } = step;
  const isUsual = abort === undefined && slowReadMs === undefined;
  const key = `${method} ${route} ${meter}`;
  const known = isUsual ? kinds.get(key) : undefined;
  if (known !== undefined) return known;
  if (abort !== undefined && !("afterEvents" in abort)) {
    throw new Error("k6 can leave a stream after events, not after a time");
  }
  const { callMs, idleMs, firstEventMs } = handed.timeouts;
  const params: SseParams = {
    method,
    timeout: callMs,
    idleTimeout: idleMs,
    tags: { name: route },
    gapSamples: handed.gapSamples !== false,
  };
  const stream = route === "-" ? undefined : routeOf(route).stream;
  if (stream !== undefined) {
    const { name, isStated } = lastEventOf(stream, handed.streamEnd);
    params.firstEventTimeout = firstEventMs;
    params.terminal = { done: name, error: ERROR_EVENT, required: isStated };
  }
  if (meter !== undefined) params.charges = meter === "design_analyses" ? "analyses" : meter;
  if (abort !== undefined) params.closeAfterEvents = abort.afterEvents;
  const kind: RequestKind = { params, slowReadMs };
  if (isUsual) kinds.set(key, kind);
  return kind;
};

const outgoingOf = (step: Step, id: string, calling: Sending): Outgoing => {
  const { handed } = calling;
  const listedOrigin = "of" in step.credential ? handed.origins[step.credential.of] : undefined;
  const credential = credentialOf(step, calling);
  const headers = headersOf(step, { id, credential, listedOrigin, shared: handed.headers });
  if (headers === null) throw new Error(`no origin was handed over for the caller of ${step.route}`);
  return { kind: kindOf(step, handed), url: urlOf(handed.places, step), headers, body: step.body };
};

/** Sends a step with its credential and waits for the answer. */
export const sendStep = (step: Step, id: string, calling: Sending): SseResponse => send(outgoingOf(step, id, calling));

/** The outcome of an answer as a client sees it, which decides whether the client tries again. */
export const outcomeOf = (answer: SseResponse, step: Pick<Step, "route" | "method">): string => {
  const { status, ended, opened, body, headers } = answer;
  if (status === 0) return "indeterminate";
  if (opened) return countedAs(outcomeOfStream(status, endingOf(answer)));
  // A partial answer is indeterminate, because its rest is unknown.
  if (ended !== "refused" && ended !== "eof") return "indeterminate";
  const isSuccess = status >= 200 && status < 300;
  const { outcome } = readAnswer(status, body, {
    coding: codingOf(headers["Content-Encoding"]),
    anyBody: mayHaveAnyBody(step),
  });
  return isStreamed(step) && isSuccess && outcome === `${status}` ? emptyOutcome(status) : outcome;
};

/** How the stream of an answer ended; empty for a call that was not sent. */
export const endingOf = ({ ended, events, aborted }: SseResponse): StreamEnding =>
  ended === "not_sent" ? {} : { ended, events, aborted };

/** Says why no more calls may be sent. */
const whyEnded = (): string => floodgate.spent().stopped?.reason ?? "the load was ended";

/** Waits for one arrival of the schedule and plays it when it is due. */
export const performIteration = (story: Story, calling: Calling): void => {
  const { handed } = calling;
  const turn = calling.takeTurn();
  if (turn === null) {
    calling.onUnsent(whyEnded());
    return;
  }
  const { i } = turn;
  calling.onTurn?.(i);
  // Planned before the call is due, so that it then leaves without delay.
  const steps = story.plan(handed.seed, i, handed.view);
  const only = steps[0];
  if (only === undefined) {
    calling.onNothing?.(i);
    return;
  }
  if (calling.isPrinted && needNoVu(steps)) {
    const outgoing = outgoingOf(only, callId(handed.idPrefix, i, 0, 0), calling);
    const made = { i, step: 0, attempt: 0, intendedUs: turn.dueUs };
    if (!begin(outgoing, made)) calling.onUnsent(whyEnded());
    return;
  }
  const nextTry = triesOf(steps, handed.seed, i);
  let next = nextTry();
  let { dueUs } = turn;
  while (next !== null) {
    const { step, at, attempt, waitMs } = next;
    if (waitMs !== null) dueUs += Math.round(waitMs * 1000);
    // A later step is due when the step before it ends, so there is no wait.
    const followsAtOnce = at > 0 && waitMs === null;
    if (!followsAtOnce && !floodgate.waitUntil(dueUs)) {
      calling.onUnsent(whyEnded());
      return;
    }
    const answer = sendStep(step, callId(handed.idPrefix, i, at, attempt), calling);
    if (answer.ended === "not_sent") {
      calling.onUnsent(answer.error);
      return;
    }
    // A call that the budget held back is due when the budget lets it leave.
    calling.onAnswer({ i, step: at, attempt, intendedUs: dueUs + answer.held_us }, step, answer);
    // Nothing follows, so no retry needs the outcome, and reading it would cost more than the rest.
    if (step.retry === undefined && at === steps.length - 1) return;
    dueUs = answer.done_us as number;
    next = nextTry({
      outcome: outcomeOf(answer, step),
      retryAfter: answer.headers["Retry-After"],
      nowMs: Date.now(),
    });
  }
};
