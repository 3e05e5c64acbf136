/** What a rule may need: roles of the target file, permission, budget. */
import type { AdminRole, KeyRole } from "../../target/target.ts";

/** What the user must have allowed with an option, and the target file must not forbid in `permits`. */
export type Permission = "writes" | "quota-burn" | "load";

export type Role = KeyRole | AdminRole;

/** What a rule cannot do without; what is missing is named and the rule is skipped. */
export type Needs = {
  readonly roles?: readonly Role[];
  /** One of these is enough. */
  readonly anyOf?: readonly Role[];
  readonly permission?: Permission;
  readonly tileUrl?: true;
  /** What the rule spends at least on a conforming target. */
  readonly spends?: { readonly map_loads?: number; readonly analyses?: number };
};
