/** Ways to spoil the two orders of checks: a check left out, put elsewhere, or replaced. Checks are meant by their names. */
import { type Check, EXCHANGE_ORDER, type Orders, RUNTIME_ORDER } from "../core/order.ts";

type OrderName = keyof Orders;

const checkOf = (order: OrderName, name: string): Check => {
  const check = (order === "exchange" ? EXCHANGE_ORDER : RUNTIME_ORDER)[name];
  if (check === undefined) throw new Error(`expected a check of the ${order} order, got "${name}"`);
  return check;
};

const placeOf = (orders: Orders, order: OrderName, name: string): number => {
  const at = orders[order].indexOf(checkOf(order, name));
  if (at === -1) throw new Error(`the check "${name}" is not in the ${order} order any more`);
  return at;
};

/** `spoil` is given the healthy check and makes the one that stands in its place. */
export const instead = (orders: Orders, order: OrderName, name: string, spoil: (healthy: Check) => Check): Orders => {
  const checks = [...orders[order]];
  const at = placeOf(orders, order, name);
  checks[at] = spoil(checks[at] as Check);
  return { ...orders, [order]: checks };
};

export const without = (orders: Orders, order: OrderName, name: string): Orders =>
  instead(orders, order, name, () => () => null);

/** Moves checks, in their own order, to just before or just after another one. */
const moved = (orders: Orders, order: OrderName, names: readonly string[], other: string, offset: 0 | 1): Orders => {
  const moving = names.map((name) => orders[order][placeOf(orders, order, name)] as Check);
  const checks = orders[order].filter((check) => !moving.includes(check));
  checks.splice(checks.indexOf(checkOf(order, other)) + offset, 0, ...moving);
  return { ...orders, [order]: checks };
};

export const movedBefore = (orders: Orders, order: OrderName, names: readonly string[], other: string): Orders =>
  moved(orders, order, names, other, 0);

export const movedAfter = (orders: Orders, order: OrderName, names: readonly string[], other: string): Orders =>
  moved(orders, order, names, other, 1);
