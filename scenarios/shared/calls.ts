/** Makes the calls of one iteration, each at its moment. What an answer means is decided by whoever is given it. */
import { codingOf, readAnswer } from "../../src/contract/envelopes.ts";
import { countedAs, emptyOutcome, outcomeOfStream } from "../../src/contract/refusals.ts";
import { routeOf } from "../../src/contract/routes.ts";
import { lastEventOf, type StreamEnding } from "../../src/contract/streams.ts";
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
import type { Answer, CallMade, Outgoing, RequestKind } from "./answer.ts";
import { spentSoFar } from "./budget.ts";
import { beginByExtension, hasAdditions, sendByExtension } from "./extension.ts";
import { sendByStock } from "./stock.ts";
import { type Turns, waitUntil } from "./turns.ts";

type Calling = {
  handed: HandOver;
  turns: Turns;
  /** Nothing is done with an answer but to print it, so that calls which nothing follows need not be waited for. */
  isPrinted?: boolean;
  /** Session tokens by `credentialName`, where they are not handed over. */
  sessionOf(name: string): string | undefined;
  /** Given the number of the call that the iteration plays. */
  onTurn?(i: number): void;
  /** Given each call when it is over. */
  onAnswer(made: CallMade, step: Step, answer: Answer): void;
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

const kindOf = ({ route, method, meter, abort, slowReadMs }: Step, handed: HandOver): RequestKind => {
  const isUsual = abort === undefined && slowReadMs === undefined;
  const key = `${method} ${route} ${meter}`;
  const known = isUsual ? kinds.get(key) : undefined;
  if (known !== undefined) return known;
  if (abort !== undefined && !("afterEvents" in abort)) {
    throw new Error("k6 can leave a stream after events, not after a time");
  }
  const stream = route === "-" ? undefined : routeOf(route).stream;
  const kind: RequestKind = {
    method,
    name: route,
    stream: stream === undefined ? undefined : lastEventOf(stream, handed.streamEnd),
    charges: meter === "design_analyses" ? "analyses" : meter,
    timeouts: handed.timeouts,
    abortAfterEvents: abort?.afterEvents,
    slowReadMs,
    gapSamples: handed.gapSamples !== false,
  };
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
export const sendStep = (step: Step, id: string, calling: Sending): Answer => {
  const outgoing = outgoingOf(step, id, calling);
  // Our own k6 made the bundle, so the other half is left out of it.
  return __ENV.FLOODGATE_BUNDLE || hasAdditions ? sendByExtension(outgoing) : sendByStock(outgoing);
};

/** The outcome as a client sees it, which decides whether it tries again. */
export const outcomeOf = (answer: Answer, step: Pick<Step, "route" | "method">): string => {
  const { status, ended, opened, body, isUnread, coding } = answer;
  if (status === 0) return "indeterminate";
  if (opened) return countedAs(outcomeOfStream(status, endingOf(answer)));
  // Half an answer is no answer: nobody can say what the other half was.
  if (ended !== "refused" && ended !== "eof") return "indeterminate";
  const isSuccess = status >= 200 && status < 300;
  if (isUnread && !isSuccess && status !== 401 && status !== 503) return `${status} unread`;
  const { outcome } = readAnswer(status, body, { coding: codingOf(coding), anyBody: mayHaveAnyBody(step) });
  return isOfStream(step) && isSuccess && outcome === `${status}` ? emptyOutcome(status) : outcome;
};

/** One that was not sent has no outcome, and is asked for none. */
export const endingOf = ({ ended, events, aborted }: Answer): StreamEnding =>
  ended === "not_sent" ? {} : { ended, events, aborted };

/** Whether the call asked for an event stream. */
export const isOfStream = ({ route }: Pick<Step, "route">): boolean =>
  route !== "-" && routeOf(route).stream !== undefined;

/** Why nothing may leave any more. */
const whyEnded = (): string => spentSoFar()?.stopped?.reason ?? "the load was ended";

/** One arrival of the schedule, at its moment. */
export const performIteration = (story: Story, calling: Calling): void => {
  const { handed } = calling;
  const turn = calling.turns.take();
  if (turn === null) {
    calling.onUnsent(whyEnded());
    return;
  }
  const i = handed.firstCall + turn.n;
  calling.onTurn?.(i);
  // Worked out beforehand, so that the call leaves at once when its moment comes.
  const steps = story.plan(handed.seed, i, handed.view);
  const only = steps[0];
  if (calling.isPrinted && only !== undefined && needNoVu(steps)) {
    const outgoing = outgoingOf(only, callId(handed.idPrefix, i, 0, 0), calling);
    const made = { i, step: 0, attempt: 0, intendedUs: turn.dueUs };
    if (!beginByExtension(outgoing, made)) calling.onUnsent(whyEnded());
    return;
  }
  const tries = triesOf(steps, handed.seed, i);
  let next = tries.next();
  let { dueUs } = turn;
  while (!next.done) {
    const { step, at, attempt, waitMs } = next.value;
    if (waitMs !== null) dueUs += Math.round(waitMs * 1000);
    // A later step is due as soon as the one before has ended: nothing to wait for.
    const followsAtOnce = at > 0 && waitMs === null;
    if (!followsAtOnce && !waitUntil(dueUs)) {
      calling.onUnsent(whyEnded());
      return;
    }
    const answer = sendStep(step, callId(handed.idPrefix, i, at, attempt), calling);
    if (answer.ended === "not_sent") {
      calling.onUnsent(answer.error);
      return;
    }
    // A call that the budget held back was not due before it might leave.
    calling.onAnswer({ i, step: at, attempt, intendedUs: dueUs + answer.heldUs }, step, answer);
    // Nothing follows, whatever the answer says: reading it would cost more than the rest.
    if (step.retry === undefined && at === steps.length - 1) return;
    dueUs = answer.doneUs;
    next = tries.next({ outcome: outcomeOf(answer, step), retryAfter: answer.retryAfter, nowMs: Date.now() });
  }
};
