import { describe, expect, test, vi } from "vitest";
import type { Variant } from "../../properties/second-api/names.ts";
import { verifySecondApi } from "./verify-second-api.fixture.ts";

// Most of a pass is waiting: each has a server of its own, and more of them wait at once than usual.
vi.setConfig({ maxConcurrency: 10 });

/** Readings that do not exclude each other share a server. */
const VARIANTS: readonly (readonly Variant[])[] = [
  // First what waits longest: others' traffic, limits that our own pace meets, ends that have to arrive.
  ["strict-rate"],
  ["busy"],
  ["short-sessions", "ends-arrive-late"],
  ["keys-arrive-late", "server-keys-know-no-address", "address-alone"],
  [],
  ["extra-fields", "extra-events", "crlf", "tiny-chunks", "upper-headers", "charset", "201-on-mint"],
  ["legacy-origin-name", "flat-limiter", "retry-after-date", "fastapi-422", "empty-401"],
  ["message-401", "frozen-tokens", "origin-required-at-runtime", "browser-first"],
  ["stops-paid-at-allowance", "tile-as-403", "server-keys-on-free", "product-for-session"],
  ["over-means-over", "sessions-are-wide", "body-first", "anonymous-viewer", "viewer-mints"],
  ["sessions-need-origin", "opaque-token", "float-expiry", "answers-preflights", "prefix-first", "null-is-missing"],
  ["keys-live-elsewhere", "mints-are-free", "no-cors", "reads-paths-leniently", "compresses-streams"],
  ["reuses-sessions", "tile-key-for-maps-alone", "null-error", "unknown-is-401", "no-other-members"],
  ["nested-key", "200-on-create", "detail-on-management-401", "route-swallows", "tier-first", "no-env-in-keys"],
  ["one-place-is-malformed", "profiles-are-listed", "buildings-need-a-height", "few-words-for-pois", "looks-maps-up"],
  ["buildings-need-a-number", "maps-are-numbered", "hex-keys", "400-on-foreign-letters"],
  ["strict", "splits-letters", "sources-are-listed", "trims-products"],
  ["few-types-for-control", "hangs-up-on-foreign-letters", "takes-capitals"],
  ["offers-map-loads", "older-revision", "cuts-a-stream-now-and-then", "retry-after-date"],
  ["offers-map-loads", "loads-count-nothing", "cuts-after-the-last-event", "null-counts-as-none"],
  ["offers-map-loads", "stops-paid-at-allowance", "opaque-token"],
  ["offers-map-loads", "mints-are-free"],
  ["tiles-are-public", "numbers-its-places"],
  ["strict-key-bodies", "live-keys-alone", "server-keys-need-addresses", "forgives-deletions"],
  ["hides-the-secret", "looks-sessions-up"],
  ["mints-hold-slots", "has-small-caps"],
  ["no-keys-left", "compresses"],
  ["compresses-unasked", "extra-fields"],
  ["sessions-disabled"],
];

describe.concurrent("a conforming deployment that is not ours", () => {
  test.each(VARIANTS.map((names) => [names.join(", ") || "plain", names] as const))(
    "passes every must that can be judged: %s",
    async (_name, variants) => {
      const isSlow = variants.includes("busy") || variants.includes("strict-rate");
      const { claims, leftOver } = await verifySecondApi(
        { variants },
        {
          // Waiting for others takes its time; what is waited for is the same in every phase.
          ...(isSlow ? { only: ["order", "bodies", "meters"] } : {}),
          allowWrites: true,
          allowQuotaBurn: true,
        },
      );
      const wrong = claims.filter(({ level, verdict }) => level === "must" && /fail|inconclusive/.test(verdict));
      expect(wrong.map(({ id, got, reason }) => `${id}: ${reason}; ${got}`)).toEqual([]);
      expect(leftOver).toEqual([]);
      const judged = claims.filter(({ verdict }) => verdict === "pass").length;
      expect(judged).toBeGreaterThan(isSlow ? 10 : variants.includes("sessions-disabled") ? 25 : 90);
    },
  );

  test.each(["comes-spent", "others-load"] as const)(
    "is not blamed for loads of which verify knows nothing: %s",
    async (variant) => {
      const { claims } = await verifySecondApi(
        { variants: [variant] },
        {
          allowQuotaBurn: true,
          only: ["exchange-mints", "meters", "organizations", "quota-burn"],
        },
      );
      expect(claims.filter(({ verdict }) => verdict === "fail").map(({ id, got }) => `${id}: ${got}`)).toEqual([]);
      expect(claims.map(({ reason }) => reason).join()).toMatch(
        /seem to be spent|earlier calls may have used the rest/,
      );
    },
  );

  const EDGE_MS = Date.UTC(2026, 11, 1);
  test("passes, or is left open, when a month begins in the midst of meters", async () => {
    const { claims, api } = await verifySecondApi({ variants: ["new-month-after-a-stop"] }, ({ inNewMonth }) => ({
      wallMs: () => EDGE_MS + (inNewMonth() ? 60_000 : -60_000),
      only: ["meters"],
    }));
    expect(claims.filter(({ verdict }) => verdict === "fail").map(({ id, got }) => `${id}: ${got}`)).toEqual([]);
    expect(api.inNewMonth()).toBe(true);
    expect(claims.map(({ reason }) => reason).join()).toMatch(/a month has just begun/);
  });

  test.each([-37, 0, 35])(
    "has no allowance used up within a day of a month's beginning somewhere: %s h",
    async (hours) => {
      const { claims } = await verifySecondApi(
        {},
        { wallMs: () => EDGE_MS + hours * 3_600_000, only: ["quota-burn"], allowQuotaBurn: true },
      );
      const skipped = claims
        .filter(({ reason }) => /^skipped: within a day a month begins/.test(reason))
        .map(({ id }) => id.slice(7));
      expect(skipped).toEqual([
        ...["allowance-is-exact", "soft-band-and-hard-stop", "allowance-holds-at-once"],
        "used-up-allowance-stops-loads",
      ]);
    },
  );

  test("is held to its allowance when no month began", async () => {
    const { claims } = await verifySecondApi(
      { variants: ["new-month-after-a-stop"] },
      {
        wallMs: () => EDGE_MS - 400 * 3_600_000,
        only: ["meters"],
      },
    );
    expect(claims.filter(({ verdict }) => verdict === "fail").map(({ id }) => id)).toContain("verify/quota-exceeded");
  });

  test("is waited for when it is away for some seconds, and every call is judged", async () => {
    const { claims } = await verifySecondApi(
      { variants: ["is-away-for-a-while"] },
      {
        only: ["either-header", "mixed-calls", "hostile-input"],
      },
    );
    expect(claims.filter(({ verdict }) => verdict !== "pass").map(({ id, reason }) => `${id}: ${reason}`)).toEqual([]);
  });
});
