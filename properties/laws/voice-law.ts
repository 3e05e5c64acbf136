/**
 * The events of the three streams (section 6; items 92-95, 104-105, 166-179), read by the driver's parser: each stream's own
 * vocabulary, one end, nothing after it, and not all at once. A function of the voice, so that a mutant's can be tried.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { createStreamReader } from "../../src/client/send-request.ts";
import type { Stream } from "../../src/contract/routes.ts";
import { lastEventOf } from "../../src/contract/streams.ts";
import type { StreamVoice } from "../../src/platform/api/routes/stream-run.ts";

/** An independent copy of section 6. */
const WORDS: Readonly<Record<Stream, { content: string[]; end: string }>> = {
  control: { content: ["token", "action", "quota"], end: "done" },
  summary: { content: ["summary_delta"], end: "summary_done" },
  button: { content: ["chunk"], end: "end" },
};

const requestArb = fc.record({
  kind: fc.constantFrom<Stream>("control", "summary", "button"),
  tokens: fc.integer({ min: 1, max: 30 }),
  body: fc.record({ auto_actions: fc.boolean(), type: fc.constantFrom("place", "route") }),
  sessionId: fc.string({ unit: "grapheme" }),
  quota: fc.record({ limit: fc.nat(), used: fc.nat() }),
});
const failureArb = fc.record({
  message: fc.string({ unit: "binary" }),
  code: fc.constantFrom("upstream_timeout", "internal"),
  partial_text: fc.string({ unit: "binary" }),
});

const read = (kind: Stream, text: string) => {
  const reader = createStreamReader(lastEventOf(kind), true);
  reader.feed(new TextEncoder().encode(text), 0);
  return reader.seen;
};

export const everyStreamSpeaksItsOwnVocabulary = (voice: StreamVoice) =>
  fc.property(
    requestArb,
    failureArb,
    fc.nat(),
    fc.integer({ min: 10, max: 10_000 }),
    (request, failure, cut, serviceMs) => {
      const { kind } = request;
      const { content, end } = WORDS[kind];
      const frames = voice.script(request);
      const said = read(kind, frames.map(({ wire }) => wire).join(""));
      const names = said.kept.map(({ name }) => name);
      expect(said.events, `${kind}: one event a frame`).toBe(frames.length);
      expect([names.at(-1), said.terminal?.ended, said.late], `${kind}: its end`).toEqual([end, "done", 0]);
      expect(
        names.slice(0, -1).filter((name) => !content.includes(name)),
        `${kind}: events of another stream`,
      ).toEqual([]);
      expect(names.length).toBeGreaterThanOrEqual(request.tokens + 1);
      for (const { name, data } of said.kept) expect(JSON.parse(data), name).toMatchObject({ type: name });

      const before = frames.slice(0, cut % frames.length).map(({ wire }) => wire);
      const failed = read(kind, [...before, voice.failure(failure)].join(""));
      expect([failed.terminal?.ended, failed.late], `${kind}: the end of a failed stream`).toEqual(["error_event", 0]);
      expect(JSON.parse(failed.kept.at(-1)?.data ?? "null"), "the error event").toEqual({ type: "error", ...failure });

      const due = frames.map((_, i) => voice.dueMs(i, frames.length, serviceMs));
      expect(due, "when frames are due").toEqual(due.toSorted((a, b) => a - b));
      expect(due[0] as number, "the first of several frames is due long before the last").toBeLessThanOrEqual(
        frames.length === 1 ? serviceMs : serviceMs / 2 + 0.001,
      );
    },
  );
