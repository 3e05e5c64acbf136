/** Makes the calls of one iteration, each at its moment. What an answer means is decided by whoever is given it. */
import type { SseParams, SseResponse } from "k6/x/sse";
import { codingOf, readAnswer } from "../../src/contract/envelopes.ts";
import { countedAs, emptyOutcome, outcomeOfStream } from "../../src/contract/refusals.ts";
import { routeOf } from "../../src/contract/routes.ts";
import { ERROR_EVENT, lastEventOf, type StreamEnding } from "../../src/contract/streams.ts";
import type { HandOver } from "../../src/workload/handover.ts";
import { needNoVu } from "../../src/workload/k6-executor.ts";
import {
  callId,
  credentialName,
  headersOf,
  mayHaveAnyBody,
  nobodysCredential,
  urlOf,
} from "../../src/workload/request.ts";
import { triesOf } from "../../src/workload/retry.ts";
import type { Step } from "../../src/workload/step.ts";
import type { Story } from "../../src/workload/story.ts";
import { begin, type CallMade, floodgate, type Outgoing, type RequestKind, send, type Turn } from "./extension.ts";

type Calling = {
  handed: HandOver;
  takeTurn(): Turn | null;
  /** Nothing is done with an answer but to print it, so that calls which nothing follows need not be waited for. */
  isPrinted?: boolean;
  /** Session tokens by `credentialName`, where they are not handed over. */
  sessionOf(name: string): string | undefined;
  /** Given the number of the call that the iteration plays. */
  onTurn?(i: number): void;
  /** Given each call when it is over. */
  onAnswer(made: CallMade, step: Step, answer: SseResponse): void;
  /** The budget did not let a call leave, or ended the load while it waited for its moment. */
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

/** Made once by each VU, so that the extension checks each once (`extension.ts`). */
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

/** One request, whoever it is for. */
export const sendStep = (step: Step, id: string, calling: Sending): SseResponse => send(outgoingOf(step, id, calling));

/** The outcome as a client sees it, which decides whether it tries again. */
export const outcomeOf = (answer: SseResponse, step: Pick<Step, "route" | "method">): string => {
  const { status, ended, opened, body, headers } = answer;
  if (status === 0) return "indeterminate";
  if (opened) return countedAs(outcomeOfStream(status, endingOf(answer)));
  // Half an answer is no answer: nobody can say what the other half was.
  if (ended !== "refused" && ended !== "eof") return "indeterminate";
  const isSuccess = status >= 200 && status < 300;
  const { outcome } = readAnswer(status, body, {
    coding: codingOf(headers["Content-Encoding"]),
    anyBody: mayHaveAnyBody(step),
  });
  return isOfStream(step) && isSuccess && outcome === `${status}` ? emptyOutcome(status) : outcome;
};

/** One that was not sent has no outcome, and is asked for none. */
export const endingOf = ({ ended, events, aborted }: SseResponse): StreamEnding =>
  ended === "not_sent" ? {} : { ended, events, aborted };

/** Whether the call asked for an event stream. */
export const isOfStream = ({ route }: Pick<Step, "route">): boolean =>
  route !== "-" && routeOf(route).stream !== undefined;

/** Why nothing may leave any more. */
const whyEnded = (): string => floodgate.spent().stopped?.reason ?? "the load was ended";

/** One arrival of the schedule, at its moment. */
export const performIteration = (story: Story, calling: Calling): void => {
  const { handed } = calling;
  const turn = calling.takeTurn();
  if (turn === null) {
    calling.onUnsent(whyEnded());
    return;
  }
  const { i } = turn;
  calling.onTurn?.(i);
  // Worked out beforehand, so that the call leaves at once when its moment comes.
  const steps = story.plan(handed.seed, i, handed.view);
  const only = steps[0];
  if (calling.isPrinted && only !== undefined && needNoVu(steps)) {
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
    // A later step is due as soon as the one before has ended: nothing to wait for.
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
    // A call that the budget held back was not due before it might leave.
    calling.onAnswer({ i, step: at, attempt, intendedUs: dueUs + answer.held_us }, step, answer);
    // Nothing follows, whatever the answer says: reading it would cost more than the rest.
    if (step.retry === undefined && at === steps.length - 1) return;
    dueUs = answer.done_us as number;
    next = nextTry({
      outcome: outcomeOf(answer, step),
      retryAfter: answer.headers["Retry-After"],
      nowMs: Date.now(),
    });
  }
};
