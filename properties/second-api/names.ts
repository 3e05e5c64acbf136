/**
 * How a test says what the second deployment is to be like: by the names of its variants and of its defects (`variants.ts`,
 * `defects.ts`). Each part asks for the names that concern it.
 */
import type { Defect } from "./defects.ts";
import type { Variant } from "./variants.ts";

export type Names = { is(variant: Variant): boolean; has(defect: Defect): boolean };

export const namesOf = (variants: readonly Variant[], defects: readonly Defect[]): Names => ({
  is: (variant) => variants.includes(variant),
  has: (defect) => defects.includes(defect),
});
