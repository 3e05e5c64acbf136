/**
 * The three event streams (section 6; items 8, 92-95, 101, 166, 176, 178; A10): frames, contracts that differ. One whole stream of
 * each is read, and looked at by every rule of this file and of stream-ends.ts.
 */
import type { RouteName, Stream } from "../../contract/routes.ts";
import { ERROR_EVENT } from "../../contract/streams.ts";
import { type Answer, isObject, told } from "../answer.ts";
import { Checks } from "../checks.ts";
import { type Context, callersOf } from "../context.ts";
import type { Rule, RuleResult } from "../rule.ts";
import { readSseText, type SseText } from "../sse-text.ts";

export const STREAM_ROUTES: Readonly<Record<Stream, RouteName>> = {
  control: "chat.control",
  summary: "chat.summary",
  button: "chat.button",
};

export type Specimen = { stream: Stream; answer: Answer; sse: SseText };

export const specimenOf = async (context: Context, stream: Stream): Promise<Specimen | null> => {
  const [caller] = callersOf(context, "ai");
  if (caller === undefined) return null;
  const answer = await context.send({ route: STREAM_ROUTES[stream], ...caller, wholeStream: true });
  return { stream, answer, sse: readSseText(answer.chunks) };
};

export const specimens = (context: Context): Promise<Specimen[]> =>
  context.once("streams", async () => {
    const read = await Promise.all((Object.keys(STREAM_ROUTES) as Stream[]).map((name) => specimenOf(context, name)));
    return read.filter((specimen) => specimen !== null);
  });

const isOpen = ({ answer }: Specimen): boolean => answer.status === 200 && !answer.transient;
export const isStream = (specimen: Specimen): boolean => isOpen(specimen) && specimen.answer.exchanged.seen !== null;

export type StreamRule = Omit<Rule, "run" | "phase" | "needs">;

/** Looks at each specimen that was opened; what was not opened is unclear, unless its body is not shown. */
export const streamRule = (
  rule: StreamRule,
  only: readonly Stream[],
  judge: (checks: Checks, specimen: Specimen) => void,
  isFit: (specimen: Specimen) => boolean = isStream,
): Rule => ({
  ...rule,
  phase: "streams",
  needs: { anyOf: ["publishable", "server"] },
  run: async (context): Promise<RuleResult> => {
    const checks = new Checks(rule.title);
    for (const specimen of await specimens(context)) {
      if (!only.includes(specimen.stream)) continue;
      if (isFit(specimen)) judge(checks, specimen);
      else if (specimen.answer.transient) checks.unclear(told(specimen.answer));
      else checks.note(`${specimen.stream}: no stream (${told(specimen.answer)})`);
    }
    return checks.result("no stream showed it");
  },
});

export const ALL_STREAMS: readonly Stream[] = ["control", "summary", "button"];

const contentType = streamRule(
  {
    id: "stream-content-type",
    level: "must",
    spec: [8, 92, 93, 94],
    title: "a streaming endpoint answers with the content type text/event-stream",
  },
  ALL_STREAMS,
  (checks, { answer }) => {
    const type = answer.headers["content-type"] ?? "none";
    checks.require(/^\s*text\/event-stream\s*(;|$)/i.test(type), answer, "text/event-stream", `it was ${type}`);
  },
  isOpen,
);

/** The encodings of a connection or a proxy are no part of the stream. */
const isPlain = ({ headers }: Answer): boolean => /^(identity)?$/i.test(headers["content-encoding"]?.trim() ?? "");

/** The HTML standard, section 9.2.5: event streams are always encoded as UTF-8, whatever a charset says. */
const isUtf8 = streamRule(
  {
    id: "stream-is-utf8",
    level: "must",
    spec: [8, 166],
    title: "an event stream is encoded as UTF-8, as its content type says",
  },
  ALL_STREAMS,
  (checks, { stream, answer }) => {
    if (!isPlain(answer)) return checks.note(`${stream}: encoded as ${answer.headers["content-encoding"]}`);
    const at = answer.chunks.find(({ notUtf8 }) => notUtf8 === true);
    const got = `there were bytes that are none, in ${JSON.stringify(at?.text.slice(0, 120))}`;
    checks.require(at === undefined, answer, "bytes that are UTF-8", got);
  },
);

/** Events of section 6: any stream may carry them, so they make no contract. */
const SHARED_EVENTS: ReadonlySet<string | null> = new Set([ERROR_EVENT, "quota"]);

const frameFault = ({ frames, strange }: SseText): string | null => {
  if (strange.length > 0) return `a line that is no field of an event: ${strange[0]?.slice(0, 80)}`;
  let events = 0;
  for (const { event, data, json, inOrder } of frames) {
    if (data === null) {
      // By the standard such a frame is no event at all, so nobody misses anything but a stated one.
      if (SHARED_EVENTS.has(event)) return `the event ${event} without data`;
      continue;
    }
    events += 1;
    if (event === null || event === "") return `an event without a name, with the data ${data.slice(0, 80)}`;
    if (json === undefined) return `the event ${event} with data that is no JSON: ${data.slice(0, 80)}`;
    if (!inOrder) return `the data of the event ${event} before its name`;
  }
  return events === 0 ? "no event at all" : null;
};

const framesRule = (id: string, level: "must" | "info", only: readonly Stream[], title: string): Rule =>
  streamRule({ id, level, spec: level === "must" ? [166] : [166, 176], title }, only, (checks, { answer, sse }) => {
    const fault = frameFault(sse);
    checks.require(fault === null, answer, "event: <name>, then data: <JSON>, in every frame", `there was ${fault}`);
  });

const payloadOf = (json: unknown): string => {
  if (!isObject(json)) return typeof json;
  // Where events share one name, a text under `type` tells them apart.
  const kind = typeof json.type === "string" ? `${json.type}: ` : "";
  return kind + Object.keys(json).sort().join(",");
};

/** Names and the fields of their payloads: what makes up a contract that a client can see (A10). */
const contractOf = ({ sse }: Specimen): { names: string; payloads: string } => {
  const own = sse.frames.filter(({ event }) => !SHARED_EVENTS.has(event));
  const names = [...new Set(own.map(({ event }) => event ?? ""))].sort();
  const fields = own.map(({ event, json }) => `${event}(${payloadOf(json)})`);
  return { names: names.join(" "), payloads: [...new Set(fields)].sort().join(" ") };
};

const vocabularies: Rule = {
  id: "stream-contracts-differ",
  level: "must",
  spec: [93, 94, 95],
  title: "the three streams speak three different contracts",
  phase: "streams",
  needs: { anyOf: ["publishable", "server"] },
  run: async (context) => {
    const checks = new Checks("no two streams with the same event names and payload fields");
    const seen = (await specimens(context)).filter((specimen) => isStream(specimen) && specimen.sse.frames.length > 0);
    for (const [i, one] of seen.entries()) {
      for (const other of seen.slice(i + 1)) {
        const [a, b] = [contractOf(one), contractOf(other)];
        const same = a.payloads === b.payloads && a.names === b.names;
        checks.require(
          !same,
          other.answer,
          `another contract than that of the ${one.stream} stream`,
          `both have the events ${a.names}, with the same fields`,
        );
        if (!same && a.names === b.names) checks.note(`${one.stream} and ${other.stream} differ in payloads only`);
      }
    }
    return checks.result("fewer than two streams were opened");
  },
};

const LONG_US = 150_000;

type Spread = { is: "spread" } | { is: "too short" } | { is: "at once"; got: string };

const spreadOf = ({ answer, sse }: Specimen): Spread => {
  const [first, last] = [sse.frames[0], sse.frames.at(-1)];
  if (first === undefined || last === undefined || sse.frames.length < 4) return { is: "too short" };
  const waitedUs = first.atUs - answer.exchanged.sentUs;
  const spreadUs = last.atUs - first.atUs;
  if (waitedUs + spreadUs < LONG_US) return { is: "too short" };
  if (spreadUs > (waitedUs + spreadUs) / 20) return { is: "spread" };
  const ms = (us: number): number => Math.round(us / 1000);
  return {
    is: "at once",
    got: `${sse.frames.length} events within ${ms(spreadUs)} ms, after ${ms(waitedUs)} ms of silence`,
  };
};

/** A busy machine on our own side makes a stream look buffered, but hardly so many times. */
const LOOKS = 3;

const notBuffered: Rule = {
  id: "stream-is-not-buffered",
  level: "should",
  spec: [8, 178],
  title: "events arrive while they are made, not all at the end",
  phase: "streams",
  needs: { anyOf: ["publishable", "server"] },
  run: async (context) => {
    const checks = new Checks("events spread over the time of the stream");
    const all = await specimens(context);
    for (const specimen of all.filter(isStream)) {
      let spread = spreadOf(specimen);
      for (let k = 1; k < LOOKS && spread.is === "at once"; k++) {
        const again = await specimenOf(context, specimen.stream);
        if (again !== null && isStream(again)) spread = spreadOf(again);
      }
      if (spread.is === "spread") checks.fine();
      else if (spread.is === "too short") checks.note(`${specimen.stream}: too short a stream to tell`);
      else checks.require(false, specimen.answer, "events spread over the time of the stream", spread.got);
    }
    const result = checks.result("no stream showed it");
    // Streams that are over at once show nothing, and no caller makes them longer.
    return result.verdict === "skipped" && all.length > 0 && all.every(isStream) ? { ...result, idle: true } : result;
  },
};

export const STREAM_RULES: readonly Rule[] = [
  contentType,
  isUtf8,
  framesRule(
    "stream-frames",
    "must",
    ["control"],
    "every frame of the control stream is event: <name>, then data: <JSON>",
  ),
  framesRule(
    "stream-frames-of-others",
    "info",
    ["summary", "button"],
    "whether the frames of the other two streams have the same syntax (A10)",
  ),
  vocabularies,
  notBuffered,
];
