import { describe, expect, test } from "vitest";
import { clean } from "../contract/foreign-text.ts";
import {
  clip,
  escapeHtml,
  escapeLabel,
  escapeMarkdown,
  escapeXml,
  markdownCode,
  oneLine,
  utf8Bytes,
} from "./escape.ts";
import { HOSTILE } from "./hostile-text.fixture.ts";

describe("escaping", () => {
  test("what XML forbids and a terminal obeys is replaced, line breaks stay", () => {
    expect(clean("a\u0000b\u001b[31mc\ud800d\ufffee\u202ef\r\ng\th")).toBe(
      "a\ufffdb\ufffd[31mc\ufffdd\ufffde\ufffdf\ng\th",
    );
  });

  test("whole characters beyond 16 bits stay", () => {
    expect(clean("\u{1f600}")).toBe("\u{1f600}");
  });

  test("one line is one line", () => {
    expect(oneLine(" a\r\n\tb\u2028c ")).toBe("a b c");
  });

  test("HTML and XML get entities, XML attributes keep their line breaks", () => {
    expect(escapeHtml(`<a href="x">'&`)).toBe("&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
    expect(escapeXml("a\nb")).toBe("a&#10;b");
  });

  test("Markdown gets no markup, no HTML and no further cell, but subcodes stay as they are", () => {
    expect(escapeMarkdown("429 b2b_overloaded | _x_ *y* [z](u) <b>\n# h")).toBe(
      "429 b2b_overloaded \\| \\_x\\_ \\*y\\* \\[z\\](u) &lt;b&gt; \\# h",
    );
    expect(markdownCode("a`b|c\nd")).toBe("`a'b\\|c d`");
    expect(escapeMarkdown(HOSTILE)).not.toMatch(/[\n<]/);
  });

  test("a label cannot end early", () => {
    expect(escapeLabel('a"b\\c\nd')).toBe('a\\"b\\\\c\\nd');
  });

  test("clipping counts and keeps whole characters", () => {
    expect(clip("abc", 3)).toBe("abc");
    expect(clip("\u{1f600}\u{1f600}\u{1f600}", 2)).toBe("\u{1f600}…");
  });

  test.each(["", "a", "é", "€", "\u{1f600}", "a€\u{1f600}"])("bytes of %j are those of UTF-8", (text) => {
    expect(utf8Bytes(text)).toBe(new TextEncoder().encode(text).length);
  });

  test("Markdown calls nobody, links nowhere and shows no picture", () => {
    expect(escapeMarkdown("@org/team see http://evil.example and www.evil.example")).toBe(
      "\uff20org/team see http:\\//evil.example and www\\.evil.example",
    );
    expect(escapeMarkdown("![x](http://evil) <img src=x> [a](b)")).not.toMatch(/(?<!\\)!\[|<img|(?<!\\)\]\(/);
  });
});
