/**
 * How a test says what the second deployment is like: by the names of variants, which are other readings of the specification and
 * conform, and of defects, which are breaches. Each part asks for the names that concern it, and a name that no part asks for does
 * not start.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type Defect = string;
export type Variant = string;
export type Names = { is(variant: Variant): boolean; has(defect: Defect): boolean };

/** The text of every part, in which a name stands between quotes. */
export const PARTS = readdirSync(import.meta.dirname)
  .filter((file) => /^(?!names)[\w-]+\.ts$/.test(file))
  .map((file) => readFileSync(join(import.meta.dirname, file), "utf8"))
  .join("\n");

/** Made from an option of the control stream, or from the state of a key. */
const COMPOSED = /^(control-refuses-(location|map_zoom|lang|session_id|auto_actions)|serves-(revoked|expired))$/;

export const namesOf = (variants: readonly Variant[], defects: readonly Defect[]): Names => {
  const unknown = [...variants, ...defects].find((name) => !COMPOSED.test(name) && !PARTS.includes(`"${name}"`));
  if (unknown !== undefined) throw new Error(`no part of the second deployment asks for "${unknown}"`);
  return { is: (variant) => variants.includes(variant), has: (defect) => defects.includes(defect) };
};
