/**
 * How a test says what the second deployment is to be like: by the names of its variants (other readings of the
 * specification, all conforming) and of its defects (breaches). Each part asks for the names that concern it; to find where a
 * name is at home, search this folder for it.
 */
export type Names = { is(variant: string): boolean; has(defect: string): boolean };

export const namesOf = (variants: readonly string[], defects: readonly string[]): Names => ({
  is: (variant) => variants.includes(variant),
  has: (defect) => defects.includes(defect),
});
