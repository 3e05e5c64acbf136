import { describe, expect, test } from "vitest";
import { ROLE_POWERS, type TargetView, type TenantInView } from "./callers/target-view.ts";
import { STORIES } from "./catalogue.ts";
import { profileCalls, profileDurationS } from "./load-profiles.ts";

const roles = Object.fromEntries(
  Object.keys(ROLE_POWERS).map((role) => [role, { org: `org_${role}`, hasOrigin: true }]),
);
const careful: TargetView = {
  tenants: Array.from({ length: 8 }, (_, k) => ({
    org: `org_${k}`,
    tier: k < 2 ? ("Free" as const) : ("Pro" as const),
    allowance: 20,
    publishable: true,
    server: true,
  })),
  roles,
  limits: { slots: 32, service_ms: 200, global_in_flight: 32, org_in_flight: 8, rate_per_s: 50, burst: 100 },
  permits: { writes: false, quotaBurn: false },
  tiles: true,
  mapLoads: true,
};

describe("without a permit to burn", () => {
  test.each([...STORIES.keys()])("%s spends nothing, and smoke no more than one round of it", (name) => {
    const story = STORIES.get(name)!;
    if (story.missing(careful).length > 0) {
      expect(["tile-quota-stampede", "last-units"]).toContain(name);
      expect(story.missing(careful).join()).toMatch(/quota_burn/);
      return;
    }
    const costs = story.costs(careful, 5000);
    expect(costs.requests).toBeGreaterThanOrEqual(4990);
    if (name === "smoke") {
      expect(costs.map_loads).toBeLessThanOrEqual(20);
      expect(costs.map_loads).toBeGreaterThan(0);
      expect(costs.analyses).toBe(1);
      return;
    }
    expect(costs).toMatchObject({ map_loads: 0, analyses: 0 });
    expect(story.sessions(careful).filter(({ product }) => product === "tile")).toEqual([]);
    for (let i = 0; i < 2000; i++) for (const { meter } of story.plan(2, i, careful)) expect(meter).toBeUndefined();
  });

  test("smoke keeps within a stated budget, down to nothing", () => {
    const smoke = STORIES.get("smoke")!;
    for (const [mapLoads, analyses] of [
      [3, 1],
      [0, 0],
    ] as const) {
      const view: TargetView = { ...careful, budget: { mapLoads, analyses } };
      let loads = smoke.sessions(view).filter(({ product }) => product === "tile").length;
      let analysed = 0;
      for (let i = 0; i < 1000; i++) {
        for (const { route, facts, org, credential } of smoke.plan(1, i, view)) {
          const isCorrect = facts.body !== "malformed" && (facts.origin === "listed" || credential.as === "server");
          const isRefused =
            /exhausted|hard_stop|other_org$|no_ai$/.test(org) || /revoked|expired/.test(facts.state ?? "");
          if (!isCorrect || isRefused) continue;
          if (route === "sdk.sessions" && facts.product === "tile" && credential.as === "publishable") loads += 1;
          if (route === "maps.loads" && credential.as === "server") loads += 1;
          if (route === "design.analyze" && facts.body === "ok") analysed += 1;
        }
      }
      expect(loads).toBeLessThanOrEqual(mapLoads);
      expect(analysed).toBeLessThanOrEqual(analyses);
      expect(smoke.costs(view, 1000)).toMatchObject({ analyses });
      expect(smoke.costs(view, 1000).map_loads).toBeLessThanOrEqual(mapLoads);
    }
  });

  test("how long streams last is not guessed", () => {
    const { costs } = STORIES.get("chat-past-capacity")!;
    expect(costs(careful, 1000)).toMatchObject({ streams: 1000, stream_seconds: 200 });
    expect(costs({ ...careful, limits: {} }, 1000)).toMatchObject({ streams: 1000, stream_seconds: null });
  });
});

describe("tile-quota-stampede with the permit", () => {
  const story = STORIES.get("tile-quota-stampede")!;
  const burning: TargetView = { ...careful, permits: { writes: false, quotaBurn: true } };
  const tenant = (org: string, tier: "Free" | "Pro", more: Partial<TenantInView> = {}): TenantInView => ({
    org,
    tier,
    publishable: true,
    server: tier === "Pro",
    ...more,
  });

  test("the expendable roles are enough", () => {
    const expendable = {
      publishable_expendable: { org: "org_f", tier: "Free" as const, allowance: 5, hasOrigin: true },
      publishable_expendable_paid: { org: "org_p", tier: "Pro" as const, allowance: 5, hasOrigin: true },
    };
    const view: TargetView = { ...burning, tenants: [], limits: {}, roles: expendable };
    expect(story.missing(view)).toEqual([]);
    expect(story.reaches(view)).toMatchObject({
      // Nobody read what is used, so perhaps nothing is left to admit.
      all: ["429 map_load_quota_exceeded", "429 map_load_hard_stop"],
      beyond: [{ outcome: "429 org_overloaded" }],
    });
    const profile = story.profile(view)!;
    expect(story.costs(view, profileCalls(profile)).map_loads).toBe(30);
    const counts = new Map<string, number>();
    for (let i = 0; i < Math.floor(profileCalls(profile)); i++) {
      const { org } = story.plan(4, i, view)[0]!;
      counts.set(org, (counts.get(org) ?? 0) + 1);
    }
    expect(counts.get("org_f")).toBeGreaterThan(5);
    expect(counts.get("org_p")).toBeGreaterThan(25);
    const { publishable_expendable_paid: _gone, ...freeAlone } = expendable;
    const free: TargetView = { ...view, roles: freeAlone };
    expect(story.reaches(free).all).toEqual(["429 map_load_quota_exceeded"]);
    expect(
      story
        .reaches(free)
        .beyond.map(({ reason }) => reason)
        .join(),
    ).toMatch(/publishable_expendable_paid/);
    expect(story.missing({ ...free, permits: { writes: true, quotaBurn: false } }).join()).toMatch(/quota_burn/);
  });

  test("what was read as used leaves less, and something to admit", () => {
    const read: TargetView = {
      ...burning,
      tenants: [
        tenant("org_f", "Free", { allowance: 40, used: 15 }),
        tenant("org_p", "Pro", { allowance: 12, used: 20 }),
      ],
    };
    expect(story.costs(read, 1e6).map_loads).toBe(25 + 40);
    expect(story.reaches(read).all).toContain("200");
    const unread: TargetView = { ...read, tenants: read.tenants.map(({ used: _used, ...rest }) => rest) };
    expect(story.costs(unread, 1e6).map_loads).toBe(40 + 60);
  });

  test("a budget chooses among them, and one that buys none is said", () => {
    const tenants = [tenant("org_f", "Free", { allowance: 30 }), tenant("org_p", "Pro", { allowance: 10 })];
    const some: TargetView = { ...burning, tenants, roles: {}, budget: { mapLoads: 40 } };
    expect(story.costs(some, 1e6).map_loads).toBe(30);
    expect(story.missing({ ...some, budget: { mapLoads: 10 } }).join()).toMatch(/budget\.map_loads.*10/);
  });

  test("a stage that is too short for the line does not require it", () => {
    const wish = { durationS: 1, ratePerS: 20 };
    expect(profileDurationS(story.profile(burning, wish)!)).toBe(1);
    expect(story.reaches(burning, wish).all).not.toContain("429 map_load_quota_exceeded");
  });
});
