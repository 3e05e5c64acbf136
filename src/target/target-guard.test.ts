import { describe, expect, test } from "vitest";
import type { Target } from "./target.ts";
import { guardTarget } from "./target-guard.ts";

const target = (more: Partial<Target>): Target => ({
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:8080/v1",
  ...more,
});
const NOTHING = { load: false, faults: false, requests: 10 };
const reasonsOf = (verdict: ReturnType<typeof guardTarget>): string => (verdict.ok ? "" : verdict.reasons.join("\n"));

describe("the safety guard", () => {
  test("lets loopback through without asking for permits", () => {
    expect(guardTarget(target({}), [], { load: true, faults: true, requests: 1e6 })).toEqual({ ok: true });
  });

  test.each<[string, Partial<Target>]>([
    ["base_url", { base_url: "https://maps.example/v1" }],
    ["key_management_url", { key_management_url: "https://maps.example/v1" }],
    ["tile_url", { tile_url: "https://maps.example/{z}/{x}/{y}" }],
    ["control.keys", { control: { keys: "http://maps.example:9000" } }],
    ["control.api[0]", { control: { api: ["http://maps.example:9000"] } }],
    ["toxiproxy.api_url", { toxiproxy: { api_url: "http://maps.example:8474", proxies: {} } }],
    ["transport.proxy", { transport: { proxy: "http://maps.example:3128" } }],
  ])("refuses a foreign %s that nobody owns, and names it", (name, more) => {
    const verdict = guardTarget(target({ budget: { requests: 100 }, ...more }), [], NOTHING);
    expect(reasonsOf(verdict)).toContain(`${name} is on maps.example`);
    expect(guardTarget(target({ budget: { requests: 100 }, ...more }), ["maps.example"], NOTHING)).toEqual({
      ok: true,
    });
  });

  test("owning one host does not own another", () => {
    const verdict = guardTarget(target({ base_url: "https://maps.example/v1" }), ["other.example"], NOTHING);
    expect(verdict.ok).toBe(false);
  });

  test.each<[string, Partial<Target>, Parameters<typeof guardTarget>[2]]>([
    ["budget.requests", {}, NOTHING],
    ["budget.requests allows 5", { budget: { requests: 5 } }, NOTHING],
    ["permits.load_max_rps", { budget: { requests: 100 } }, { ...NOTHING, load: true }],
    ["permits.chaos", { budget: { requests: 100 } }, { ...NOTHING, faults: true }],
  ])("asks a foreign target for %s", (named, more, intent) => {
    const verdict = guardTarget(target({ base_url: "https://maps.example/v1", ...more }), ["maps.example"], intent);
    expect(reasonsOf(verdict)).toContain(named);
  });

  test("what is no URL is told as such", () => {
    expect(reasonsOf(guardTarget(target({ base_url: "maps" }), [], NOTHING))).toContain('"maps", which is no URL');
  });
});
