/**
 * Sends through our own extension, which times everything in microseconds, names the end of every stream, gives the body of
 * a refusal and asks the budget before a call leaves. Other calls than streams go through it as well.
 */
import { sleep } from "k6";
import type { SseKind, SseParams, SseResponse } from "k6/x/sse";
import sse from "k6/x/sse";
import { ERROR_EVENT } from "../../src/contract/streams.ts";
import type { Answer, CallMade, Outgoing, RequestKind } from "./answer.ts";

/** Whether this k6 has our extension, or the community's of the same name. */
export const hasAdditions = typeof (sse as { begin?: unknown }).begin === "function";

// An older build of ours takes other arguments.
if (hasAdditions && typeof (sse as { budget?: unknown }).budget !== "function") {
  throw new Error("this k6 has an older k6/x/sse: build it again by npx floodgate dev tools");
}

/** Works out what is asked for: most of it nobody asks for, and a call is to cost little. */
class AnswerOfExtension implements Answer {
  readonly #seen: SseResponse;
  readonly #abortAfterEvents: number | undefined;
  readonly isUnread = false;

  constructor(seen: SseResponse, abortAfterEvents: number | undefined) {
    this.#seen = seen;
    this.#abortAfterEvents = abortAfterEvents;
  }

  get heldUs() {
    return this.#seen.held_us;
  }
  get startedUs() {
    return this.#seen.started_us ?? Date.now() * 1000;
  }
  get connectUs() {
    return this.#seen.connect_us;
  }
  get sentUs() {
    return this.#seen.sent_us;
  }
  get firstUs() {
    return this.#seen.first_us;
  }
  get firstEventUs() {
    return this.#seen.first_event_us;
  }
  get lastEventUs() {
    return this.#seen.last_event_us;
  }
  get doneUs() {
    return this.#seen.done_us ?? this.startedUs;
  }
  get status() {
    return this.#seen.status;
  }
  get ended() {
    return this.#seen.ended;
  }
  get opened() {
    return this.#seen.opened;
  }
  get events() {
    return this.#seen.events;
  }
  get late() {
    return this.#seen.late;
  }
  get names() {
    const { names } = this.#seen;
    return names === "" ? [] : names.split("\n");
  }
  get gaps() {
    const { gaps } = this.#seen;
    return gaps === "" ? [] : gaps.split(",").map(Number);
  }
  get error() {
    return this.#seen.error;
  }
  get body() {
    return this.#seen.body;
  }
  get aborted() {
    const most = this.#abortAfterEvents;
    return most !== undefined && this.#seen.events >= most && this.ended === "closed_by_client";
  }
  get retryAfter() {
    return this.#seen.headers["Retry-After"];
  }
  get coding() {
    return this.#seen.headers["Content-Encoding"];
  }
}

const paramsOf = (kind: RequestKind): SseParams => {
  const { stream, timeouts, charges, abortAfterEvents } = kind;
  const params: SseParams = {
    method: kind.method,
    timeout: timeouts.callMs,
    idleTimeout: timeouts.idleMs,
    tags: { name: kind.name },
  };
  if (!kind.gapSamples) params.gapSamples = false;
  if (stream !== undefined) {
    params.firstEventTimeout = timeouts.firstEventMs;
    params.terminal = { done: stream.name, error: ERROR_EVENT, required: stream.isStated };
  }
  if (charges !== undefined) params.charges = charges;
  if (abortAfterEvents !== undefined) params.closeAfterEvents = abortAfterEvents;
  return params;
};

/** What was checked already, of this VU. */
const checked = new WeakMap<RequestKind, SseKind>();

const checkedKind = (kind: RequestKind): SseKind => {
  const known = checked.get(kind);
  if (known !== undefined) return known;
  const made = sse.kind(paramsOf(kind));
  checked.set(kind, made);
  return made;
};

/** Makes the call beside the VU, when it is due; the VU waits for neither. False where nothing may leave any more. */
export const beginByExtension = (
  { kind, url, headers, body }: Outgoing,
  { i, step, attempt, intendedUs }: CallMade,
): boolean => sse.begin(url, checkedKind(kind), headers, body, i, step, attempt, intendedUs);

export const sendByExtension = ({ kind, url, headers, body }: Outgoing): Answer => {
  const { abortAfterEvents, slowReadMs } = kind;
  const params = paramsOf(kind);
  params.headers = headers;
  if (body !== undefined) params.body = body;
  // Reading waits for the handler. Without one, events cost the script nothing.
  const resting = slowReadMs === undefined ? undefined : () => sleep(slowReadMs / 1000);
  const answer = sse.open(url, params, resting === undefined ? undefined : (client) => client.on("event", resting));
  return new AnswerOfExtension(answer, abortAfterEvents);
};
