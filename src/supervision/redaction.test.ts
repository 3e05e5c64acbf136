import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CODED } from "./coded-secrets.fixture.ts";
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

describe("the parts of a secret", () => {
  const basic = `Basic ${Buffer.from("operator:hunter22!x").toString("base64")}`;

  test.each([
    ["a token behind its scheme", "Bearer q7Zk93hfMm", ["q7Zk93hfMm"]],
    ["a token behind a scheme of one's own", "Token q7Zk93hfMm", ["q7Zk93hfMm"]],
    ["Basic, decoded", basic, ["operator", "hunter22!x", "operator:hunter22!x", basic.slice(6)]],
    ["each cookie", "sid=9f8e7d6c5b; theme=dark; csrf=Zx81kqpo==", ["9f8e7d6c5b", "Zx81kqpo=="]],
    ["parameters of Digest", 'Digest username="operator1", response="6629fae49393a05397450978507c4ef1"', ["operator1"]],
    ["user and password of a URL", "http://operator:hun%20ter22@proxy:3128", ["operator", "hun ter22", "hun%20ter22"]],
    [
      "values of its query",
      "https://otlp.example/v1?token=q7Zk93hfMm&region=europe#key=aBcD1234",
      ["q7Zk93hfMm", "aBcD1234"],
    ],
    ["what an exec: prints as JSON", '{"data":{"access_token":"q7Zk93hfMm","token_type":"Bearer"}}', ["q7Zk93hfMm"]],
    ["a URL in that JSON", '{"url":"redis://:hunter22!x@cache:6379"}', ["hunter22!x"]],
    ["each line", "q7Zk93hfMm11AAAA\nu8Zk93hfMm22BBBB", ["q7Zk93hfMm11AAAA", "u8Zk93hfMm22BBBB"]],
  ])("are masked by themselves: %s", (_what, secret, parts) => {
    const redactor = new Redactor();
    expect(redactor.register(secret, "field")).toBe(true);
    for (const part of parts) expect(redactor.redact(`<${part}>`)).toBe("<[masked]>");
  });

  test("what is no secret of it is not: names, schemes, words of a query, the host", () => {
    const redactor = new Redactor();
    redactor.register("https://operator:hunter22@proxy.example:3128/path?region=europe", "transport.proxy");
    redactor.register('{"token_type":"Bearer","access_token":"q7Zk93hfMm"}', "credentials.server.key");
    redactor.register("sid=9f8e7d6c5b; theme=dark", "transport.headers.cookie");
    const text = "proxy.example:3128 in europe asked for Bearer, theme=dark, token_type, sid";
    expect(redactor.redact(text)).toBe(text);
  });

  const SECRET = `correct <horse> "battery" 'staple' & $taple/9`;

  test.each([
    ["JSON", JSON.stringify(SECRET)],
    ["a URL", encodeURIComponent(SECRET)],
    ["a form", encodeURIComponent(SECRET).replaceAll("%20", "+")],
    [
      "a page",
      SECRET.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)
        .replaceAll("&#38;", "&amp;")
        .replaceAll("&#60;", "&lt;")
        .replaceAll("&#62;", "&gt;")
        .replaceAll("&#34;", "&quot;"),
    ],
    ["a shell", `'${SECRET.replaceAll("'", `'\\''`)}'`],
    ["a shell's double quotes", `"${SECRET.replace(/["\\`$]/g, "\\$&")}"`],
  ])("a secret is masked as %s writes it", (_notation, text) => {
    const redactor = new Redactor();
    redactor.register(SECRET);
    expect(redactor.redact(text)).toMatch(/^['"]?\[masked\]['"]?$/);
  });

  test.each(Object.entries(CODED))("and in another coding: %s", (_coding, code) => {
    const redactor = new Redactor();
    for (const secret of [KEY, "q7Zk93hfMm-Xy", "correct horse"]) {
      redactor.register(secret);
      const masked = redactor.redact(`{"detail":"${code(secret)}"}`);
      expect(masked).not.toContain(code(secret));
      // Padding, and what stands at the edge of a coded text, may be left.
      expect(masked.replace(/\[masked\]|svc_s.*z8Ns|svc_s.*qrst/, "").length).toBeLessThan(22);
    }
  });

  test("what is too short to be masked is told by its field, once, and never by its value", () => {
    const redactor = new Redactor();
    const told: string[] = [];
    redactor.register("1", "transport.headers.x-canary");
    redactor.listenForUnmaskable((what) => told.push(what));
    redactor.register("1", "transport.headers.x-canary");
    redactor.register("http://ab:hunter22xx@proxy", "transport.proxy");
    redactor.register("Bearer q7Zk93hfMm", "transport.headers.authorization");
    expect(told).toEqual(["transport.headers.x-canary", "transport.proxy"]);
    expect(redactor.redact("1 ab hunter22xx")).toBe("1 ab [masked]");
  });

  test("secrets that overlap leave no tail of either", () => {
    const redactor = new Redactor();
    redactor.register("abcdefgh1");
    redactor.register("gh1klmnop2");
    expect(redactor.redact("<abcdefgh1klmnop2>")).toBe("<[masked]>");
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
