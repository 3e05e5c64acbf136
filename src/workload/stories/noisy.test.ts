import { describe, expect, test } from "vitest";
import type { TargetView } from "../callers/target-view.ts";
import { chatBesideNoisy } from "./noisy.ts";

const tenant = (org: string) => ({ org, tier: "Pro" as const, publishable: true, server: true });
const view = (orgs: number, more: Partial<TargetView> = {}): TargetView => ({
  tenants: Array.from({ length: orgs }, (_, n) => tenant(`org_t${n + 1}`)),
  roles: {},
  permits: { writes: false, quotaBurn: false },
  limits: { slots: 24, service_ms: 300, global_in_flight: 24, org_in_flight: 8 },
  ...more,
});

const orgs = (on: TargetView, count: number): string[] =>
  Array.from({ length: count }, (_, i) => chatBesideNoisy.plan(1, i, on)[0]?.org as string);

describe("chat-beside-noisy", () => {
  test("has one organization that opens more than its cap while a stream lasts, a quiet call between any five", () => {
    const on = view(12);
    const [noisy] = chatBesideNoisy.noisy(on);
    const made = orgs(on, 400);
    const perStream = Math.floor((0.7 * 24 * 1000) / 300) * 0.3;
    const most = Math.max(
      ...made.map((_, at) => made.slice(at, at + Math.floor(perStream)).filter((org) => org === noisy).length),
    );
    expect(most).toBeGreaterThan(8);
    for (let at = 0; at + 5 <= made.length; at += 5) {
      expect(made.slice(at, at + 5).some((org) => org !== noisy)).toBe(true);
    }
  });

  test("spreads the rest over the quiet ones, three calls of four", () => {
    const on = view(5);
    const [noisy] = chatBesideNoisy.noisy(on);
    const made = orgs(on, 4_000);
    const quiet = made.filter((org) => org !== noisy);
    expect(quiet.length / made.length).toBeCloseTo(0.8, 1);
    expect(new Set(quiet).size).toBe(4);
  });

  test("has nobody noisy among fewer than four, and plays with a single session too", () => {
    expect(chatBesideNoisy.noisy(view(3))).toEqual([]);
    expect(new Set(orgs(view(3), 30)).size).toBe(3);
    const one = view(0, { roles: { publishable: { org: "org_a", hasOrigin: true } } });
    expect(chatBesideNoisy.missing(one)).toEqual([]);
    expect(chatBesideNoisy.sessions(one)).toEqual([{ of: "role:publishable", product: "chat" }]);
    expect(chatBesideNoisy.plan(1, 7, one)[0]).toMatchObject({
      route: "chat.control",
      credential: { as: "session", of: "role:publishable", product: "chat" },
    });
  });

  test("knows no rate where none is stated", () => {
    expect(chatBesideNoisy.profile(view(12, { limits: {} }))).toBeNull();
    expect(chatBesideNoisy.profile(view(12))?.pieces[0]?.from).toBeCloseTo(56, 0);
  });
});
