import { describe, expect, test } from "vitest";
import type { Target } from "../../target/target.ts";
import { RULES, selectRules } from "../catalogue.ts";
import { planVerify } from "../run-verify.ts";

const basic: Target = {
  schema: "floodgate/target@1",
  base_url: "https://maps.example/v1",
  credentials: {
    publishable: { key: "env:NOT_READ", origin: "https://app.example" },
    server: { key: "exec:must-not-be-run" },
  },
};

describe("the plan of a run", () => {
  test("names what is skipped by its role, its option and its permit, and reads no secret", () => {
    const plan = planVerify(basic, RULES, { ratePerS: 20, allowWrites: true });
    const lacks = Object.fromEntries(plan.rules.map(({ id, lacks: text }) => [id, text]));
    expect(lacks["runtime-admits"]).toBeNull();
    expect(lacks["exchange-insufficient-scope"]).toMatch(/role publishable_no_ai/);
    expect(lacks["allowance-is-exact"]).toMatch(/publishable_expendable .*--allow-quota-burn/);
    expect(lacks["keys-plan-required"]).toMatch(/permits.writes of the target file does not allow it/);
    expect(plan.would_send.keys).toBe(0);
    expect(plan.would_send.analyses).toBe(3);
    // The two basic credentials are judged within a minute.
    expect(plan.takes_s_at_least).toBeLessThan(60);
  });

  test("stays inside the budget, and says where it would end", () => {
    const plan = planVerify({ ...basic, budget: { requests: 60, map_loads: 0 } }, RULES, { ratePerS: 20 });
    expect(plan.would_send.calls).toBeLessThanOrEqual(60);
    expect(plan.rules.some(({ lacks }) => /budget.requests of the target file \(60\)/.test(lacks ?? ""))).toBe(true);
    expect(plan.budget).toEqual({ requests: 60, map_loads: 0, analyses: 3 });
  });

  test("counts calls that several rules look at once, and those behind rules about every answer", () => {
    const streams = planVerify(basic, selectRules(["streams"], []).rules, { ratePerS: 20 });
    const one = planVerify(basic, selectRules(["stream-frames"], []).rules, { ratePerS: 20 });
    // Only the compressed stream is asked for by a single rule.
    const compressed = 1;
    expect(streams.would_send.calls).toBe(one.would_send.calls + compressed);
    const every = planVerify(basic, selectRules(["every-answer"], []).rules, { ratePerS: 20 });
    expect(every.would_send.calls).toBeGreaterThan(100);
    expect(every.rules.every(({ phase }) => phase === "every-answer")).toBe(true);
  });
});
