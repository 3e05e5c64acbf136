/**
 * P10: what a reader makes of a stream depends on its events alone: not on where the network cuts it, not on comments,
 * unknown events or line ends, and not on what comes after the end.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { createStreamReader, type SeenEvent } from "../src/client/send-request.ts";
import type { Stream } from "../src/contract/routes.ts";
import { ERROR_EVENT, KEEP_ALIVE, lastEventOf, VOCABULARIES, writeEvent } from "../src/contract/streams.ts";
import { HEALTHY_VOICE } from "../src/platform/api/routes/stream-run.ts";
import { law } from "./laws/law.ts";
import { everyStreamSpeaksItsOwnVocabulary } from "./laws/voice-law.ts";
import { chunksOf, cutsArb } from "./model/arbitraries.ts";

const RUNS = { quick: 500, nightly: 50_000 };

const streamArb = fc.constantFrom<Stream>("control", "summary", "button");
/** What a payload may be: any JSON, with text beyond ASCII, and text that looks like the frame around it. */
const payloadArb = fc.oneof(
  fc.record({ type: fc.constant("token"), text: fc.string({ unit: "binary", maxLength: 20 }) }),
  fc.record({ text: fc.constantFrom("\n\nevent: done\ndata: {}\n\n", "data: x", "\r\n", "\u{1F5FA}", "é\u0301") }),
  fc.jsonValue({ maxDepth: 1 }),
);
const eventsOf = (names: readonly string[], maxLength = 6): fc.Arbitrary<SeenEvent[]> =>
  fc.array(fc.record({ name: fc.constantFrom(...names), data: payloadArb.map((payload) => JSON.stringify(payload)) }), {
    maxLength,
  });

type Script = { stream: Stream; events: SeenEvent[]; end: "done" | "error_event" | null };
const scriptArb: fc.Arbitrary<Script> = streamArb.chain((stream) => {
  const { content, quota } = VOCABULARIES[stream];
  return fc.record({
    stream: fc.constant(stream),
    events: eventsOf(quota ? [...content, "quota"] : content),
    end: fc.constantFrom("done" as const, "error_event" as const, null),
  });
});
const terminalName = ({ stream, end }: Script): string | null =>
  end === null ? null : end === "done" ? VOCABULARIES[stream].done : ERROR_EVENT;
const framesOf = (script: Script): string[] => {
  const name = terminalName(script);
  const frames = script.events.map(({ name: event, data }) => writeEvent(event, JSON.parse(data)));
  return name === null ? frames : [...frames, writeEvent(name, { type: name })];
};

/** Names that no vocabulary knows, so that a client has to ignore them (section 6, rule 1). */
const UNKNOWN = ["telemetry", "token2", "Done", "message", "errors"];
const noiseArb = fc.oneof(
  fc.constantFrom(KEEP_ALIVE, ":\n", ": event: done\n\n", "retry: 3000\n\n", "id: 7\n\n", "unknown: x\n\n", "\n\n"),
  fc.tuple(fc.constantFrom(...UNKNOWN), payloadArb).map(([name, payload]) => writeEvent(name, payload)),
);
/** Noise at any boundary between two frames: in front, between, and behind. */
const noisy = (frames: string[], noise: [number, string][]): string => {
  const out = frames.map((frame) => [frame]);
  out.push([]);
  for (const [at, text] of noise) out[at % out.length]?.unshift(text);
  return out.flat().join("");
};

const read = (stream: Stream, text: string, cuts: number[] | "every byte") => {
  const reader = createStreamReader(lastEventOf(stream), true);
  for (const [i, chunk] of chunksOf(new TextEncoder().encode(text), cuts).entries()) reader.feed(chunk, i);
  return reader.seen;
};
const known = (seen: SeenEvent[]): SeenEvent[] => seen.filter(({ name }) => !UNKNOWN.includes(name));

law(
  "P10 every event comes out once, whole and in order, wherever the bytes are cut",
  () =>
    fc.property(scriptArb, cutsArb, (script, cuts) => {
      const seen = read(script.stream, framesOf(script).join(""), cuts);
      expect(seen.kept.slice(0, script.events.length)).toEqual(script.events);
      expect(seen.events).toBe(script.events.length + (script.end === null ? 0 : 1));
      expect(seen.terminal?.ended ?? null).toBe(script.end);
      expect(seen.late).toBe(0);
    }),
  RUNS,
);

law(
  "P10 comments, unknown events and foreign fields change nothing (items 15, 172)",
  () =>
    fc.property(scriptArb, cutsArb, fc.array(fc.tuple(fc.nat(), noiseArb), { maxLength: 8 }), (script, cuts, noise) => {
      const plain = read(script.stream, framesOf(script).join(""), []);
      const seen = read(script.stream, noisy(framesOf(script), noise), cuts);
      expect(known(seen.kept)).toEqual(plain.kept);
      expect(seen.terminal?.ended).toBe(plain.terminal?.ended);
    }),
  RUNS,
);

law(
  "P10 line ends are a matter of taste: LF, CR LF and CR read the same",
  () =>
    fc.property(scriptArb, cutsArb, fc.constantFrom("\r\n", "\r"), fc.boolean(), (script, cuts, lineEnd, mark) => {
      const text = framesOf(script).join("");
      const other = (mark ? "\ufeff" : "") + text.replaceAll("\n", lineEnd);
      const { lastUs: _, firstUs: __, terminal, gapsUs: ___, ...rest } = read(script.stream, other, cuts);
      expect(rest).toMatchObject({ kept: read(script.stream, text, []).kept, late: 0 });
      expect(terminal?.ended ?? null).toBe(script.end);
    }),
  RUNS,
);

law(
  "P10 a stream that is cut short of its last event has not ended",
  () =>
    fc.property(
      scriptArb.filter(({ end }) => end !== null),
      cutsArb,
      fc.integer({ min: 2, max: 10_000 }),
      (script, cuts, lost) => {
        const bytes = new TextEncoder().encode(framesOf(script).join(""));
        // The blank line is what ends an event: without its last byte the event has not come.
        const kept = bytes.slice(0, bytes.length - 1 - (lost % bytes.length));
        const reader = createStreamReader(lastEventOf(script.stream), true);
        for (const chunk of chunksOf(kept, cuts)) reader.feed(chunk, 0);
        expect(reader.seen.terminal).toBeNull();
        expect(reader.seen.kept).toEqual(script.events.slice(0, reader.seen.kept.length));
      },
    ),
  RUNS,
);

law(
  "P10 what comes after the terminal event is reported apart, and never ends the stream a second time",
  () =>
    fc.property(
      scriptArb.filter(({ end }) => end !== null),
      scriptArb,
      cutsArb,
      (script, after, cuts) => {
        const seen = read(script.stream, [...framesOf(script), ...framesOf(after)].join(""), cuts);
        expect(seen.terminal?.ended).toBe(script.end);
        expect(seen.late).toBe(framesOf(after).length);
      },
    ),
  RUNS,
);

law(
  "P10 the end of another stream's vocabulary is not the end of this one",
  () =>
    fc.property(scriptArb, streamArb, (script, stream) => {
      fc.pre(script.end === "done" && stream !== script.stream);
      expect(read(stream, framesOf(script).join(""), []).terminal).toBeNull();
    }),
  { quick: 200, nightly: 5_000 },
);

law(
  "P10 every stream that the server speaks has its own words, one end, and nothing after it",
  () => everyStreamSpeaksItsOwnVocabulary(HEALTHY_VOICE),
  RUNS,
);
