import { describe, expect, test } from "vitest";
import { STORIES } from "../catalogue.ts";
import { profileCalls, profilePeakPerS } from "../load-profiles.ts";
import { credentialName } from "../step.ts";
import { publishableCallers, runtimeCallers } from "./callers.ts";
import type { TargetView } from "./target-view.ts";

const NOTHING: TargetView = { tenants: [], roles: {}, limits: {}, permits: { writes: false, quotaBurn: false } };
const server: TargetView = { ...NOTHING, roles: { server: { org: "org_a", hasOrigin: false } } };
const publishable: TargetView = { ...NOTHING, roles: { publishable: { org: "org_a", hasOrigin: true } } };
const twoPages: TargetView = {
  ...NOTHING,
  roles: { publishable: { hasOrigin: true }, publishable_other_org: { hasOrigin: true } },
};
const FOUND = { chat: { perS: 40, by: "429 org_overloaded" }, reads: { perS: 50, by: "429 rate_limited" } };

/** Stories that one key cannot play, by the kind of key; every other one has to. */
const IMPOSSIBLE: Readonly<Record<string, readonly string[]>> = {
  server: ["last-units", "noisy-neighbour", "noisy-neighbour-alone", "session-storm", "tile-quota-stampede"],
  publishable: ["last-units", "noisy-neighbour", "noisy-neighbour-alone", "tile-quota-stampede"],
};

const stepsOf = (name: string, view: TargetView, count = 400) =>
  Array.from({ length: count }, (_, i) => STORIES.get(name)!.plan(3, i, view)).flat();

describe.each([
  ["server", server],
  ["publishable", publishable],
])("a target with a %s key alone", (kind, view) => {
  test.each([...STORIES.keys()])("%s plays with it, or names what to add", (name) => {
    const story = STORIES.get(name)!;
    if (IMPOSSIBLE[kind]!.includes(name)) {
      expect(story.missing(view).join()).toMatch(/tenant|role/);
      return;
    }
    expect(story.missing(view)).toEqual([]);
    const sessions = story.sessions(view).map((wanted) => credentialName({ as: "session", ...wanted }));
    const known = story.name === "smoke" ? ["none", "garbage", "unknown"] : [];
    for (const { credential, meter, facts } of stepsOf(name, view)) {
      if ("of" in credential) expect(credential.of).toBe(`role:${kind}`);
      else expect(known).toContain(credential.as);
      if (credential.as === "session") expect(sessions).toContain(credentialName(credential));
      if (kind === "server") expect(credential.as).not.toBe("session");
      // A session is used from its own page.
      if (credential.as === "session" && name !== "smoke") expect(facts.origin).toBe("listed");
      if (name !== "smoke") expect(meter).toBeUndefined();
    }
    if (kind === "server") expect(sessions).toEqual([]);
  });

  test("no rate is guessed: without limits a story that needs one asks for a ramp, and takes what it found", () => {
    for (const story of STORIES.values()) {
      if (story.missing(view).length > 0) continue;
      if (story.needsCapacity === null) {
        expect(story.profile(view), story.name).not.toBeNull();
        continue;
      }
      expect(story.profile(view), story.name).toBeNull();
      expect(story.profile(view, { ratePerS: 7 }), story.name).not.toBeNull();
      const { [story.needsCapacity]: found } = FOUND;
      const capacity = { [story.needsCapacity]: found };
      expect(profilePeakPerS(story.profile({ ...view, capacity })!), story.name).toBeGreaterThan(0);
    }
  });

  test("what is out of reach is stated with the reason", () => {
    const story = STORIES.get("chat-past-capacity")!;
    const capacity = { chat: FOUND.chat };
    expect(story.reaches({ ...view, capacity })).toEqual({
      all: ["200", "429 org_overloaded"],
      oneOf: [],
      beyond: [{ outcome: "429 b2b_overloaded", reason: expect.stringContaining("429 org_overloaded first") }],
    });
    const notFound = story.reaches({ ...view, capacity: { chat: { perS: 100, by: null } } });
    expect(notFound.all).toEqual(["200"]);
    expect(notFound.beyond[0]).toMatchObject({
      reason: expect.stringMatching(/no limit was met up to 100/),
      staysBelow: true,
    });
    const permitted = story.reaches({ ...view, capacity }, { maxPerS: 5 });
    expect(permitted.beyond[0]).toMatchObject({ reason: expect.stringMatching(/do not overload/), staysBelow: true });
    const slow = story.reaches({ ...view, capacity: { chat: { perS: 100, by: "latency" } } });
    expect(slow.beyond[0]!.reason).toMatch(/latency/);
    // The load exceeded what is carried; only the refusal is another.
    expect(slow.beyond[0]).not.toHaveProperty("staysBelow");
    for (const by of ["503", "500 internal", "edge 502"]) {
      const broken = story.reaches({ ...view, capacity: { chat: { perS: 100, by } } });
      expect(broken.beyond[0]).toMatchObject({
        reason: expect.stringContaining(`the ramp met ${by}`),
        staysBelow: true,
      });
    }
    expect(slow.oneOf).toEqual([]);
  });
});

test("a publishable key without an origin can call nothing", () => {
  const view: TargetView = { ...NOTHING, roles: { publishable: { org: "org_a", hasOrigin: false } } };
  for (const name of ["steady-mix", "session-storm"]) expect(STORIES.get(name)!.missing(view).join()).toMatch(/origin/);
  expect(stepsOf("smoke", view).some(({ origin, route }) => origin === "listed" && route === "sdk.sessions")).toBe(
    true,
  );
  for (const { credential, origin } of stepsOf("smoke", view)) {
    if ("of" in credential) expect(origin).not.toBe("listed");
  }
});

test("a storm that is over before a key's burst is does not require its refusal", () => {
  const story = STORIES.get("retry-storm")!;
  const view: TargetView = { ...server, capacity: { chat: { perS: 50, by: "429 rate_limited" } } };
  expect(story.reaches(view, { durationS: 16 }).all).toEqual(["200", "429 rate_limited"]);
  const short = story.reaches(view, { durationS: 4 });
  expect(short.all).toEqual(["200"]);
  expect(short.beyond[0]).toMatchObject({ outcome: "429 rate_limited", reason: expect.stringMatching(/saved up/) });
});

test("smoke requires of each target only what its roles provoke in a whole round", () => {
  const { reaches } = STORIES.get("smoke")!;
  expect(reaches(server).all).toEqual(["200", "401"]);
  expect(reaches(server).beyond.map(({ outcome }) => outcome)).toContain("403 origin_required");
  expect(reaches(publishable).all).toEqual(["200", "401", "403 origin_required", "403 session_origin_mismatch"]);
  expect(reaches({ ...NOTHING, roles: { revoked: { hasOrigin: true } } }).all).not.toContain("200");
  expect(reaches(publishable, { ratePerS: 1, durationS: 2 }).all).toEqual([]);
});

test("two pages are two organizations by what their roles say, so one can be the noisy neighbour", () => {
  const story = STORIES.get("noisy-neighbour")!;
  expect(story.missing(twoPages)).toEqual([]);
  const orgs = new Set(stepsOf("noisy-neighbour", twoPages).map(({ org }) => org));
  expect(orgs.size).toBe(2);
  expect(story.noisy(twoPages)).toEqual(["role:publishable"]);
  expect(
    story.missing({ ...twoPages, roles: { publishable: { hasOrigin: true }, server: { hasOrigin: false } } }),
  ).toHaveLength(1);
});

test("tenants come before roles, and one that is on Free neither streams nor mints what is not charged", () => {
  const tenants = [
    { org: "org_free", tier: "Free" as const, publishable: true, server: false },
    { org: "org_pro", tier: "Pro" as const, publishable: true, server: true },
  ];
  const view: TargetView = { ...server, tenants };
  expect(publishableCallers(view).map(({ name }) => name)).toEqual(["tenant:org_free", "tenant:org_pro"]);
  expect(runtimeCallers(view).map(({ name }) => name)).toEqual(["tenant:org_pro"]);
  expect(new Set(stepsOf("session-storm", view).map(({ org }) => org))).toEqual(new Set(["org_pro"]));
  // Without roles, the first tenant stands in for them.
  const withoutRoles: TargetView = { ...view, roles: {} };
  expect(STORIES.get("smoke")!.missing(withoutRoles)).toEqual([]);
  expect(stepsOf("smoke", withoutRoles).some(({ org, route }) => org === "org_pro" && route === "chat.control")).toBe(
    true,
  );
});

test("no story goes above the permitted rate, and says what it then cannot show", () => {
  const limits = { slots: 32, service_ms: 200, global_in_flight: 32, org_in_flight: 16, rate_per_s: 50, burst: 100 };
  const tenants = Array.from({ length: 12 }, (_, k) => ({
    org: `org_${k}`,
    tier: "Pro" as const,
    publishable: true,
    server: true,
    ...(k < 2 ? { allowance: 4, used: 0 } : {}),
  }));
  const view: TargetView = { ...NOTHING, tenants, limits, permits: { writes: false, quotaBurn: true } };
  for (const story of STORIES.values()) {
    const profile = story.profile(view, { maxPerS: 20 })!;
    expect(profilePeakPerS(profile), story.name).toBeLessThanOrEqual(20);
    expect(profilePeakPerS(story.profile(view, { maxPerS: 20, ratePerS: 500 })!), story.name).toBeLessThanOrEqual(20);
  }
  for (const [name, outcome] of [
    ["chat-past-capacity", "429 b2b_overloaded"],
    ["retry-storm", "429 b2b_overloaded"],
    ["noisy-neighbour", "429 org_overloaded"],
    ["rate-limit-edge", "429 rate_limited"],
    ["tile-quota-stampede", "429 org_overloaded"],
  ] as const) {
    const story = STORIES.get(name)!;
    expect(story.reaches(view).all, name).toContain(outcome);
    const within = story.reaches(view, { maxPerS: 20 });
    expect(within.all, name).not.toContain(outcome);
    expect(
      within.beyond.map((one) => one.outcome),
      name,
    ).toContain(outcome);
  }
});

test("a target with a thousand tenants: a call costs no more than with ten", () => {
  const tenants = Array.from({ length: 1000 }, (_, k) => ({
    org: `org_${k}`,
    tier: "Pro" as const,
    publishable: true,
    server: true,
    weight: 1 + (k % 3),
  }));
  let reads = 0;
  // Whoever walks the tenants for each call would read them a hundred thousand times.
  const watched = new Proxy(tenants, {
    get: (target, key) => {
      if (typeof key === "string" && /^\d+$/.test(key)) reads += 1;
      return Reflect.get(target, key);
    },
  });
  const view: TargetView = { ...NOTHING, tenants: watched, permits: { writes: false, quotaBurn: true } };
  for (const story of STORIES.values()) {
    if (story.missing(view).length === 0) for (let i = 0; i < 100; i++) story.plan(1, i, view);
  }
  expect(reads).toBeLessThan(60 * tenants.length);
});

test("the ramps ascend from a trickle to what is permitted", () => {
  for (const name of ["find-knee", "find-read-knee"]) {
    const { pieces } = STORIES.get(name)!.profile(server, { maxPerS: 300 })!;
    expect(pieces[0]!.from).toBeLessThan(3.1);
    expect(pieces.at(-1)!.to).toBe(300);
    for (const [at, { from }] of pieces.entries()) expect(from).toBeGreaterThan(pieces[at - 1]?.from ?? 0);
    expect(profileCalls(STORIES.get(name)!.profile(server, { maxPerS: 1 })!)).toBe(2);
  }
});
