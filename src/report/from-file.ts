/** Checks what was read from `curve.json`, `gate.json` or `capacity.json`: a file may be edited or cut off. */

/** Bounds the numbers of a file: no measured value is as large. */
const LARGEST = 1e12;

export const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const isMeasured = (value: unknown): value is number =>
  typeof value === "number" && value >= 0 && value < LARGEST;

/**
 * The fields of `like`, each from `found` if its type fits. `null` in `like` is a number that may be missing, a list is one
 * of texts.
 */
export const shaped = <T>(found: unknown, like: T): T => {
  if (typeof like === "number" || like === null) return isMeasured(found) ? (found as T) : like;
  if (Array.isArray(like)) return listOf(found).filter((one) => typeof one === "string") as T;
  if (typeof like !== "object") return typeof found === typeof like ? (found as T) : like;
  const of = fieldsOf(found);
  return Object.fromEntries(Object.entries(like).map(([name, value]) => [name, shaped(of[name], value)])) as T;
};
