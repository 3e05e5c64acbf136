/** Event streams (section 6; items 8, 92-95, 166-178, 187). All rules share one of each kind, read to its end. */
import { ANSWER_TOO_LARGE } from "../../client/send-request.ts";
import * as foreign from "../../contract/foreign-text.ts";
import { isObject, parseJson } from "../../contract/refusals.ts";
import type { Stream } from "../../contract/routes.ts";
import { ERROR_EVENT, isEventStream, mediaTypes, STREAMS, VOCABULARIES } from "../../contract/streams.ts";
import type { Level } from "../../history/run-document.ts";
import { type Checks, type Judgement, recorded } from "../checks.ts";
import { type Context, callerOf } from "../context.ts";
import { type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isPage } from "../sending/answer.ts";
import { codingOf, readSseText, type SseText } from "../sending/answer-bytes.ts";
import type { TestCall } from "../sending/test-call.ts";

const STREAM_ROUTES = { control: "chat.control", summary: "chat.summary", button: "chat.button" } as const;
/** Events of section 6 that any stream may send, so they do not tell contracts apart. */
const SHARED_EVENTS: ReadonlySet<string | null> = new Set([ERROR_EVENT, "quota"]);

type Specimen = { stream: Stream; answer: Answer; sse: SseText };

const specimenOf = async (context: Context, stream: Stream, more: Partial<TestCall> = {}): Promise<Specimen> => {
  const call = { route: STREAM_ROUTES[stream], ...callerOf(context, "ai"), wholeStream: true, ...more } as const;
  const answer = await context.send(call);
  return { stream, answer, sse: readSseText(answer.chunks) };
};

export const specimens = (context: Context) =>
  context.once("streams", () => Promise.all(STREAMS.map((name) => specimenOf(context, name))));

const isOpened = ({ answer }: Specimen): boolean => answer.status === 200 && !answer.transient;
const isStream = (specimen: Specimen): boolean => isOpened(specimen) && specimen.answer.received.seen !== null;

const ofSpecimens = { needs: { anyOf: ["publishable", "server"] }, cost: { calls: 3, shared: "streams" } } as const;
const streams = rulesOf("streams", ofSpecimens);

/** `shows` selects the specimens that the rule judges, by default all streams; the others are noted. */
type Look = Judgement<Specimen> & { title: string; only?: readonly Stream[]; shows?(specimen: Specimen): boolean };

const look = (level: Level, id: string, spec: readonly number[], about: Look): Rule =>
  streams[level](id, spec, {
    title: about.title,
    step: async (context, checks) => {
      const { only = STREAMS, shows = isStream } = about;
      for (const specimen of (await specimens(context)).filter(({ stream }) => only.includes(stream))) {
        const { answer, stream } = specimen;
        if (shows(specimen)) checks.judge(specimen, answer, about);
        else if (!checks.isUnclear(answer)) checks.note(`${stream}: no stream (${inWords(answer)})`);
      }
      return "no stream showed it";
    },
  });

const FRAMES = "event: <name>, then data: <JSON>, in every frame";

const frameFault = ({ stream, sse: { frames, strange } }: Specimen, checks: Checks): string | null | undefined => {
  // A gateway that gives up on the API writes its page where the rest of the stream was due.
  if (strange.some(isPage))
    return void checks.unclear(`${stream}: an HTML page stands in the middle of the stream, as a gateway writes it`);
  if (strange.length > 0) return `there was a line that is no field of an event: ${foreign.shapeOf(strange[0])}`;
  for (const { event, data, json, inOrder } of frames) {
    const name = foreign.foreignName(event ?? "");
    // By the HTML standard a frame without data is no event; only those of `SHARED_EVENTS` must have data.
    if (data === null && SHARED_EVENTS.has(event)) return `there was the event ${event} without data`;
    if (data === null) continue;
    const shape = foreign.shapeOfBody(data, json);
    if (event === null || event === "") return `there was an event without a name, with the data ${shape}`;
    if (json === undefined) return `there was the event ${name} with ${shape}`;
    if (!inOrder) return `there was the data of the event ${name} before its name`;
  }
  return frames.every(({ data }) => data === null) ? "there was no event at all" : null;
};

const payloadOf = (json: unknown): string => {
  if (!isObject(json)) return typeof json;
  const kind = typeof json.type === "string" ? `${json.type}: ` : "";
  return kind + Object.keys(json).sort().join(",");
};

/** Event names and payload members: the contract that a client sees (A10). */
const contractOf = ({ sse }: Specimen): { names: string; shown: string; payloads: string } => {
  const own = sse.frames.filter(({ event }) => !SHARED_EVENTS.has(event));
  const names = [...new Set(own.map(({ event }) => event ?? ""))].sort();
  const fields = own.map(({ event, json }) => `${event}(${payloadOf(json)})`);
  const shown = names.slice(0, foreign.EVENT_NAMES_MOST).map(foreign.foreignName).join(" ");
  return { names: names.join(" "), shown, payloads: [...new Set(fields)].sort().join(" ") };
};

const LONG_US = 150_000;
/** How many streams have to look buffered: a busy client machine may delay one, but hardly three. */
const LOOKS = 3;
const HELD_BACK_BY_CODING =
  "does what compresses collect the events? It has to flush after each, or to leave text/event-stream out";
const HELD_BACK =
  "does something in front of the API hold events back (nginx: proxy_buffering off, HAProxy: option http-no-delay, lighttpd: server.stream-response-body)?";

/** `null`: the stream is too short to tell. `got`: all events came at once, in words. */
const spreadOf = ({ answer, sse }: Specimen): "spread" | { got: string } | null => {
  const [first, last] = [sse.frames[0], sse.frames.at(-1)];
  if (first === undefined || last === undefined || sse.frames.length < 4) return null;
  const waitedUs = first.atUs - answer.received.sentUs;
  const spreadUs = last.atUs - first.atUs;
  if (waitedUs + spreadUs < LONG_US) return null;
  if (spreadUs > (waitedUs + spreadUs) / 20) return "spread";
  const ms = (us: number): string => `${Math.round(us / 1000)} ms`;
  return { got: `${sse.frames.length} events within ${ms(spreadUs)}, after ${ms(waitedUs)} of silence` };
};

type Again = { why: string; another(): Promise<Specimen> };

const judgeSpread = async (checks: Checks, first: Specimen, { why, another }: Again): Promise<void> => {
  let spread = spreadOf(first);
  for (let k = 1; k < LOOKS && spread !== null && spread !== "spread"; k++) {
    const again = await another();
    if (isStream(again)) spread = spreadOf(again);
  }
  if (spread === "spread") checks.fine();
  else if (spread === null) checks.note(`${first.stream}: too short a stream to judge`);
  else {
    checks.require(false, first.answer, "events spread over the time of the stream", spread.got);
    checks.note(why);
  }
};

const AS_BROWSERS_ASK: Partial<TestCall> = {
  headers: { "accept-encoding": "gzip, deflate, br, zstd" },
  what: "a caller that takes compressed answers",
};

const endOf = ({ received: { ended, error } }: Answer): string =>
  `${ended}${error === undefined ? "" : ` (${foreign.foreignError(error)})`}`;

const UNFINISHED =
  "no empty line ends the last event, so clients drop it (HTML standard, section 9.2.6): does something in front of the API trim the stream?";

/** An event that clients drop is lost, as in a stream that is cut. */
const isCut = (specimen: Specimen, { target: { stream_end } }: Context): boolean => {
  const { ended, aborted } = specimen.answer.received;
  const names = specimen.sse.frames.map(({ event }) => event);
  // Where the last event is not stated, one that came only once may be it: a cut after it loses nothing.
  const isOnce = names.length > 0 && names.indexOf(names.at(-1) ?? null) === names.length - 1;
  const mayBeOver = isOnce && typeof stream_end?.[specimen.stream] !== "string";
  const isBroken = (ended === "truncated" || ended === "reset") && !mayBeOver;
  return isStream(specimen) && !aborted && (isBroken || specimen.sse.unfinished);
};

/** This many cuts in a row are no accident of the network. */
const TRIES = 4;
const ENDED_BY_TIME =
  "does something in front of the API end calls after that time, or that long after an event (Envoy: timeout of the route; nginx: proxy_read_timeout; HAProxy: timeout server)?";
const durationMs = ({ answer: { received } }: Specimen): number => (received.doneUs - received.sentUs) / 1000;
/** A gateway's time limit is a second or more, and what it ends takes as long each time, but for a busy machine. */
const TIME_LIMIT_LEAST_MS = 1_000;
const isByTime = (ms: readonly number[]): boolean =>
  Math.min(...ms) >= TIME_LIMIT_LEAST_MS && Math.max(...ms) <= 1.25 * Math.min(...ms);

/** Says by which event a stream ends, which is not specified (item 173). */
const lastEventOf = ({ stream, sse }: Specimen): string => {
  const { done } = VOCABULARIES[stream];
  const names = sse.frames.map(({ event }) =>
    event === null ? "an event without a name" : foreign.foreignName(event),
  );
  const at = names.findIndex((name) => name === done || name === ERROR_EVENT);
  const last = names.at(-1) ?? "no event";
  if (at < 0) return `${stream}: the last event is ${last}, and there is no ${done}`;
  const late = [...new Set(names.slice(at + 1))];
  return late.length > 0 ? `${stream}: ${late.slice(0, 8).join(", ")} came after ${names[at]}` : `${stream}: ${last}`;
};

// biome-ignore format: a table, a rule in a few lines
const LOOKS_AT_EACH: readonly Rule[] = [
  look("must", "stream-content-type", [8, 92, 93, 94], {
    title: "a streaming endpoint answers with the content type text/event-stream",
    shows: isOpened, expected: "text/event-stream",
    fault: ({ stream, answer: { headers: { "content-type": type = "none" } } }, checks) => {
      const types = mediaTypes(type);
      if (types.length > 1) checks.note(`${stream}: Content-Type stands ${types.length} times`);
      return types.every(isEventStream) ? null : `it was ${foreign.foreignHeader(type)}`;
    } }),
  // HTML standard, section 9.2.5: event streams are always UTF-8, whatever a charset says.
  look("must", "stream-is-utf8", [8, 166], {
    title: "an event stream is encoded as UTF-8, as its content type says",
    expected: "bytes that are UTF-8",
    fault: ({ stream, answer }, checks) => {
      // With a content coding, the bytes that the server sent are no text, so the coding is only noted.
      const coding = codingOf(answer.headers);
      if (coding !== "") return void checks.note(`${stream}: encoded as ${foreign.foreignName(coding)}`);
      const at = answer.chunks.find(({ notUtf8 }) => notUtf8 === true);
      return at === undefined ? null : `there were bytes that are not UTF-8, in a piece of ${at.text.length} characters`;
    } }),
  look("must", "stream-frames", [166], {
    title: "every frame of the control stream is event: <name>, then data: <JSON>", only: ["control"], expected: FRAMES, fault: frameFault }),
  look("info", "stream-frames-of-others", [166, 176], {
    title: "whether the frames of the other two streams have the same syntax (A10)", only: ["summary", "button"],
    expected: FRAMES, fault: frameFault }),
  look("should", "stream-goes-on-after-quota", [170], {
    title: "a quota event is not the end of a stream",
    only: ["control"], expected: "more events after quota",
    fault: ({ sse }, checks) => {
      const at = sse.frames.findIndex(({ event }) => event === "quota");
      if (at < 0) return void checks.note("no quota event came");
      return at < sse.frames.length - 1 ? null : "it was the last event";
    } }),
  look("should", "stream-ends-cleanly", [168, 173], {
    title: "a stream ends with its connection whole: not cut, not reset, not silent",
    expected: "a whole stream",
    fault: ({ answer, answer: { received: { ended, error } } }, checks) => {
      if (error === ANSWER_TOO_LARGE) return void checks.unclear("a stream was too long for `verify` to read it whole");
      return ended === "done" || ended === "error_event" || ended === "eof" ? null : `it ended ${endOf(answer)}`;
    } }),
];

type Kept = readonly { name: string | null; data: string }[];

/** Judges the error event of every stream that had one, in any rule: no call can provoke one. */
const ofErrorEvent = (id: string, spec: number[], title: string, about: Judgement<Kept>): Rule =>
  rulesOf("every-answer", ofSpecimens).must(id, spec, {
    title,
    step: async (context, checks) => {
      await specimens(context);
      for (const answer of context.answers) {
        const kept = answer.received.seen?.kept ?? [];
        const at = kept.findIndex(({ name }) => name === ERROR_EVENT);
        if (at >= 0) checks.judge(kept.slice(at), answer, about);
      }
      return checks.idle("no error event came, and nothing from outside makes one come");
    },
  });

// biome-ignore format: a table, a rule in a few lines
const ERROR_EVENTS: readonly Rule[] = [
  ofErrorEvent("stream-error-event", [167, 169, 174, 175], "an error event carries type error, message, code and partial_text", {
    expected: "{ type: 'error', message, code, partial_text }, the last three texts",
    fault: ([event]) => {
      const data = parseJson(event?.data ?? "");
      const fields = isObject(data) ? data : {};
      const areTexts = ["message", "code", "partial_text"].every((name) => typeof fields[name] === "string");
      return fields.type === "error" && areTexts && fields.code !== "" ? null : `it was ${foreign.shapeOf(data)}`;
    } }),
  ofErrorEvent("stream-nothing-after-error", [168], "an error event ends its stream: nothing comes after it", {
    expected: "the end of the stream",
    fault: ([, ...late]) => late.length === 0 ? null : `${late.length} more events came: ${foreign.shapeOf(late[0]?.name)}` }),
];

export const STREAM_RULES: readonly Rule[] = [
  ...LOOKS_AT_EACH,
  ...ERROR_EVENTS,
  streams.must("stream-contracts-differ", [93, 94, 95], {
    title: "the three streams speak three different contracts",
    step: async (context, checks) => {
      const seen = (await specimens(context)).filter((one) => isStream(one) && one.sse.frames.length > 0);
      for (const [one, other] of seen.flatMap((a, i) => seen.slice(i + 1).map((b) => [a, b] as const))) {
        const [a, b] = [contractOf(one), contractOf(other)];
        const same = a.payloads === b.payloads && a.names === b.names;
        const expected = `another contract than that of the ${one.stream} stream`;
        checks.require(!same, other.answer, expected, `both have the events ${a.shown}, with the same fields`);
        if (!same && a.names === b.names) checks.note(`${one.stream} and ${other.stream} differ in payloads only`);
      }
      return "fewer than two streams were opened";
    },
  }),
  streams.should("stream-is-not-buffered", [8, 178], {
    title: "events arrive while they are made, not all at the end",
    step: async (context, checks) => {
      const all = await specimens(context);
      for (const specimen of all.filter(isStream))
        await judgeSpread(checks, specimen, { why: HELD_BACK, another: () => specimenOf(context, specimen.stream) });
      const nothing = "no stream showed it";
      return all.every(isStream) ? checks.idle(nothing) : nothing;
    },
  }),
  rulesOf("streams").should("compressed-stream-is-not-buffered", [8, 178], {
    title: "events arrive while they are made for a caller that takes compressed answers, as browsers do",
    needs: ofSpecimens.needs,
    cost: { calls: 1 },
    step: async (context, checks) => {
      const asked = () => specimenOf(context, "control", AS_BROWSERS_ASK);
      const first = await asked();
      if (!isStream(first)) return inWords(first.answer);
      if (codingOf(first.answer.received.headers) === "") return checks.fine();
      await judgeSpread(checks, first, { why: HELD_BACK_BY_CODING, another: asked });
      return checks.idle("the stream was too short to show it");
    },
  }),
  // RFC 9112 section 8: a message whose end never comes is incomplete, so neither a success nor a reported failure.
  streams.must("stream-is-not-cut-every-time", [8, 168, 187], {
    title: "a stream comes to its end, or to an error event: its HTTP message is not cut off in the middle every time",
    step: async (context, checks) => {
      for (const first of (await specimens(context)).filter(isStream)) {
        let last = first;
        const cutMs: number[] = [];
        for (let tries = 1; isCut(last, context); tries++) {
          cutMs.push(durationMs(last));
          if (tries === TRIES) break;
          last = await specimenOf(context, first.stream);
        }
        const got = `cut off after ${last.sse.frames.length} events, ${TRIES} times out of ${TRIES}: ${endOf(last.answer)}`;
        checks.require(!isCut(last, context), last.answer, "a whole stream", got);
        if (isCut(last, context) && last.sse.unfinished) checks.note(UNFINISHED);
        else if (isCut(last, context) && isByTime(cutMs))
          checks.note(`each time after about ${(Math.min(...cutMs) / 1000).toFixed(1)} s: ${ENDED_BY_TIME}`);
        if (last !== first && !isCut(last, context)) checks.note(`${first.stream}: cut off at first`);
      }
      return "no stream showed it";
    },
  }),
  streams.info("stream-last-event", [173], {
    title:
      "which event ends a stream, and whether anything comes after the event that ends it on the reference platform",
    step: async (context, checks) => {
      const all = (await specimens(context)).filter(isStream);
      if (all.length === 0) return checks.idle("no stream was opened");
      const [seen, answers] = [all.map(lastEventOf).join("; "), all.map(({ answer }) => answer)];
      return recorded(seen, answers, `recorded, not judged: ${seen}`);
    },
  }),
];
