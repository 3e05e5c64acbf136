import { describe, expect, test } from "vitest";
import {
  distinctNames,
  foreignError,
  foreignMoment,
  foreignName,
  foreignValue,
  REFUSAL_BODY_MOST,
  shapeOf,
  shapeOfBody,
} from "./foreign-text.ts";
import { readAnswer } from "./refusals.ts";

describe("the boundary for foreign text", () => {
  // The same table stands in native/sse/foreign_test.go.
  test.each([
    ["b2b_overloaded", "b2b_overloaded"],
    ["tenant_suspended", "tenant_suspended"],
    ["", "other_0_1cd9"],
    ["Invalid API key", "other_15_3702"],
    ["7376635f736b5f6c6976655f616263646566313233", "other_42_21be"],
    ["x".repeat(3_000_000), "other_3000000_3dde"],
    ["73_69_64_3d_39_66_38_65_37", "other_26_d37f"],
    ["s_v_c_p_k_l_i_v_e", "other_17_2bb3"],
    ["426097393985", "other_12_e2ba"],
    ["svc_sk_l_ive_4f9a_k2mq", "other_22_e8cc"],
    ["http2_h2c_oauth2_tls_1_3", "http2_h2c_oauth2_tls_1_3"],
    ["__proto__", "other_9_eecc"],
    ["constructor", "other_11_6d12"],
    ["häuser \u{1F600}", "other_9_5163"],
  ])("a word is shown as it is, anything else by its length and hash: %#", (text, shown) => {
    expect(foreignName(text)).toBe(shown);
    expect(foreignName(shown)).toBe(shown);
  });

  test("numbers stay numbers, and moments and the transport's own words stay legible", () => {
    expect([1.5, true, null, undefined].map(foreignValue)).toEqual([1.5, true, null, undefined]);
    expect(["1", "1.5", "Wed, 21 Oct 2015 07:28:00 GMT"].map(foreignMoment)).toEqual([
      "1",
      "1.5",
      "Wed, 21 Oct 2015 07:28:00 GMT",
    ]);
    for (const word of ["ECONNRESET", "UND_ERR_SOCKET", "first-event-timeout", "after the terminal event: ECONNRESET"])
      expect(foreignError(word)).toBe(word);
  });

  test("a body is shown by its shape: names and small values of the contract, of other texts the length", () => {
    expect(shapeOf({ error: "map_load_quota_exceeded", limit: 5, used: 5 })).toBe(
      '{error: "map_load_quota_exceeded", limit: 5, used: 5}',
    );
    expect(shapeOf({ detail: [{ loc: ["body", 1], msg: "Field required" }] })).toBe(
      "{detail: a list of 1, the first {loc: a list of 2, msg: a text of 14 characters (#f54e)}}",
    );
    expect(shapeOfBody("<html>", undefined)).toMatch(/^6 characters that are no JSON \(#[0-9a-f]{4}\)$/);
    const wide = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`field_${i}`, i]));
    expect(shapeOf(wide).length).toBeLessThan(400);
  });

  test("a refusal of megabytes is no envelope, and is not read", () => {
    expect(readAnswer(403, JSON.stringify({ detail: "x".repeat(REFUSAL_BODY_MOST) })).outcome).toBe("edge 403");
    expect(readAnswer(403, JSON.stringify({ detail: "ip_not_allowed", more: "x".repeat(1000) })).outcome).toBe(
      "403 ip_not_allowed",
    );
  });

  test("of distinct names so many pass, and those beyond are one", () => {
    const name = distinctNames(2, "others");
    expect(["a", "b", "a", "c", "d", "b"].map(name)).toEqual(["a", "b", "a", "others", "others", "b"]);
  });
});
