import { describe, expect, test } from "vitest";
import { redactor } from "../supervision/redaction.ts";
import { runCommand } from "./command.fixture.ts";
import { printable, printableJson } from "./printing.ts";

const KEY = "svc_sk_live_4f9aK2mQx7LpT3vBz8Ns";

describe("what is printed", () => {
  test("secrets are masked, those of known shape and those that were registered", () => {
    redactor.register("correct horse battery");
    expect(printable(`${KEY} and correct horse battery`)).toBe("svc_sk_live_...z8Ns and [masked]");
    expect(JSON.parse(printableJson({ a: [KEY], "correct horse battery": 1 }))).toEqual({
      a: ["svc_sk_live_...z8Ns"],
      "[masked]": 1,
    });
  });

  test.each([
    ["a colour", "\u001b[31mred"],
    ["a title of the window", "\u001b]0;title\u0007"],
    ["a link", "\u001b]8;;http://evil\u001b\\text\u001b]8;;\u001b\\"],
    ["a C1 control", "\u009b2J"],
    ["a carriage return that writes over a line", "PASS\rFAIL"],
    ["a backspace", "FAIL\b\b\b\bPASS"],
    ["the direction of writing", "a\u202egnp.exe"],
    ["isolates", "\u2066a\u2069"],
    ["widthless characters", "sk\u200b_live\u2060\ufeff"],
    ["tags", "a\u{e0041}\u{e007f}"],
    ["half a surrogate pair", "a\ud800b"],
    ["a variation selector that carries bytes", "a\u{e0101}\ufe05"],
  ])("what a terminal obeys or does not show is taken out: %s", (_what, text) => {
    const unsafe = /[^\P{Cc}\n\t]|\p{Cf}|\p{Cs}|[\u{e0100}-\u{e01ef}]/u;
    expect(text).toMatch(unsafe);
    expect(printable(text)).not.toMatch(unsafe);
    expect(printableJson({ text: [text], [text]: 1 })).not.toMatch(unsafe);
  });

  test.each([
    "::error::the run failed",
    "::set-output name=verdict::pass",
    "  ::stop-commands::x",
    "ok\n::add-mask::a",
    "ok\u2028::error::x",
    "##[set-env name=PATH;]x",
    "text ##vso[task.setvariable variable=a]b",
    "text ##VSO[task.complete result=Succeeded;]",
    "##teamcity[testFailed name='a']",
  ])("no line is a command to the CI that records it: %j", (text) => {
    const command = /^\s*::|##(?:vso|teamcity)?\[/im;
    expect(printable(text)).not.toMatch(command);
    const json = printableJson({ [text]: text });
    expect(json).not.toMatch(command);
    expect(Object.values(JSON.parse(json) as object)[0]).toContain(text.slice(0, 2));
  });

  test("an honest text is printed as it is", () => {
    const text = "FAIL  verify/cors: 429 b2b_overloaded — «größer» 日本 ✅\n\tkey: value ::x # [a] a::b\n";
    expect(printable(text)).toBe(text);
  });

  test("a mistyped option that holds a key or a command to the CI is told clean and masked", async () => {
    const { err: stderr, said, code } = await runCommand(["load", `--rate=\n::error::\u001b[2J${KEY}`]);
    expect(code).toBe(2);
    expect(said).not.toContain(KEY);
    expect(stderr).not.toMatch(/^\s*::/m);
    expect(stderr).not.toContain("\u001b");
    expect(stderr).toContain("svc_sk_live_...z8Ns");
  });
});
