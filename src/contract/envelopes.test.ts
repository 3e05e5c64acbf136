import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type AnyRefusalName, codingOf, readAnswer, writeEnvelope } from "./refusals.ts";

type Case = {
  says: string;
  status: number;
  body?: string;
  base64?: string;
  fill?: (string | number)[];
  outcome: string;
};
const CASES = JSON.parse(readFileSync(new URL("answer-cases.json", import.meta.url), "utf8")) as Case[];

const QUOTA = { meter: "map_loads", limit: 10, used: 10 };

describe("the body of a refusal (section 7.1) (item 182)", () => {
  test.each<[AnyRefusalName, object]>([
    ["unauthenticated", {}],
    ["key_service_unavailable", {}],
    ["insufficient_scope", { detail: "insufficient_scope" }],
    ["map_load_hard_stop", { detail: "map_load_hard_stop" }],
    ["limiter_unavailable", { detail: "limiter_unavailable" }],
    ["rate_limited", { detail: "rate_limited" }],
    ["b2b_overloaded", { error: "b2b_overloaded" }],
    ["org_overloaded", { error: "org_overloaded" }],
    ["tile_access_restricted", { error: "tile_access_restricted" }],
    ["not_found", { detail: "Not Found" }],
  ])("%s", (name, body) => {
    expect(writeEnvelope(name)).toEqual(body);
  });

  test("map_load_quota_exceeded is flat, with its meter", () => {
    expect(writeEnvelope("map_load_quota_exceeded", QUOTA)).toEqual({ error: "map_load_quota_exceeded", ...QUOTA });
  });

  test("malformed_body may say where (item 203)", () => {
    const errors = [{ loc: ["body", "product"], msg: "expected one of chat, editor, viewer, tile", type: "enum" }];
    expect(writeEnvelope("malformed_body", undefined, errors)).toEqual({ detail: "malformed_body", errors });
  });
});

describe("an answer is read as (item 188)", () => {
  type Row = [says: string, status: number, text: string, outcome: string, subcode: string | null, envelope: string];
  test.each<Row>([
    ["a success", 200, '{"styles":[]}', "200", null, "none"],
    ["a success with text that is no JSON", 200, "event: token\n\n", "edge 200", null, "other"],
    ["a failure under 200 (item 97)", 200, '{"error":"no route"}', "200 error", null, "flat"],
    ["a creation", 201, '{"key":"…"}', "201", null, "none"],
    ["an empty success", 204, "", "204", null, "none"],
    ["401 without a word", 401, "{}", "401", null, "none"],
    ["401 with an empty body (item 189)", 401, "", "401", null, "none"],
    ["401 with another's words (item 189)", 401, '{"error":"unauthorized"}', "401", null, "none"],
    ["503 with a body that has no detail", 503, '{"status":"down"}', "503", null, "none"],
    ["a detail", 403, '{"detail":"ip_not_allowed"}', "403 ip_not_allowed", "ip_not_allowed", "detail"],
    ["a flat refusal", 429, '{"error":"b2b_overloaded"}', "429 b2b_overloaded", "b2b_overloaded", "flat"],
    [
      "a subcode in the wrong envelope, named all the same",
      429,
      '{"detail":"org_overloaded"}',
      "429 org_overloaded",
      "org_overloaded",
      "detail",
    ],
    [
      "both envelopes at once",
      429,
      '{"detail":"rate_limited","error":"x"}',
      "429 rate_limited",
      "rate_limited",
      "both",
    ],
    [
      "the older name of a mismatch (item 73)",
      403,
      '{"detail":"origin_not_allowed"}',
      "403 session_origin_mismatch",
      "session_origin_mismatch",
      "detail",
    ],
    [
      "a 422 of any kind (item 202)",
      422,
      '{"detail":"body.product: bad"}',
      "422 malformed_body",
      "malformed_body",
      "detail",
    ],
    [
      "a 422 as FastAPI writes it",
      422,
      '{"detail":[{"loc":["body"]}]}',
      "422 malformed_body",
      "malformed_body",
      "detail",
    ],
    [
      "a subcode that is not in the catalogue",
      403,
      '{"detail":"on_tuesdays_only"}',
      "403 on_tuesdays_only",
      "on_tuesdays_only",
      "detail",
    ],
    [
      "a subcode that is a word of every object",
      403,
      '{"detail":"constructor"}',
      "403 other_11_6d12",
      "other_11_6d12",
      "detail",
    ],
    ["a balancer's page", 502, "<html>Bad Gateway</html>", "edge 502", null, "other"],
    ["a firewall's 429", 429, "slow down", "edge 429", null, "other"],
    ["a 429 without a word", 429, "{}", "edge 429", null, "none"],
    ["a 503 page, which the API did not write", 503, "<html></html>", "edge 503", null, "other"],
    ["an empty 500", 500, "", "edge 500", null, "none"],
    ["a page where one signs in", 200, "<html></html>", "edge 200", null, "other"],
    ["bytes in a coding that nobody named", 200, "\u001f\u008b\b", "edge 200", null, "other"],
    ["a success without a body", 204, "", "204", null, "none"],
    ["a success that is a word of JSON", 200, " null ", "200", null, "other"],
    ["a page that moved", 301, "<html></html>", "edge 301", null, "other"],
    ["a gateway's own JSON", 502, '{"error":"Bad Gateway"}', "edge 502", null, "flat"],
    ["a head that is too large, by a gateway's JSON", 431, '{"detail":"too large"}', "edge 431", null, "detail"],
    [
      "a gateway's sentence where the API has a subcode",
      429,
      '{"error":"Too Many Requests"}',
      "edge 429",
      null,
      "flat",
    ],
    [
      "a framework's error with the subcode as its message",
      429,
      '{"statusCode":429,"error":"Too Many Requests","message":"b2b_overloaded"}',
      "429 b2b_overloaded",
      "b2b_overloaded",
      "other",
    ],
    [
      "a subcode inside a detail",
      429,
      '{"detail":{"error":"org_overloaded"}}',
      "429 org_overloaded",
      "org_overloaded",
      "other",
    ],
    [
      "a problem document with the subcode as its code",
      403,
      '{"title":"Forbidden","status":403,"code":"ip_not_allowed"}',
      "403 ip_not_allowed",
      "ip_not_allowed",
      "other",
    ],
    ["a gateway's words as a message", 403, '{"message":"forbidden"}', "edge 403", null, "none"],
    ["a subcode of another status", 429, '{"message":"ip_not_allowed"}', "edge 429", null, "none"],
    ["a problem document", 429, '{"title":"Too Many Requests","detail":"Slow down"}', "edge 429", null, "detail"],
    [
      "a problem document of a failure",
      500,
      '{"title":"Failed","status":500,"detail":"No"}',
      "edge 500",
      null,
      "detail",
    ],
    ["a subcode that was invented", 429, '{"error":"slow_down"}', "429 slow_down", "slow_down", "flat"],
    ["an API's exception", 500, '{"error":"Internal Server Error"}', "500 other_21_c932", "other_21_c932", "flat"],
  ])("%s", (_, status, text, outcome, subcode, envelope) => {
    expect(readAnswer(status, text)).toMatchObject({ outcome, subcode, envelope });
  });

  // src/native/sse/answer_cases_test.go reads the same cases; it does not name subcodes.
  test.each(CASES)("$says, as in Go", ({ status, body, base64, fill, outcome }) => {
    const written = base64 === undefined ? (body as string) : new TextDecoder().decode(Buffer.from(base64, "base64"));
    const [piece, times] = fill ?? ["", 0];
    const { outcome: read } = readAnswer(status, written.replace("$", (piece as string).repeat(times as number)));
    expect(read.startsWith("edge ") ? read : read.slice(0, 3)).toBe(outcome);
  });

  test("a success of any kind where that may be, and nobody's where it is coded", () => {
    expect(readAnswer(200, "\u0089PNG", { anyBody: true }).outcome).toBe("200");
    expect(readAnswer(200, '{"ok":true}', { coding: "gzip" }).outcome).toBe("edge 200");
    expect(readAnswer(429, '{"detail":"rate_limited"}', { coding: "br" }).outcome).toBe("edge 429");
  });

  test.each([
    ["gzip", "gzip"],
    ["GZIP", "gzip"],
    ["x-gzip", "gzip"],
    [" identity , br", "br"],
    ["br, gzip", "br"],
    ["of-our-own", "unknown"],
    ["identity", null],
    ["", null],
    [undefined, null],
  ])("Content-Encoding %o is %o", (value, coding) => {
    expect(codingOf(value)).toBe(coding);
  });

  test("the quota refusal keeps what it says of the meter, right or wrong", () => {
    const text = '{"error":"map_load_quota_exceeded","meter":"map_loads","limit":10,"used":"many"}';
    expect(readAnswer(429, text).quota).toEqual({ meter: "map_loads", limit: 10, used: "many" });
  });
});
