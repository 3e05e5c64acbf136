/**
 * Sends through our own extension, which times everything in microseconds, names the end of every stream, gives the body of
 * a refusal and asks the lease before a call leaves. Other calls than streams go through it as well.
 */
import { sleep } from "k6";
import type { SseParams } from "k6/x/sse";
import sse from "k6/x/sse";
import type { Answer, Outgoing } from "./answer.ts";

/** Whether this k6 has our extension, or the community's of the same name. */
export const hasAdditions = typeof (sse as { lease?: unknown }).lease === "function";

// An older build of ours would neither wait for a call's moment nor time it as the history means it.
if (hasAdditions && typeof (sse as { waitUntil?: unknown }).waitUntil !== "function") {
  throw new Error("this k6 has an older k6/x/sse: build it again by npx floodgate dev tools");
}

export const sendByExtension = (outgoing: Outgoing): Answer => {
  const { abortAfterEvents, slowReadMs, stream, timeouts, charges, body } = outgoing;
  const params: SseParams = {
    method: outgoing.method,
    headers: outgoing.headers,
    timeout: timeouts.callMs,
    idleTimeout: timeouts.idleMs,
    tags: { name: outgoing.name },
    ...(stream === undefined ? {} : { firstEventTimeout: timeouts.firstEventMs, terminal: stream }),
    ...(charges === undefined ? {} : { charges }),
    ...(body === undefined ? {} : { body }),
    ...(abortAfterEvents === undefined ? {} : { closeAfterEvents: abortAfterEvents }),
  };
  // Reading waits for the handler. Without one, events cost the script nothing.
  const resting = slowReadMs === undefined ? undefined : () => sleep(slowReadMs / 1000);
  const answer = sse.open(
    outgoing.url,
    params,
    resting === undefined ? undefined : (client) => client.on("event", resting),
  );
  const startedUs = answer.started_us ?? Date.now() * 1000;
  const isLeft = abortAfterEvents !== undefined && answer.events >= abortAfterEvents;
  return {
    heldUs: answer.held_us,
    startedUs,
    connectUs: answer.connect_us,
    sentUs: answer.sent_us,
    firstUs: answer.first_us,
    firstEventUs: answer.first_event_us,
    lastEventUs: answer.last_event_us,
    doneUs: answer.done_us ?? startedUs,
    status: answer.status,
    ended: answer.ended,
    opened: answer.opened,
    events: answer.events,
    late: answer.late,
    names: answer.names === "" ? [] : answer.names.split("\n"),
    gaps: answer.gaps,
    error: answer.error,
    body: answer.body,
    aborted: isLeft && answer.ended === "closed_by_client",
    retryAfter: answer.headers["Retry-After"],
    isUnread: false,
  };
};
