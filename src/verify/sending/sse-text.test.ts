import { describe, expect, test } from "vitest";
import { readSseText } from "./answer-bytes.ts";

const read = (...texts: string[]) => readSseText(texts.map((text, i) => ({ text, atUs: i })));

describe("the text of an event stream", () => {
  test("is read the same whatever its line endings are and wherever it is cut", () => {
    for (const end of ["\n", "\r\n", "\r"]) {
      const whole = `: hello${end}event: token${end}data: {"a":1}${end}${end}event: done${end}data: {}${end}${end}`;
      for (let at = 0; at <= whole.length; at++) {
        const { frames, strange, unfinished } = read(whole.slice(0, at), whole.slice(at));
        expect(frames.map(({ event, json, inOrder }) => ({ event, json, inOrder }))).toEqual([
          { event: "token", json: { a: 1 }, inOrder: true },
          { event: "done", json: {}, inOrder: true },
        ]);
        expect([strange, unfinished]).toEqual([[], false]);
      }
    }
  });

  test("a missing name, data that is no JSON, and the wrong order are seen", () => {
    const { frames } = read('data: {"a":1}\n\nevent: x\ndata: [DONE]\n\ndata: 1\nevent: y\n\n');
    expect(frames[0]?.event).toBeNull();
    expect(frames[1]?.json).toBeUndefined();
    expect(frames[2]?.inOrder).toBe(false);
  });

  test("an event that no empty line ends is read, and told", () => {
    for (const end of ["\n", "\r\n", "\r"]) {
      const open = `event: token${end}data: 1${end}${end}event: done${end}data: 2`;
      for (const text of [open, `${open}${end}`, `${open}${end}: a comment${end}`]) {
        const { frames, unfinished } = read(text);
        expect([frames.map(({ json }) => json), unfinished]).toEqual([[1, 2], true]);
      }
      for (const more of ["", ": a comment", `: a comment${end}`, `event: nothing${end}`])
        expect(read(`${open}${end}${end}${more}`).unfinished).toBe(false);
    }
  });

  test("a line that is no field is reported, and comments alone are no frame", () => {
    const { frames, strange } = read(": ping\n\n{}\n");
    expect(frames).toEqual([]);
    expect(strange).toEqual(["{}"]);
  });
});
