/**
 * What the one cheap call of each role should come to, by its role in the target file (`target/README.md`). The product asked
 * for is `chat`, never `tile`: no map load is charged, and what stands in the way of `chat` shows what the key may do.
 */
import { outcomeOf, type RefusalName } from "../../contract/refusals.ts";
import type { KeyRole } from "../../target/target.ts";

export type Expectation = {
  readonly via: "exchange" | "catalog";
  /** Outcomes; `admitted` stands for a success. */
  readonly accepts: readonly string[];
  /** What the role's key is, for somebody who named another one. */
  readonly means: string;
  /** What a `tile` exchange is refused with, where the role's point is a used-up allowance. */
  readonly quota?: RefusalName;
};

export const ADMITTED = "admitted";

const TIER = outcomeOf("tier_capability_not_allowed");
const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const ADDRESS = outcomeOf("ip_not_allowed");
const UNAUTHENTICATED = outcomeOf("unauthenticated");

const exchange = (means: string, ...accepts: string[]): Expectation => ({
  via: "exchange",
  accepts: accepts.length === 0 ? [ADMITTED] : accepts,
  means,
});
const catalog = (means: string, ...accepts: string[]): Expectation => ({
  ...exchange(means, ...accepts),
  via: "catalog",
});

export const EXPECTATIONS: Readonly<Record<KeyRole, Expectation>> = {
  publishable: exchange("a publishable key with every scope and no restriction, of a Pro organization"),
  server: catalog(
    "a server key with every scope and no restriction, of a Pro organization, for this machine's address",
  ),
  publishable_other_org: exchange("as publishable, of another Pro organization"),
  publishable_no_ai: exchange("a publishable key with every scope but ai", SCOPE),
  publishable_tile_only: exchange("a publishable key restricted to the product tile", PRODUCT, SCOPE),
  publishable_downgraded: exchange("a full publishable key of an organization that went from Pro to Free", TIER),
  // What a Free organization's key lacks was taken by the tier or was never there: both are right.
  publishable_exhausted: {
    ...exchange("a publishable key of a Free organization at its allowance", TIER, SCOPE, PRODUCT),
    quota: "map_load_quota_exceeded",
  },
  publishable_hard_stop: {
    ...exchange("a publishable key of a paid organization at 5 times its allowance"),
    quota: "map_load_hard_stop",
  },
  publishable_expendable: exchange("a publishable key of a Free organization with nothing used", TIER, SCOPE, PRODUCT),
  publishable_expendable_paid: exchange("a publishable key of a paid organization with nothing used"),
  publishable_basemap: exchange("as publishable, of an organization with that stored style"),
  server_no_design: catalog("a server key with every scope but design", SCOPE),
  server_foreign_ip: catalog("a server key whose IP allowlist excludes this machine", ADDRESS),
  server_downgraded: catalog("a full server key of an organization that went from Pro to Free", TIER, SCOPE),
  revoked: exchange("a key that was revoked", UNAUTHENTICATED),
  expired: exchange("a key that has expired", UNAUTHENTICATED),
};
