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

export const sendByExtension = (outgoing: Outgoing): Answer => {
  const names: string[] = [];
  let opened = false;
  let aborted = false;
  let events = 0;
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
  };
  const answer = sse.open(outgoing.url, params, (client) => {
    client.on("open", () => {
      opened = true;
    });
    client.on("event", ({ name }) => {
      events += 1;
      const known = name === "" ? "message" : name;
      if (!names.includes(known)) names.push(known);
      if (abortAfterEvents !== undefined && events >= abortAfterEvents) {
        aborted = true;
        client.close();
      } else if (slowReadMs !== undefined) {
        // Reading waits for the handler.
        sleep(slowReadMs / 1000);
      }
    });
  });
  const sentUs = answer.sent_us ?? Date.now() * 1000;
  return {
    sentUs,
    firstUs: answer.first_us,
    doneUs: answer.done_us ?? sentUs,
    status: answer.status,
    ended: answer.ended,
    opened,
    events: answer.events,
    late: answer.late,
    names,
    error: answer.error,
    body: answer.body,
    aborted: aborted && answer.ended === "closed_by_client",
    retryAfter: answer.headers["Retry-After"],
    isUnread: false,
  };
};
