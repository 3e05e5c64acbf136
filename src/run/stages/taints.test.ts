import { expect, test } from "vitest";
import type { LedgerLine } from "../../history/line.ts";
import { changesSeen, foreignCharges } from "./taints.ts";

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
const link = (fault: string) => ({
  kind: "link-fault" as const,
  name: "x",
  link: "limiter" as const,
  fault,
  holdMs: 1,
});

test("a restart or another number of replicas is a doubt, unless the fault ends processes", () => {
  const [before, after] = [
    { restarts: 1, replicas: 3 },
    { restarts: 2, replicas: 2 },
  ];
  expect(changesSeen(before, before, link("refused"))).toEqual([]);
  expect(changesSeen(before, after, link("refused"))).toHaveLength(2);
  expect(changesSeen(before, after, undefined)).toHaveLength(2);
  expect(changesSeen(before, after, link("process-killed"))).toEqual([]);
  expect(changesSeen({}, after, undefined)).toEqual([]);
});

test("charges beyond those of our calls are a doubt where nobody else should call", () => {
  const ledger = [charge("org_a"), charge("org_a"), charge("org_a", "refund")];
  const seen = (used: number) => ({ before: tenants(5), after: tenants(5 + used), ledger, others: null });
  expect(foreignCharges({ exclusive: true }, seen(1))).toEqual([]);
  expect(foreignCharges({ exclusive: true }, seen(3))).toEqual([
    expect.stringContaining("org_a was charged 3 map loads meanwhile, 1 of them by our calls"),
  ]);
  expect(foreignCharges({ exclusive: false }, seen(3))).toEqual([]);
  expect(foreignCharges({ exclusive: true }, { ...seen(3), ledger: undefined })).toEqual([]);
  expect(foreignCharges({ exclusive: true }, { ...seen(1), others: 2 })).toEqual([
    expect.stringContaining("2 entries of calls that are not ours"),
  ]);
});
