/**
 * Which meter an admitted call is charged to (items 10, 11, 80; A9: one minted tile session is one map load). Written
 * from the specification, not shared with the platform.
 */
import { type Meter, routeOf } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";

/** `null`: to none; `undefined`: the line does not say. */
export const meterOf = (call: CallLine): Meter | null | undefined => {
  if (call.meter !== undefined) return call.meter;
  if (call.route === "-") return undefined;
  const route = routeOf(call.route);
  if (route.surface !== "exchange") return route.meter ?? null;
  const product = call.facts?.product ?? call.product;
  if (typeof product !== "string") return undefined;
  return product === "tile" ? "map_loads" : null;
};
