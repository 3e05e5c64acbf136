import { describe, expect, test } from "vitest";
import {
  type Envelope,
  LEGACY_SUBCODES,
  OUTCOMES,
  outcomeOf,
  REFUSALS,
  type RefusalName,
  refusalOf,
  SHEDS,
} from "./refusals.ts";

/** Section 7.2 and 7.3 row by row, with part D's column `Retry-After`. */
const CATALOGUE: [RefusalName, number, Envelope, number | null][] = [
  ["unauthenticated", 401, "none", null],
  ["publishable_requires_session", 401, "detail", null],
  ["insufficient_scope", 403, "detail", null],
  ["tier_capability_not_allowed", 403, "detail", null],
  ["origin_required", 403, "detail", null],
  ["session_origin_mismatch", 403, "detail", null],
  ["product_not_allowed", 403, "detail", null],
  ["server_key_in_browser", 403, "detail", null],
  ["ip_not_allowed", 403, "detail", null],
  ["publishable_key_required", 403, "detail", null],
  ["sessions_disabled", 403, "detail", null],
  ["sessions_not_configured", 403, "detail", null],
  ["malformed_body", 422, "detail", null],
  ["unknown_scope", 422, "detail", null],
  ["unknown_product", 422, "detail", null],
  ["publishable_live_requires_origins", 422, "detail", null],
  ["free_plan_publishable_only", 403, "detail", null],
  ["plan_required", 403, "detail", null],
  ["vendor_scope_requires_acknowledgement", 403, "detail", null],
  ["key_limit_reached", 409, "detail", null],
  ["map_load_quota_exceeded", 429, "flat", null],
  ["map_load_hard_stop", 429, "detail", null],
  ["tile_access_restricted", 429, "flat", 3600],
  ["b2b_overloaded", 429, "flat", 1],
  ["org_overloaded", 429, "flat", 1],
  ["limiter_unavailable", 429, "detail", 1],
  ["rate_limited", 429, "detail", 1],
  ["key_service_unavailable", 503, "none", 1],
];

describe("the catalogue (item 183)", () => {
  test.each(CATALOGUE)("%s: %i, %s, Retry-After %s", (name, status, envelope, retryAfterS) => {
    expect(refusalOf(name)).toMatchObject({ status, envelope, retryAfterS });
  });

  test("has no row beyond the specification's", () => {
    expect(Object.keys(REFUSALS).sort()).toEqual(CATALOGUE.map(([name]) => name).sort());
  });

  test("is retryable exactly where the specification says so (item 219)", () => {
    const retryable = CATALOGUE.map(([name]) => name).filter((name) => refusalOf(name).retryable);
    expect(retryable).toEqual([
      "b2b_overloaded",
      "org_overloaded",
      "limiter_unavailable",
      "rate_limited",
      "key_service_unavailable",
    ]);
  });

  test("gives every refusal an outcome of its own, and 30 in all", () => {
    expect(new Set(OUTCOMES).size).toBe(30);
    expect(OUTCOMES).toHaveLength(30);
  });

  test.each<[RefusalName, string]>([
    ["unauthenticated", "401"],
    ["key_service_unavailable", "503"],
    ["org_overloaded", "429 org_overloaded"],
  ])("%s is counted as %s", (name, outcome) => {
    expect(outcomeOf(name)).toBe(outcome);
  });

  test("calls two refusals shedding, and no other", () => {
    expect(SHEDS).toEqual(["b2b_overloaded", "org_overloaded"]);
  });

  test("knows one older name (item 73)", () => {
    expect(LEGACY_SUBCODES).toEqual({ origin_not_allowed: "session_origin_mismatch" });
  });
});
