import { describe, expect, test } from "vitest";
import type { Defect } from "../../properties/second-api/names.ts";
import { verdictOf } from "./verdict.fixture.ts";
import { verifySecondApi } from "./verify-second-api.fixture.ts";

/** A defect, and the rule that names it. */
const DEFECTS: readonly (readonly [defects: Defect | readonly Defect[], rule: string])[] = [
  ["wraps-the-flat-body", "envelope-fits-subcode"],
  ["flattens-the-detail", "envelope-fits-subcode"],
  ["says-subcodes-as-messages", "envelope-fits-subcode"],
  ["both-envelopes", "envelope-fits-subcode"],
  ["flat-hard-stop", "envelope-fits-subcode"],
  ["detail-on-401", "unauthenticated-has-no-detail"],
  ["403-for-nobody", "missing-credential"],
  ["403-without-a-word", "missing-credential"],
  ["open-catalogs", "missing-credential"],
  ["asks-no-key-on-odd-paths", "missing-credential-on-odd-paths"],
  ["503-for-unknown", "invalid-credential"],
  ["any-signature", "forged-session"],
  ["alg-none", "forged-session"],
  ["looks-at-the-first-characters", "forged-session"],
  ["takes-half-a-signature", "forged-session"],
  ["500-on-sessions-without-dots", "unparsable-session"],
  ["500-on-sessions-of-bad-base64", "unparsable-session"],
  ["500-on-sessions-without-json", "unparsable-session"],
  ["500-on-sessions-without-claims", "unparsable-session"],
  ["forgets-the-case", "near-miss-of-a-credential"],
  ["strips-keys", "near-miss-of-a-credential"],
  ["500-on-foreign-letters", "hostile-input"],
  ["403-on-foreign-letters", "key-with-a-foreign-letter"],
  ["one-stop-for-all", "allowance-is-per-organization"],
  ["charges-whoever-comes-last", "allowance-is-per-organization"],
  ["takes-null-for-enough", "session-origin-null"],
  ["echoes-the-credential", "credentials-are-not-echoed"],
  ["serves-revoked", "revoked-key"],
  ["serves-expired", "expired-key"],
  ["ignores-x-api-key", "either-header"],
  ["500-on-malformed", "no-server-errors"],
  ["500-on-broken-json", "malformed-runtime-body"],
  ["streams-malformed", "malformed-runtime-body"],
  ["400-on-malformed", "malformed-exchange-body"],
  ["mints-anything", "wrong-product-is-refused"],
  ["mints-for-an-hour", "session-lifetime-is-bounded"],
  ["expires-in-an-hour", "session-expires-in"],
  ["expires-in-text", "session-expires-in"],
  ["token-without-env", "session-token-format"],
  ["echoes-chat", "session-product"],
  ["null-style", "session-basemap-style-absent"],
  ["forgets-the-style", "session-basemap-style-is-returned"],
  ["renames-the-style", "session-basemap-style-is-returned"],
  ["tells-the-style-to-chat-alone", "session-basemap-style-is-returned"],
  ["has-a-style-for-everybody", "session-basemap-style-is-no-default"],
  ["tells-another-style", "session-basemap-style"],
  ["refuses-chat-of-others", "organizations-are-served-alike"],
  ["exchanges-server-keys", "exchange-wrong-kind"],
  ["wrong-kind-is-401", "exchange-wrong-kind"],
  ["renews-sessions", "exchange-with-a-session"],
  ["no-origin-is-fine", "exchange-origin-required"],
  ["takes-the-referer", "exchange-origin-required"],
  ["any-origin", "exchange-origin-mismatch"],
  ["invents-a-subcode", "subcode-is-in-the-catalogue"],
  ["matches-by-prefix", "origin-lookalikes"],
  ["matches-by-suffix", "origin-lookalikes"],
  ["matches-a-part", "origin-lookalikes"],
  ["takes-dots-for-anything", "origin-lookalikes"],
  ["session-from-anywhere", "session-origin-mismatch"],
  ["origin-before-kind", "exchange-order-kind-before-origin"],
  ["product-before-origin", "exchange-order-origin-before-product"],
  ["quota-before-origin", "exchange-order-origin-before-quota"],
  ["mints-without-scope", "exchange-insufficient-scope"],
  ["product-for-scope", "exchange-insufficient-scope"],
  ["mints-any-product", "exchange-product-not-allowed"],
  ["remembers-the-old-tier", "exchange-tier-capability"],
  ["scope-for-tier", "exchange-tier-capability"],
  ["forgets-a-scope", "runtime-insufficient-scope"],
  ["tier-for-scope", "runtime-insufficient-scope"],
  ["loses-a-scope-on-one-route", "runtime-admits"],
  ["closes-a-scope-as-a-product", "runtime-admits"],
  ["serves-publishable-keys", "publishable-key-at-runtime"],
  ["publishable-as-403", "publishable-key-at-runtime"],
  ["serves-publishable-keys", "publishable-key-at-tiles"],
  ["server-key-in-any-browser", "server-key-in-browser"],
  ["cors-for-server-keys", "server-key-is-blocked-by-cors"],
  ["any-address", "ip-not-allowed"],
  ["tile-without-retry-after", "tile-restriction-says-3600"],
  ["restricts-tiles-with-403", "status-fits-subcode"],
  ["wrong-meter", "quota-body-fields"],
  ["used-as-text", "quota-exceeded"],
  ["quota-as-403", "quota-exceeded"],
  ["charges-every-mint", "quota-concerns-tile-only"],
  ["charges-every-mint", "other-products-are-not-charged"],
  ["charges-the-refused", "refused-mint-is-not-charged"],
  ["never-counts", "quota-exceeded"],
  ["never-hard-stops", "hard-stop"],
  ["hard-stops-two-late", "hard-stop"],
  ["never-hard-stops", "soft-band-and-hard-stop"],
  ["quota-code-at-hard-stop", "soft-band-and-hard-stop"],
  ["stops-at-the-soft-band", "soft-band-and-hard-stop"],
  ["admits-one-too-many", "allowance-is-exact"],
  ["stops-one-early", "allowance-is-exact"],
  ["trusts-the-client-id", "allowance-is-exact"],
  ["never-stops-loads", "used-up-allowance-stops-loads"],
  ["route-failure-as-400", "route-failures-are-200"],
  ["route-failure-as-404", "route-failures-are-200"],
  ["route-failure-as-422", "route-failures-are-200"],
  ["route-error-object", "route-failures-are-200"],
  ["catalog-as-text", "answers-are-json"],
  ["refuses-as-text", "refusals-are-json"],
  ["stream-as-text", "stream-content-type"],
  ["nameless-events", "stream-frames"],
  ["ends-with-done-text", "stream-frames"],
  ["speaks-control-everywhere", "stream-contracts-differ"],
  ["buffers", "stream-is-not-buffered"],
  ["compresses-streams-late", "compressed-stream-is-not-buffered"],
  ["cuts-streams", "stream-is-not-cut-every-time"],
  ["cuts-streams", "stream-ends-cleanly"],
  [["error-events", "error-without-partial-text"], "stream-error-event"],
  [["error-events", "talks-after-error"], "stream-nothing-after-error"],
  ["ends-sessions-early", "session-lasts"],
  ["cors-for-json-alone", "cors-for-every-answer-to-a-listed-origin"],
  ["cors-for-another", "cors-for-every-answer-to-a-listed-origin"],
  ["takes-null-origin", "exchange-origin-null"],
  ["500-on-null", "hostile-input"],
  ["500-on-depth", "hostile-input"],
  ["500-on-escapes", "hostile-input"],
  ["500-on-long-heads", "hostile-input"],
  ["500-on-long-bodies", "hostile-input"],
  ["500-on-long-texts", "hostile-input"],
  ["500-on-great-numbers", "hostile-input"],
  ["500-on-bad-utf8", "hostile-input"],
  ["500-on-half-pairs", "hostile-input"],
  ["500-on-null-characters", "hostile-input"],
  ["500-on-proto", "hostile-input"],
  ["summary-speaks-control", "stream-contracts-differ"],
  ["counts-nothing", "allowance-is-exact"],
  ["counts-nothing", "soft-band-and-hard-stop"],
  ["no-band-at-all", "soft-band-and-hard-stop"],
  ["stops-hard-at-twice", "soft-band-and-hard-stop"],
  ["stops-hard-at-four-times", "soft-band-and-hard-stop"],
  ["loses-counts", "allowance-is-exact"],
  ["counts-by-replica", "allowance-is-exact"],
  ["counts-by-replica", "soft-band-and-hard-stop"],
  ["mixes-up-callers", "simultaneous-calls-keep-apart"],
  ["mints-for-the-latest", "simultaneous-calls-keep-apart"],
  ["preflights-without-a-key", "preflight-allows-a-credential"],
  ["preflights-need-a-key", "preflight-allows-a-credential"],
  ["null-style-for-others", "session-basemap-style-absent"],
  ["ends-tokens-early", "session-end-fits-expires-in"],
  ["refuses-in-sentences", "exchange-insufficient-scope"],
  ["takes-an-empty-origin", "exchange-origin-required"],
  ["takes-its-own-origin", "exchange-origin-mismatch"],
  ["compresses-unasked", "answers-have-no-unasked-coding"],
];

describe("a deployment with one defect", () => {
  test.concurrent.each(DEFECTS)("%s fails the rule %s", async (defects, rule) => {
    expect(await verdictOf(defects, rule)).toBe("fail");
  });
});

test("a stream that is compressed as it is made passes", async () => {
  const rule = "compressed-stream-is-not-buffered";
  expect(await verdictOf([], rule, ["compresses-streams"])).toMatch(/^pass/);
});

describe.concurrent("a deployment that checks its allowance before it charges it", () => {
  const CAPPED = ["mints-hold-slots", "has-small-caps"] as const;
  test.each([
    ["fail", "checks-then-charges", []],
    ["fail", "checks-then-charges", CAPPED],
    ["fail", "checks-then-charges", [...CAPPED, "states-no-numbers"]],
    ["pass", [], []],
    ["pass", [], CAPPED],
    ["pass", [], [...CAPPED, "states-no-numbers"]],
  ] as const)("%ss where mints meet at the last unit: %s, %s", async (verdict, defect, variants) => {
    // Item 234 leaves open how exact a count is at once: no must fails.
    const others = ["allowance-is-exact", "soft-band-and-hard-stop"].map((rule) => [rule, "pass"] as const);
    for (const [rule, wanted] of [["allowance-holds-at-once", verdict] as const, ...others]) {
      let said = await verdictOf(defect, rule, variants);
      // Two mints meet by chance, and on a busy machine not every time.
      for (let again = 0; again < 3 && wanted === "fail" && !said.startsWith("fail"); again += 1) {
        said = await verdictOf(defect, rule, variants);
      }
      expect(said.replace(/ .*/, ""), said).toBe(wanted);
      // Where no cap is stated, it may be found only by mints that are shed at the edge.
      if (!variants.some((name) => name === "states-no-numbers")) expect(said).not.toMatch(/one mint at a time/);
    }
  });
});

describe.concurrent("a deployment whose count of map loads lags", () => {
  const RULES = ["allowance-is-exact", "soft-band-and-hard-stop", "allowance-holds-at-once"];
  test.each([
    [["pass", "pass", "fail"], { variants: ["counts-late"] }],
    [["pass", "pass", "pass"], {}],
    [["fail", "fail", "skipped"], { variants: ["counts-late"], defects: ["never-counts"] }],
  ] as const)("is %s, because it counts in the end", async (verdicts, parts) => {
    const { claims } = await verifySecondApi(parts, { allowQuotaBurn: true, settleMs: 1_500, only: RULES });
    expect(claims.map(({ verdict, reason }) => `${verdict} ${reason}`)).toEqual(
      verdicts.map((verdict) => expect.stringMatching(`^${verdict}`)),
    );
  });
});

test.concurrent.each([
  ["pass", ["counts-late", "stops-paid-at-allowance"], []],
  ["pass", ["stops-paid-at-allowance"], []],
  ["fail", ["counts-late"], ["quota-code-at-hard-stop"]],
  ["fail", ["counts-late"], ["no-band-at-all"]],
] as const)("%ss where paid organizations stop at the allowance: %s, %s", async (verdict, variants, defects) => {
  const wish = { allowQuotaBurn: true, settleMs: 1_500, only: ["soft-band-and-hard-stop"] };
  const { claims } = await verifySecondApi({ variants, defects }, wish);
  expect(claims.map((claim) => `${claim.verdict} ${claim.reason}`)).toEqual([expect.stringMatching(`^${verdict}`)]);
});

test.concurrent("a deployment that shows another organization's key in a stream is told so", async () => {
  for (const defects of [[], ["shows-another-key"]] as const) {
    const { claims } = await verifySecondApi({ defects }, { only: ["stream-frames", "credentials-are-not-echoed"] });
    expect(claims.map(({ verdict }) => verdict)).toEqual(["pass", defects.length === 0 ? "pass" : "fail"]);
  }
});

describe.concurrent("a deployment with sessions that end soon", () => {
  test("is caught when they do not end", async () => {
    for (const defects of [[], ["never-ends-sessions"]] as const) {
      const { claims } = await verifySecondApi(
        { variants: ["short-sessions", "clock-leeway", "ended-session-detail"], defects },
        { ratePerS: 20, leewayMs: 2_000, only: ["session-ends"] },
      );
      expect(claims[0]?.verdict).toBe(defects.length === 0 ? "pass" : "fail");
    }
  });
});

describe.concurrent("a deployment that gives a session out again (A19)", () => {
  const LAST = "session-expires-in-remains";
  test.each([
    ["fail", { defects: ["reuses-with-a-full-life"] }],
    ["pass", { variants: ["reuses-sessions"] }],
  ] as const)("%ss by the lifetime that it reports then", async (verdict, parts) => {
    const { claims } = await verifySecondApi(parts, {
      // Slow enough that seconds pass between the first time and the last.
      ratePerS: 20,
      only: ["exchange-mints", "mixed-calls", "allowance-is-per-organization", LAST],
    });
    expect(claims.map((claim) => claim.verdict)).toEqual(["pass", "pass", "pass", verdict]);
  });
});
