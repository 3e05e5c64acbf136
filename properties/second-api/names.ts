/**
 * A test configures the second deployment by names of variants, which are other readings of the specification and conform to
 * it, and of defects, which violate it. Each part of the deployment asks for the names that concern it; a name that no part
 * asks for throws at the start.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type Defect = string;
export type Variant = string;
export type Names = { is(variant: Variant): boolean; has(defect: Defect): boolean };

/** The source of every part, which contains each name in quotes. */
export const PARTS = readdirSync(import.meta.dirname)
  .filter((file) => /^(?!names)[\w-]+\.ts$/.test(file))
  .map((file) => readFileSync(join(import.meta.dirname, file), "utf8"))
  .join("\n");

/** Names that the source composes from an option of the control stream or the state of a key. */
const COMPOSED = /^(control-refuses-(location|map_zoom|lang|session_id|auto_actions)|serves-(revoked|expired))$/;

export const namesOf = (variants: readonly Variant[], defects: readonly Defect[]): Names => {
  const unknown = [...variants, ...defects].find((name) => !COMPOSED.test(name) && !PARTS.includes(`"${name}"`));
  if (unknown !== undefined) throw new Error(`no part of the second deployment asks for "${unknown}"`);
  return { is: (variant) => variants.includes(variant), has: (defect) => defects.includes(defect) };
};
