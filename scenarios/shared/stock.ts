/**
 * Sends on a k6 that has the community's extension: streams through it, the rest through k6/http, times from the clock in
 * milliseconds. What it does not say is derived: a stream that showed no terminal event and no error ended by itself. The
 * body of a refused stream cannot be had there.
 */
import { sleep } from "k6";
import http from "k6/http";
import sse from "k6/x/sse";
import { codingOf } from "../../src/contract/envelopes.ts";
import { ERROR_EVENT, endOfBody, type LastEvent } from "../../src/contract/streams.ts";
import type { Answer, Outgoing } from "./answer.ts";

const nowUs = (): number => Date.now() * 1000;

const brokenBy = (error: string): Answer["ended"] => {
  if (/time-?out|deadline/i.test(error)) return "timeout";
  return /\bEOF\b/.test(error) ? "truncated" : "reset";
};

/** As in src/client/stream-reader.ts. */
const GAPS_KEPT = 10_000;

const NO_EVENTS = { firstEventUs: null, lastEventUs: null };
const NOTHING = {
  firstUs: null,
  ...NO_EVENTS,
  heldUs: 0,
  connectUs: 0,
  gaps: [],
  opened: false,
  events: 0,
  late: 0,
  names: [],
  body: "",
  aborted: false,
};

const sendPlain = ({ kind, url, headers, body }: Outgoing): Answer => {
  const { method, name, timeouts } = kind;
  const startedUs = nowUs();
  const {
    status,
    error,
    body: text,
    headers: got,
    timings,
  } = http.request(method, url, body ?? null, {
    headers,
    redirects: 0,
    responseType: "text",
    timeout: timeouts.callMs,
    tags: { name },
  });
  const doneUs = nowUs();
  const { connecting, tls_handshaking: tls, blocked, sending, waiting } = timings;
  const madeUs = startedUs + Math.round((blocked + connecting + tls) * 1000);
  return {
    ...NOTHING,
    startedUs,
    connectUs: connecting > 0 ? madeUs : 0,
    sentUs: status === 0 ? null : madeUs,
    firstUs: status === 0 ? null : Math.min(doneUs, madeUs + Math.round((sending + waiting) * 1000)),
    doneUs,
    status,
    error: status === 0 ? error : "",
    body: typeof text === "string" ? text : "",
    ended: status === 0 ? brokenBy(error) : "refused",
    retryAfter: got["Retry-After"],
    coding: got["Content-Encoding"],
    isUnread: false,
  };
};

/** Its error handler has to close the stream, or it would wait for ever; its parser reports foreign lines as errors too. */
const sendStream = (outgoing: Outgoing, last: LastEvent): Answer => {
  const { kind, url, headers, body } = outgoing;
  const { method, name, timeouts, abortAfterEvents, slowReadMs } = kind;
  const names: string[] = [];
  let [events, late] = [0, 0];
  const gaps: number[] = [];
  let firstEventUs: number | null = null;
  let lastEventUs: number | null = null;
  let terminalUs: number | null = null;
  let ended: Answer["ended"] | null = null;
  let broken = "";
  let aborted = false;
  let close = (): void => undefined;
  const startedUs = nowUs();
  const params = { method, headers, timeout: `${timeouts.callMs}ms`, tags: { name } };
  const answer = sse.open(url, body === undefined ? params : { ...params, body }, (client) => {
    close = () => client.close();
    client.on("event", ({ name: event, data }) => {
      // A comment that keeps the connection alive comes as an event without anything in it.
      if (event === "" && data === "") return;
      events += 1;
      const atUs = nowUs();
      if (lastEventUs !== null && gaps.length < GAPS_KEPT) gaps.push(atUs - lastEventUs);
      firstEventUs ??= atUs;
      lastEventUs = atUs;
      if (ended !== null) late += 1;
      const known = event === "" ? "message" : event;
      if (!names.includes(known)) names.push(known);
      if (ended === null && (known === last.name || known === ERROR_EVENT)) {
        ended = known === last.name ? "done" : "error_event";
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
  const coding = answer.headers?.["Content-Encoding"];
  const opened = status === 200 && codingOf(coding) === null;
  const error = answer.error || (opened || status === 0 ? broken : "");
  const came = aborted ? "closed_by_client" : error === "" ? endOfBody(events, last) : brokenBy(error);
  return {
    heldUs: 0,
    startedUs,
    // When it was written and when its head came cannot be learnt here.
    connectUs: 0,
    sentUs: startedUs,
    firstUs: null,
    ...(opened ? { firstEventUs, lastEventUs } : NO_EVENTS),
    doneUs: terminalUs ?? nowUs(),
    status,
    opened,
    events: opened ? events : 0,
    late,
    names,
    gaps,
    error,
    body: "",
    aborted: aborted && ended === null,
    ended: status !== 0 && !opened ? "refused" : (ended ?? came),
    retryAfter: answer.headers?.["Retry-After"],
    coding,
    isUnread: status !== 0 && status !== 200,
  };
};

export const sendByStock = (outgoing: Outgoing): Answer =>
  outgoing.kind.stream === undefined ? sendPlain(outgoing) : sendStream(outgoing, outgoing.kind.stream);
