import { describe, expect, test } from "vitest";
import { routeOf } from "../contract/routes.ts";
import { ROLE_POWERS, type TargetView } from "./callers/target-view.ts";
import { STORIES } from "./catalogue.ts";
import { profileCalls } from "./load-profiles.ts";
import { isNoisyCall } from "./stories/noisy.ts";
import { smokeRound } from "./stories/smoke.ts";

const tenants = Array.from({ length: 16 }, (_, k) => ({
  org: `org_t${k}`,
  tier: k % 4 === 0 ? ("Free" as const) : ("Pro" as const),
  allowance: k % 4 === 0 ? 40 : 8,
  publishable: true,
  server: true,
}));

const view: TargetView = {
  tenants,
  roles: Object.fromEntries(
    [...Object.keys(ROLE_POWERS), "admin_pro", "admin_free", "admin_no_plan", "admin_key_limit"].map((role) => [
      role,
      { org: `org_${role}`, hasOrigin: true },
    ]),
  ),
  limits: { slots: 32, service_ms: 200, global_in_flight: 32, org_in_flight: 16, rate_per_s: 50, burst: 100 },
  permits: { writes: true, quotaBurn: true },
  tiles: true,
  mapLoads: true,
};

/** Organizations with one map load left would be used up first by every story about quotas. */
const viewFor = (name: string): TargetView =>
  name === "last-units" ? { ...view, tenants: [...tenants, ...oneLeft] } : view;
const oneLeft = Array.from({ length: 8 }, (_, k) => ({
  ...{ org: `org_u${k}`, tier: "Free" as const, allowance: 1, used: 0, publishable: true, server: false },
}));

const plan = (name: string, i: number, seed = 1, on: TargetView = view) => STORIES.get(name)!.plan(seed, i, on);

test("the curve begins lower where the number of replicas is not stated, and no ramp has found what they carry", () => {
  const { profile } = STORIES.get("shedding-curve")!;
  const shareOf = (on: TargetView, wish = {}): number => {
    const rates = profile(on, wish)!.pieces.map(({ from }) => from);
    return Math.min(...rates) / (Math.max(...rates) / 10);
  };
  expect(shareOf(view)).toBeCloseTo(0.4);
  expect(shareOf({ ...view, limits: { ...view.limits, replicas: 1 } })).toBeCloseTo(0.5);
  expect(shareOf(view, { ratePerS: 160 })).toBeCloseTo(0.5);
  expect(shareOf({ ...view, capacity: { chat: { perS: 160, by: null } } })).toBeCloseTo(0.5);
});

test("the curve reaches most of a permit, and leaves its calls so far apart that the permit delays none", () => {
  const planned = STORIES.get("shedding-curve")!.profile(view, { ratePerS: 60, maxPerS: 100 })!;
  expect(Math.max(...planned.pieces.map(({ from }) => from))).toBeCloseTo(90);
  expect(planned.leastGapUs).toBe(10_000);
});

describe("every story", () => {
  test.each([...STORIES.keys()])("%s is a pure function of seed and number, and each step is complete", (name) => {
    const story = STORIES.get(name)!;
    const view = viewFor(name);
    expect(story.missing(view)).toEqual([]);
    const copy = structuredClone(view);
    for (let i = 0; i < 400; i++) {
      const steps = story.plan(5, i, view);
      expect(steps).toEqual(story.plan(5, i, copy));
      // Alone, the calls of the noisy organization are left out.
      const isLeftOut = name === "noisy-neighbour-alone" && isNoisyCall(view, i);
      expect(steps.length > 0).toBe(!isLeftOut);
      for (const step of steps) {
        expect(step.path).toMatch(/^\/[^{}]*$/);
        if (step.route !== "-") expect(step.method).toBe(routeOf(step.route).method);
        if (step.facts.body === "ok") JSON.parse(step.body as string);
      }
    }
    expect(profileCalls(story.profile(view)!)).toBeGreaterThan(20);
  });

  test.each([...STORIES.keys()])("%s says by name what an empty deployment lacks", (name) => {
    const story = STORIES.get(name)!;
    const empty: TargetView = { tenants: [], roles: {}, limits: {}, permits: { writes: false, quotaBurn: false } };
    expect(story.missing(empty).join()).toMatch(/tenant|role/);
  });

  test.each([...STORIES.keys()])("%s asks for map loads only where they are offered", (name) => {
    // Tiles of one's own, at an address that the file states: nothing says that the reference's other extension is there.
    const { mapLoads: _not, ...elsewhere } = view;
    for (let i = 0; i < 400; i++) {
      for (const { route } of plan(name, i, 1, elsewhere)) expect(route).not.toBe("maps.loads");
    }
  });

  test.each(["broken-dependency", "broken-edge"])("%s loads maps only where the budget has enough of them", (name) => {
    const loadsWith = (mapLoads: number | undefined): number => {
      const on: TargetView = { ...view, budget: { mapLoads } };
      return Array.from({ length: 400 }, (_, i) => plan(name, i, 1, on)[0]!).filter(
        ({ route }) => route === "maps.loads",
      ).length;
    };
    expect([loadsWith(undefined), loadsWith(2_000)].every((loads) => loads > 100)).toBe(true);
    expect([loadsWith(1_999), loadsWith(0)]).toEqual([0, 0]);
  });

  test("broken-dependency mints a few tiles where a ledger shows the charge and nothing else is metered", () => {
    const mintsWith = (more: Partial<TargetView>): number => {
      const tenants = view.tenants.map((tenant) => ({ ...tenant, allowance: undefined, publishable: true }));
      const on: TargetView = { ...view, tenants, mapLoads: false, ...more };
      const calls = Array.from({ length: 400 }, (_, i) => plan("broken-dependency", i, 1, on)[0]!);
      return calls.filter(({ route }) => route === "sdk.sessions").length;
    };
    expect(mintsWith({ ledger: true })).toBe(50);
    const { permits } = view;
    const none = [{}, { ledger: true, budget: { mapLoads: 10 } }, { ledger: true, mapLoads: true }];
    const unpermitted = { ledger: true, permits: { ...permits, quotaBurn: false } };
    expect([...none, unpermitted].map(mintsWith)).toEqual([0, 0, 0, 0]);
  });

  test("no step of any story holds a secret", () => {
    for (const name of STORIES.keys()) {
      for (let i = 0; i < 100; i++) expect(JSON.stringify(plan(name, i))).not.toMatch(/svc_|eyJ/);
    }
  });
});

describe("smoke", () => {
  test("one round visits every case once, whatever the seed", () => {
    const count = smokeRound(view);
    const round = (seed: number, nth: number) =>
      Array.from({ length: count }, (_, at) => {
        const { body: _body, path: _path, via: _via, ...step } = plan("smoke", nth * count + at, seed)[0]!;
        return JSON.stringify(step);
      }).sort();
    expect(round(1, 0)).toEqual(round(2, 0));
    expect(round(1, 0)).toEqual(round(1, 3));
    expect(count).toBeGreaterThan(80);
  });

  test("a parameter whose type is a gap (item 109) is not called malformed: a deployment may serve it", () => {
    const round = Array.from({ length: smokeRound(view) }, (_, at) => plan("smoke", at)[0]!);
    const asked = round.filter(({ path }) => path?.includes("lat=here"));
    expect(asked.map(({ facts }) => facts.body)).toEqual(["none"]);
  });

  test("a role that the target lacks takes its cases away, and only them", () => {
    const { publishable_no_ai: _gone, ...roles } = view.roles;
    const fewer: TargetView = { ...view, roles };
    expect(smokeRound(fewer)).toBe(smokeRound(view) - 2);
  });

  test("without a permit to write no call goes to key management", () => {
    const timid: TargetView = { ...view, permits: { writes: false, quotaBurn: false } };
    for (let i = 0; i < 200; i++) expect(plan("smoke", i, 1, timid)[0]!.route).not.toMatch(/^keys/);
  });
});

describe("who calls", () => {
  test("chat-past-capacity takes every organization that is not on Free equally often", () => {
    const count = new Map<string, number>();
    for (let i = 0; i < 1200; i++) {
      const { org } = plan("chat-past-capacity", i)[0]!;
      count.set(org, (count.get(org) ?? 0) + 1);
    }
    expect([...count.values()]).toEqual(new Array(12).fill(100));
  });

  test("tile-quota-stampede takes both tiers across their allowance, with every mint charged", () => {
    const story = STORIES.get("tile-quota-stampede")!;
    const mints = new Map<string, number>();
    const calls = Math.floor(profileCalls(story.profile(view)!));
    for (let i = 0; i < calls; i++) {
      const step = plan("tile-quota-stampede", i)[0]!;
      if (step.route !== "sdk.sessions") continue;
      expect(step.meter).toBe("map_loads");
      expect(step.facts).toMatchObject({ product: "tile", origin: "listed", body: "ok" });
      mints.set(step.org, (mints.get(step.org) ?? 0) + 1);
    }
    expect(mints.size).toBe(8);
    for (const [, count] of mints) expect(count).toBeGreaterThan(40);
    expect(mints.has(story.noisy(view)[0]!)).toBe(false);
  });

  test("noisy-neighbour-alone makes the quiet calls of noisy-neighbour, and no other", () => {
    for (let i = 0; i < 400; i++) {
      expect(plan("noisy-neighbour-alone", i)).toEqual(isNoisyCall(view, i) ? [] : plan("noisy-neighbour", i));
    }
    const profileOf = (name: string) => STORIES.get(name)!.profile(view);
    expect(profileOf("noisy-neighbour-alone")).toEqual(profileOf("noisy-neighbour"));
  });

  test("noisy-neighbour's bursts belong to one organization and exceed its cap, with a quiet call among any five", () => {
    const story = STORIES.get("noisy-neighbour")!;
    const [noisy] = story.noisy(view);
    const made = Array.from({ length: 500 }, (_, i) => {
      const { org } = plan("noisy-neighbour", i)[0]!;
      expect(org === noisy).toBe(isNoisyCall(view, i));
      return org === noisy;
    });
    const runs = made.map((isNoisy) => (isNoisy ? "n" : "q")).join("");
    expect(runs).not.toContain("nnnnn");
    const bursts = runs.split("qq").map((burst) => burst.replaceAll("q", "").length);
    expect(Math.max(...bursts)).toBeGreaterThan(view.limits.org_in_flight!);
  });
});

describe("last-units", () => {
  const on = viewFor("last-units");
  const mints = Array.from({ length: 400 }, (_, i) => [i, plan("last-units", i, 1, on)[0]!] as const).filter(
    ([, { org }]) => org.startsWith("org_u"),
  );

  test("organizations come to their last unit one after the other, each with two mints, and then all of them again", () => {
    const turns = mints.map(([, { org }]) => Number(org.slice("org_u".length)));
    expect(turns.slice(0, 16)).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]);
    expect(new Set(turns.slice(16))).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7]));
    expect(mints[0]?.[0]).toBe(35);
    expect(mints.every(([, { meter, route }]) => meter === "map_loads" && route === "sdk.sessions")).toBe(true);
  });

  test("it is not played where too few have one load left", () => {
    expect(STORIES.get("last-units")!.missing(view).join()).toContain("one map load left");
  });
});
