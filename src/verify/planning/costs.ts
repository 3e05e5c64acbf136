/** Adds up what rules cost (`cost` of each), and what is sent for all of them together. */
import type { Target } from "../../target/target.ts";
import type { Cost, Rule } from "../rule.ts";

type FullCost = Required<Omit<Cost, "shared">> & Pick<Cost, "shared">;

const full = (cost: Cost): FullCost => ({ map_loads: 0, analyses: 0, keys: 0, ...cost });

/** Sessions that many rules use, minted once, and what is sent before the first rule. */
export const baseCost = ({ credentials = {} }: Target): FullCost => {
  const minted = [
    credentials.publishable === undefined ? 0 : 6,
    credentials.publishable_other_org === undefined ? 0 : 2,
    credentials.publishable_no_ai === undefined ? 0 : 1,
  ];
  return full({ calls: 1 + minted.reduce((sum, n) => sum + n, 0) });
};

export const costOf = ({ cost }: Rule, target: Target): FullCost =>
  full(typeof cost === "function" ? cost(target) : cost);
