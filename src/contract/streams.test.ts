import { describe, expect, test } from "vitest";
import { ERROR_EVENT, KEEP_ALIVE, STREAM_ENDS, VOCABULARIES, writeEvent } from "./streams.ts";

describe("the wire", () => {
  test("an event is a name line, a data line and a blank line (item 166)", () => {
    expect(writeEvent("token", { type: "token", text: "a\nb" })).toBe(
      'event: token\ndata: {"type":"token","text":"a\\nb"}\n\n',
    );
  });

  test("a keep-alive is a comment", () => {
    expect(KEEP_ALIVE.startsWith(":")).toBe(true);
  });
});

describe("the three vocabularies", () => {
  const all = Object.values(VOCABULARIES);

  test("share no name, so that a parser of one fails on another (item 95)", () => {
    const names = all.flatMap(({ content, done }) => [...content, done]);
    expect(new Set(names).size).toBe(names.length);
    expect(names).not.toContain(ERROR_EVENT);
  });

  test("only the control stream tells the quota (A10)", () => {
    expect(Object.entries(VOCABULARIES).filter(([, { quota }]) => quota)).toHaveLength(1);
    expect(VOCABULARIES.control.quota).toBe(true);
  });

  test("a stream ends in one of eight ways", () => {
    expect(new Set(STREAM_ENDS).size).toBe(8);
  });
});
