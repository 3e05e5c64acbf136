import { describe, expect, test } from "vitest";
import { viewOf } from "./callers/view-of-target.ts";
import { STORIES } from "./catalogue.ts";
import { callsAtOnceFor, callsThatFit, concurrencyOf, tooFewCalls, vusFor } from "./handover.ts";
import { constant } from "./load-profiles.ts";

const streams = { streams: true, idleMs: 0, isAsync: true };
const short = { streams: false, idleMs: 0, isAsync: true };

describe("how many calls k6 makes at once", () => {
  test("3,000 streams have a place each, and there are some for what is refused meanwhile", () => {
    const profile = constant(600, 10);
    const stated = callsAtOnceFor(profile, { slots: 3_000, service_ms: 5_000 }, streams);
    expect(stated).toBeGreaterThan(3_000 + 600 * 0.5);
    expect(stated).toBeLessThan(4_000);
    // Where nobody says how much fits, half as much again.
    expect(callsAtOnceFor(profile, { service_ms: 5_000 }, streams)).toBeGreaterThan(1.5 * 3_000);
  });

  test("calls that are over at once need no more however many there are", () => {
    expect(callsAtOnceFor(constant(20, 10), {}, short)).toBeLessThan(60);
    expect(callsAtOnceFor(constant(20_000, 10), {}, short)).toBeLessThan(2_100);
  });

  test("readers that rest hold theirs for longer", () => {
    const profile = constant(50, 10);
    const resting = callsAtOnceFor(profile, {}, { ...streams, idleMs: 4_000 });
    expect(resting - callsAtOnceFor(profile, {}, streams)).toBeGreaterThanOrEqual(200);
  });

  test("what a story does is seen in its calls", () => {
    const publishable = { key: "env:Y", origin: "https://one.example" };
    const view = viewOf({ credentials: { server: { key: "env:X" }, publishable } });
    const of = (name: string) => concurrencyOf(STORIES.get(name)!, 1, view);
    expect(of("catalog-reads")).toEqual(short);
    expect(of("chat-past-capacity")).toEqual(streams);
    expect(of("slow-readers")).toMatchObject({ streams: true, isAsync: false });
    expect(of("slow-readers").idleMs).toBeGreaterThan(0);
    expect(of("retry-storm").isAsync).toBe(false);
    expect(of("session-storm").isAsync).toBe(false);
  });

  test("a few VUs make any number of calls that nobody waits for, and one each is there for the others", () => {
    const profile = constant(600, 10);
    expect(vusFor(profile, 3_550, streams)).toBeLessThan(50);
    expect(vusFor(profile, 5, streams)).toBe(5);
    expect(vusFor(profile, 3_550, { ...streams, isAsync: false })).toBe(3_550);
  });

  test("memory bounds them, and the user is told what that means", () => {
    expect(callsThatFit(1e9, streams)).toBe(3_333);
    expect(callsThatFit(1e9, { ...streams, isAsync: false })).toBe(2_500);
    expect(callsThatFit(0, streams)).toBe(1);
    expect(tooFewCalls(5_000, 3_000, "memory")).toMatch(/5000 .* 3000 \(memory\): .* late, and its lag/);
  });
});
