import { describe, expect, test } from "vitest";
import { cutLines, messageIn, unreadSentence } from "./lines.ts";

const linesOf = (chunks: readonly (string | Buffer)[], maxChars?: number): string[] => {
  const lines: string[] = [];
  const cutter = cutLines((line) => lines.push(line), maxChars);
  for (const chunk of chunks) cutter.push(Buffer.from(chunk as string));
  cutter.end();
  return lines;
};

describe("lines between our processes", () => {
  test("end at LF alone: not at U+2028, U+2029, CR, NEL or a form feed, however the pieces come", () => {
    const message = { type: "call", code: "a\u2028b\u2029c\rd\u0085e\ff" };
    const text = `${JSON.stringify(message)}\n`;
    const bytes = Buffer.from(text + text);
    for (const size of [1, 2, 3, 7, bytes.length]) {
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
        bytes.subarray(i * size, (i + 1) * size),
      );
      expect(linesOf(chunks).map(messageIn)).toEqual([message, message]);
    }
  });

  test("half a line at the end is a line that cannot be read", () => {
    const whole = JSON.stringify({ type: "secret", value: "svc_sk_live_0123456789abcdef" });
    expect(linesOf([`${whole}\n`, whole.slice(0, -3)]).map(messageIn)).toEqual([JSON.parse(whole), null]);
  });

  test("what is no message is none, whatever else it is", () => {
    expect(["", "null", "42", "[]", "{}", '{"type":1}', "x", '"text"'].map(messageIn)).toEqual(Array(8).fill(null));
    expect([0, 1, 2].map((count) => unreadSentence(count, "it"))).toEqual([
      null,
      "1 line of it could not be read",
      "2 lines of it could not be read",
    ]);
  });

  test("a line that comes whole is cut at the same bound as one that comes in pieces", () => {
    expect(linesOf([`${"x".repeat(60)}\nnext\n`], 40)).toEqual(["x".repeat(40), "next"]);
  });

  test("a line without an end is cut, and the next is whole", () => {
    expect(linesOf(["x".repeat(30), "y".repeat(30), "\nnext\n"], 40)).toEqual([
      `${"x".repeat(30)}${"y".repeat(10)}`,
      "next",
    ]);
  });
});
