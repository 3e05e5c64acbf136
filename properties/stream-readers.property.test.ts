/**
 * P10: the Go reader inside k6 and eventsource-parser inside our own driver read the same out of any bytes, so that two
 * drivers never differ about what a server said.
 */
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { afterAll, beforeAll, expect } from "vitest";
import { law } from "./laws/law.ts";
import { chunksOf, cutsArb } from "./model/arbitraries.ts";
import { type GoReader, missingGoReader, startGoReader } from "./rigs/go-reader.ts";

const missing = await missingGoReader();
let go: GoReader | undefined;
beforeAll(async () => {
  if (missing === null) go = await startGoReader();
});
afterAll(() => go?.close());

const valueArb = fc.oneof(
  fc.constantFrom("", " ", "  two", "done", "7", "1000", "12x", "a:b", "\u{1F5FA}", "\0", "ï»¿", "\ufeff"),
  fc.string({ maxLength: 8 }).filter((text) => !/[\r\n]/.test(text)),
);
/** Lines of the grammar, and lines that only look like them. */
const lineArb = fc.oneof(
  fc
    .tuple(
      fc.constantFrom("data", "event", "id", "retry", "", "Data", "datas", "d"),
      fc.constantFrom(":", ": ", ""),
      valueArb,
    )
    .map((parts) => parts.join("")),
  { weight: 2, arbitrary: fc.constant("") },
);
const textArb = fc
  .array(fc.tuple(lineArb, fc.constantFrom("\n", "\n", "\r\n", "\r")), { minLength: 1, maxLength: 20 })
  .map((lines) => lines.flat().join(""));
/** Bytes that are no UTF-8 are replaced by both readers alike. */
const bytesArb = fc.oneof(
  { weight: 6, arbitrary: textArb.map((text) => new TextEncoder().encode(text)) },
  fc.tuple(textArb, fc.uint8Array({ maxLength: 4 }), textArb).map(([before, bytes, after]) => {
    const encoder = new TextEncoder();
    return new Uint8Array([...encoder.encode(before), ...bytes, ...encoder.encode(after)]);
  }),
);

/** `comment`: the last one since the event before. */
type Read = { id: string | null; name: string; data: string; comment: string };

const readHere = (chunks: Uint8Array[]): Read[] => {
  const read: Read[] = [];
  let last = "";
  const decoder = new TextDecoder();
  const parser = createParser({
    onEvent: ({ id, event, data }) => {
      read.push({ id: id ?? null, name: event ?? "", data, comment: last });
      last = "";
    },
    onComment: (comment) => {
      last = comment;
    },
  });
  for (const chunk of chunks) parser.feed(decoder.decode(chunk, { stream: true }));
  return read;
};

const readInGo = async (chunks: Uint8Array[]): Promise<Read[]> => {
  const { events } = await (go as GoReader).read(chunks);
  return events.map(({ ownId, name, data, comment }) => ({ id: ownId, name, data, comment }));
};

law(
  "P10 the Go reader and eventsource-parser read the same events out of any bytes",
  () =>
    fc.asyncProperty(bytesArb, cutsArb, async (bytes, cuts) => {
      const chunks = chunksOf(bytes, cuts);
      const here = readHere(chunks);
      expect(await readInGo(chunks)).toEqual(here);
      // Nor does either care where the network cuts.
      expect(readHere([bytes])).toEqual(here);
    }),
  { quick: 1_000, nightly: 100_000 },
  missing,
);
