import { describe, expect, test, vi } from "vitest";
import type { Defect } from "../../../properties/second-api/names.ts";
import { verdictOf } from "../verdict.fixture.ts";

// Most of it is waiting: each has a server of its own, and more of them wait at once than usual.
vi.setConfig({ maxConcurrency: 10 });

/** A defect in the management of keys, and the rule that names it. */
const DEFECTS: readonly (readonly [defects: Defect | readonly Defect[], rule: string])[] = [
  ["any-scope", "keys-unknown-scope"],
  ["tier-before-names", "keys-unknown-scope"],
  ["422-for-scope", "keys-unknown-scope"],
  ["401-on-unknown-scope", "keys-unknown-scope"],
  ["any-product-name", "keys-unknown-product"],
  ["no-origins-needed", "keys-live-publishable-needs-origins"],
  ["server-keys-for-free", "keys-free-plan-publishable-only"],
  ["no-plan-needed", "keys-plan-required"],
  ["vendor-without-word", "keys-vendor-needs-acknowledgement"],
  ["no-key-limit", "keys-limit-reached"],
  ["key-limit-as-403", "keys-limit-reached"],
  ["platform-key-manages", "keys-not-with-a-platform-key"],
  ["widens-beyond-tier", "keys-widening-beyond-tier"],
  ["patch-does-nothing", "key-is-narrowed-and-widened"],
  ["scope-for-product", "key-is-narrowed-and-widened"],
  ["delete-does-nothing", "deleted-key-is-dead"],
  ["any-admin-will-do", "key-of-another-organization"],
  ["x-api-key-manages", "keys-not-with-a-platform-key"],
  ["any-admin-token", "keys-not-with-a-platform-key"],
  ["session-manages", "keys-not-with-a-platform-key"],
  ["anybody-deletes", "key-of-another-organization"],
  ["refuses-and-does", "key-of-another-organization"],
  ["no-origins-member-needed", "keys-live-publishable-needs-origins"],
  ["test-server-keys-for-free", "keys-free-plan-publishable-only"],
  ["no-keys-for-free", "keys-free-plan-may-publish"],
  ["any-word-acknowledges", "keys-vendor-needs-acknowledgement"],
  ["500-on-broken-key-bodies", "keys-malformed-body"],
  ["makes-keys-of-nothing", "keys-malformed-body"],
  ["500-on-unknown-keys", "keys-unknown-key"],
  ["refuses-and-widens", "keys-widening-beyond-tier"],
  ["keeps-old-origins", "key-origins-are-changed"],
  ["forgets-products", "key-products-are-kept"],
  ["no-server-keys-at-all", "server-key-is-created"],
  ["dead-server-keys", "server-key-is-created"],
  ["server-keys-without-scopes", "server-key-is-created"],
  ["other-prefix", "key-is-created"],
  ["no-tiles-for-free", "keys-free-plan-may-publish"],
  ["acknowledges-for-ever", "keys-vendor-needs-acknowledgement"],
  ["500-on-creation", "key-is-created"],
  ["500-on-changes", "key-is-narrowed-and-widened"],
  ["500-on-changes", "key-origins-are-changed"],
  ["500-on-changes", "key-scopes-are-taken-away"],
  ["404-without-plan", "keys-plan-required"],
  ["narrowing-is-beyond-tier", "key-is-narrowed-and-widened"],
  ["narrowing-is-beyond-tier", "key-scopes-are-taken-away"],
  ["keeps-old-scopes", "key-scopes-are-taken-away"],
  ["remembers-server-keys", "key-scopes-are-taken-away"],
  ["remembers-server-keys", "deleted-server-key-is-dead"],
  ["500-on-the-second-deletion", "deleted-server-key-is-dead"],
  ["server-keys-live-on", "deleted-server-key-is-dead"],
  ["one-replica-remembers", "deleted-server-key-is-dead"],
  ["one-replica-remembers", "deleted-key-is-dead"],
  ["forgets-addresses", "key-addresses-are-kept"],
  [["forgets-addresses", "takes-any-address"], "key-addresses-are-kept"],
];

describe("a deployment with one defect in the management of keys", () => {
  test.concurrent.each(DEFECTS)("%s fails the rule %s", async (defects, rule) => {
    expect(await verdictOf(defects, rule)).toBe("fail");
  });
});

describe("a deployment whose keys are made badly", () => {
  test("is not blamed for the change of a key when it was the creation", async () => {
    expect(await verdictOf("forgets-products", "keys-widening-beyond-tier")).toMatch(/^pass .*does not keep/);
  });
});
