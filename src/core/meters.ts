/**
 * Monthly meters (items 10, 79, 204-207, 225-234; A8, A8b): a charge is admitted if and only if `used + amount <= cap`.
 */
import { HARD_STOP_FACTOR } from "../contract/refusals.ts";
import type { Meter } from "../contract/routes.ts";
import type { Organization } from "./call.ts";

export const mapLoadCap = (org: Organization): number =>
  org.tier === "Pro" ? org.map_load_allowance * HARD_STOP_FACTOR : org.map_load_allowance;

export const overCapRefusal = (org: Organization): "map_load_hard_stop" | "map_load_quota_exceeded" =>
  org.tier === "Pro" ? "map_load_hard_stop" : "map_load_quota_exceeded";

/** Reports whether a charge fits under the cap, which is `null` for a meter that only counts (item 122). */
export const fits = (used: number, amount: number, cap: number | null): boolean => cap === null || used + amount <= cap;

/** The UTC month as `YYYY-MM` (item 229). */
export const windowOf = (nowMs: number): string => {
  const at = new Date(Math.floor(nowMs));
  return `${at.getUTCFullYear()}-${String(at.getUTCMonth() + 1).padStart(2, "0")}`;
};

/** What the store says was charged (`GET /ledger`). */
export type LedgerLine = {
  charge_id: string;
  request_id: string;
  org: string;
  key: string;
  meter: Meter;
  kind: "charge" | "refund";
  amount: number;
  window: string;
  /** Milliseconds since 1970, by the store's clock. */
  at: number;
};
