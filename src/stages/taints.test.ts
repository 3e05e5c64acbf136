import { describe, expect, test } from "vitest";
import type { LedgerLine } from "../contract/routes.ts";
import { changesSeen, comparedCharges } from "./witnesses.ts";

const charge = (org: string, kind: LedgerLine["kind"] = "charge"): LedgerLine => ({
  charge_id: "c",
  request_id: "r",
  org,
  key: "k",
  meter: "map_loads",
  kind,
  amount: 1,
  window: "2026-05",
  at: 0,
});
const tenants = (used: number) => ({ org_a: { tier: "Pro" as const, used_at_start: used } });

describe("a restart or another number of replicas", () => {
  const was = { restarts: 1, replicas: 3 };
  const is = { restarts: 2, replicas: 2 };

  test("in a stage in which nothing was done to the deployment is somebody else's", () => {
    expect(changesSeen({ before: was, after: was }, undefined, 0).taints).toEqual([]);
    expect(changesSeen({ before: {}, after: is }, undefined, 0).taints).toEqual([]);
    expect(changesSeen({ before: was, after: is }, undefined, 0).taints).toEqual([
      "restarts of the deployment went from 1 to 2 meanwhile, and not by us",
      "replicas of the deployment went from 3 to 2 meanwhile, and not by us",
    ]);
  });

  test("since a disturbance of ours began is ours, and said", () => {
    const { taints, notes } = changesSeen({ before: was, atDisturbance: was, after: is }, undefined, 0);
    expect(taints).toEqual([]);
    expect(notes).toEqual([
      expect.stringContaining("restarts of the deployment went from 1 to 2"),
      expect.stringContaining("replicas of the deployment went from 3 to 2"),
    ]);
  });

  test("before a disturbance of ours began is somebody else's", () => {
    const { taints } = changesSeen({ before: was, atDisturbance: is, after: is }, undefined, 0);
    expect(taints).toHaveLength(2);
  });

  test("that an observer shows a scrape late is still ours, once, and for a minute", () => {
    const first = changesSeen({ before: was, atDisturbance: was, after: was }, undefined, 0);
    const late = changesSeen({ before: was, after: { ...was, restarts: 2 } }, first.owed, 30_000);
    expect(late).toMatchObject({ taints: [], notes: [expect.stringContaining("an earlier stage explains")] });
    expect(changesSeen({ before: is, after: { ...is, restarts: 3 } }, late.owed, 40_000).taints).toHaveLength(1);
    expect(changesSeen({ before: was, after: is }, late.owed, 40_000).taints).toEqual([
      expect.stringContaining("restarts"),
    ]);
    expect(changesSeen({ before: was, after: is }, first.owed, 61_000).taints).toHaveLength(2);
    const shown = changesSeen({ before: was, atDisturbance: was, after: { ...was, restarts: 2 } }, undefined, 0);
    expect(changesSeen({ before: { restarts: 2 }, after: { restarts: 3 } }, shown.owed, 1_000).taints).toHaveLength(1);
  });
});

describe("charges, as an exclusive deployment's ledger and its meters have them", () => {
  const ledger = [charge("org_a"), charge("org_a"), charge("org_a", "refund")];
  const seen = (used: number) => ({ before: tenants(5), after: tenants(5 + used), ledger, others: null });
  const compared = (about: Partial<Parameters<typeof comparedCharges>[1]>) =>
    comparedCharges({ exclusive: true }, { ...seen(1), ...about });

  test("beyond those of our calls are a doubt, and so are two accounts that differ", () => {
    expect(compared({})).toEqual({ taints: [], differ: undefined });
    expect(compared(seen(3))).toEqual({
      taints: [expect.stringContaining("org_a was charged 3 map loads meanwhile, 1 of them by our calls")],
      differ: [{ org: "org_a", metered: 3, ledger: 1 }],
    });
    expect(compared(seen(0))).toEqual({ taints: [], differ: [{ org: "org_a", metered: 0, ledger: 1 }] });
  });

  test("are not compared where they cannot be", () => {
    expect(comparedCharges({ exclusive: false }, seen(3))).toEqual({ taints: [] });
    expect(compared({ ...seen(3), ledger: undefined })).toEqual({ taints: [] });
    expect(compared({ ...seen(3), ledger: [charge("account 7")] })).toEqual({ taints: [] });
    expect(compared({ after: tenants(0) }).differ).toBeUndefined();
    expect(compared({ others: 2 }).taints).toEqual([expect.stringContaining("2 entries with ids that are not ours")]);
  });
});
