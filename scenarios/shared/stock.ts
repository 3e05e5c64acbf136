/**
 * Sends on a k6 that has the community's extension: streams through it, the rest through k6/http, times from the clock in
 * milliseconds. What it does not say is derived: a stream that showed no terminal event and no error ended by itself. The
 * body of a refused stream cannot be had there.
 */
import { sleep } from "k6";
import http from "k6/http";
import sse from "k6/x/sse";
import type { Answer, Outgoing } from "./answer.ts";

const nowUs = (): number => Date.now() * 1000;

const brokenBy = (error: string): Answer["ended"] => {
  if (/time-?out|deadline/i.test(error)) return "timeout";
  return /\bEOF\b/.test(error) ? "truncated" : "reset";
};

const NOTHING = { firstUs: null, opened: false, events: 0, late: 0, names: [], body: "", aborted: false };

const sendPlain = ({ method, url, headers, body, name, timeouts }: Outgoing): Answer => {
  const sentUs = nowUs();
  const {
    status,
    error,
    body: text,
    headers: got,
  } = http.request(method, url, body ?? null, {
    headers,
    redirects: 0,
    responseType: "text",
    timeout: timeouts.callMs,
    tags: { name },
  });
  return {
    ...NOTHING,
    sentUs,
    doneUs: nowUs(),
    status,
    error: status === 0 ? error : "",
    body: typeof text === "string" ? text : "",
    ended: status === 0 ? brokenBy(error) : "refused",
    retryAfter: got["Retry-After"],
    isUnread: false,
  };
};

/** Its error handler has to close the stream, or it would wait for ever; its parser reports foreign lines as errors too. */
const sendStream = (outgoing: Outgoing, terminal: { done: string; error: string }): Answer => {
  const { method, url, headers, body, name, timeouts, abortAfterEvents, slowReadMs } = outgoing;
  const names: string[] = [];
  let [events, late] = [0, 0];
  let firstUs: number | null = null;
  let terminalUs: number | null = null;
  let ended: Answer["ended"] | null = null;
  let broken = "";
  let aborted = false;
  let close = (): void => undefined;
  const sentUs = nowUs();
  const params = { method, headers, timeout: `${timeouts.callMs}ms`, tags: { name } };
  const answer = sse.open(url, body === undefined ? params : { ...params, body }, (client) => {
    close = () => client.close();
    client.on("event", ({ name: event, data }) => {
      // A comment that keeps the connection alive comes as an event without anything in it.
      if (event === "" && data === "") return;
      events += 1;
      firstUs ??= nowUs();
      if (ended !== null) late += 1;
      const known = event === "" ? "message" : event;
      if (!names.includes(known)) names.push(known);
      if (ended === null && (known === terminal.done || known === terminal.error)) {
        ended = known === terminal.done ? "done" : "error_event";
        terminalUs = nowUs();
      }
      if (abortAfterEvents !== undefined && events >= abortAfterEvents) {
        aborted = true;
        client.close();
      } else if (slowReadMs !== undefined) sleep(slowReadMs / 1000);
    });
    client.on("error", (error) => {
      const text = error.error();
      if (/^unknown event/.test(text)) return;
      broken ||= text;
      client.close();
    });
  });
  // It keeps an idle connection of each stream until it is closed.
  close();
  const { status } = answer;
  const opened = status === 200;
  const error = answer.error || (opened || status === 0 ? broken : "");
  const came = aborted ? "closed_by_client" : error === "" ? "eof" : brokenBy(error);
  return {
    sentUs,
    firstUs: opened ? firstUs : null,
    doneUs: terminalUs ?? nowUs(),
    status,
    opened,
    events: opened ? events : 0,
    late,
    names,
    error,
    body: "",
    aborted: aborted && ended === null,
    ended: status !== 0 && !opened ? "refused" : (ended ?? came),
    retryAfter: answer.headers?.["Retry-After"],
    isUnread: status !== 0 && !opened,
  };
};

export const sendByStock = (outgoing: Outgoing): Answer =>
  outgoing.stream === undefined ? sendPlain(outgoing) : sendStream(outgoing, outgoing.stream);
