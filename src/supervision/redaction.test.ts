import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Redactor } from "./redaction.ts";

const KEY = "svc_sk_live_abcdefghijklmnopqrst";
const JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJvcmdfYSJ9.c2lnbmF0dXJlMTIz";

describe("redaction", () => {
  test("a credential of known shape is masked to prefix and last four, unregistered", () => {
    expect(new Redactor().redact(`key=${KEY}, token ${JWT}.`)).toBe("key=svc_sk_live_...qrst, token eyJ...MTIz.");
  });

  test("a registered value of no shape is masked whole, wherever it stands", () => {
    const redactor = new Redactor();
    expect(redactor.register('p"ss w/ord+1')).toBe(true);
    expect(redactor.redact('a p"ss w/ord+1 b')).toBe("a [masked] b");
    expect(redactor.redact(JSON.stringify({ password: 'p"ss w/ord+1' }))).toBe('{"password":"[masked]"}');
    expect(redactor.redact(`?q=${encodeURIComponent('p"ss w/ord+1')}`)).toBe("?q=[masked]");
  });

  test("a secret that begins like another leaves no tail", () => {
    const redactor = new Redactor();
    redactor.register("hunter22");
    redactor.register("hunter22-and-more");
    expect(redactor.redact("hunter22-and-more hunter22")).toBe("[masked] [masked]");
  });

  test("a key with characters that its shape does not cover is masked whole once registered", () => {
    const redactor = new Redactor();
    redactor.register("svc_pk_live_abc+def/ghi=jkl");
    expect(redactor.redact("<svc_pk_live_abc+def/ghi=jkl>")).toBe("<svc_pk_live_...=jkl>");
  });

  test("each line of a secret of several lines is masked by itself", () => {
    const redactor = new Redactor();
    redactor.register(
      "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n-----END PRIVATE KEY-----\n",
    );
    expect(redactor.redact("line: 9w0BAQEFAASCBKcwggSj")).toBe("line: [masked]");
  });

  test("what is too short to be masked is told to the caller", () => {
    expect(new Redactor().register("abc")).toBe(false);
    expect(new Redactor().register("      ")).toBe(false);
  });

  test("masking twice is masking once", () => {
    const redactor = new Redactor();
    redactor.register("correct horse");
    const once = redactor.redact(`${KEY} ${JWT} correct horse`);
    expect(redactor.redact(once)).toBe(once);
  });

  test("all texts in a JSON value are masked, and nothing else is changed", () => {
    const redactor = new Redactor();
    redactor.register("correct horse");
    expect(redactor.redactValue({ a: [KEY, 1, null], "correct horse": { b: true } })).toEqual({
      a: ["svc_sk_live_...qrst", 1, null],
      "[masked]": { b: true },
    });
  });
});

describe("the lines of a stream", () => {
  const run = (redactor: Redactor, chunks: Buffer[], maxChars?: number): string[] => {
    const got: string[] = [];
    const lines = redactor.lines((line) => got.push(line), maxChars);
    for (const chunk of chunks) lines.push(chunk);
    lines.end();
    return got;
  };

  test("however the bytes are cut, the lines are the same and no secret stands in them", () => {
    const redactor = new Redactor();
    redactor.register("correct horse ü");
    const text = `first ${KEY} x\r\nsecond correct horse ü y\n\nlast ${JWT}`;
    const bytes = Buffer.from(text);
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 20 }), (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), bytes.length];
        const chunks = at.slice(1).map((end, i) => bytes.subarray(at[i], end));
        expect(run(redactor, chunks)).toEqual([
          "first svc_sk_live_...qrst x",
          "second [masked] y",
          "",
          "last eyJ...MTIz",
        ]);
      }),
    );
  });

  test("a line over the limit is cut where no secret can be split, and the next line is whole again", () => {
    const long = `${"a ".repeat(20)}${KEY}${KEY}`;
    expect(run(new Redactor(), [Buffer.from(long), Buffer.from(`${KEY}\nnext\n`)], 60)).toEqual([
      `${"a ".repeat(20).trimEnd()} [line over 60 characters, cut]`,
      "next",
    ]);
  });

  test("a line without any blank over the limit is left out", () => {
    expect(run(new Redactor(), [Buffer.from("x".repeat(100)), Buffer.from("x\nnext")], 60)).toEqual([
      "[line over 60 characters, cut]",
      "next",
    ]);
  });
});
