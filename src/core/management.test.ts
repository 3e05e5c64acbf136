import { describe, expect, test } from "vitest";
import type { KeyRecord, Organization } from "./call.ts";
import { decideCreation, decideRevocation, decideUpdate, type KeyCreation, type KeyUpdate } from "./management.ts";

const org = (more: Partial<Organization> = {}): Organization => ({
  id: "org_1",
  tier: "Pro",
  map_load_allowance: 10,
  key_limit: 3,
  basemap_style_id: null,
  in_flight_cap: null,
  ...more,
});
const FREE = org({ tier: "Free" });
const live = (more: Partial<KeyCreation> = {}): KeyCreation => ({
  kind: "publishable",
  scopes: ["maps"],
  allowed_origins: ["https://app.example"],
  ...more,
});
const key = (more: Partial<KeyRecord> = {}): KeyRecord => ({
  id: "key_1",
  org_id: "org_1",
  kind: "publishable",
  env: "live",
  name: "first",
  scopes: ["ai", "design", "maps"],
  products: [],
  allowed_origins: ["https://app.example"],
  allowed_ips: [],
  vendor_acknowledged: false,
  status: "valid",
  created_at: 1,
  expires_at: null,
  last4: "abcd",
  ...more,
});
const answer = (decided: object): string => ("refuse" in decided ? (decided.refuse as string) : "done");

describe("a creation", () => {
  test.each<[string, Organization, number, KeyCreation, string]>([
    ["of a publishable key", org(), 0, live(), "done"],
    ["of a server key on Pro", org(), 0, { kind: "server", scopes: ["ai"] }, "done"],
    ["on Free, with what Free admits", FREE, 0, live({ products: ["tile"] }), "done"],
    ["on Free, without naming a product", FREE, 0, live(), "done"],
    ["without a plan (item 130)", org({ tier: null }), 0, live(), "plan_required"],
    ["with an unknown scope (item 134)", org(), 0, live({ scopes: ["traffic"] }), "unknown_scope"],
    ["with an unknown product (item 134)", org(), 0, live({ products: ["globe"] }), "unknown_product"],
    [
      "of a live publishable key without origins (item 49)",
      org(),
      0,
      live({ allowed_origins: [] }),
      "publishable_live_requires_origins",
    ],
    [
      "of a test publishable key without origins (item 54)",
      org(),
      0,
      live({ env: "test", allowed_origins: [] }),
      "done",
    ],
    ["of a server key on Free (item 129)", FREE, 0, { kind: "server" }, "free_plan_publishable_only"],
    [
      "of vendor unacknowledged (item 132)",
      org(),
      0,
      live({ scopes: ["vendor"] }),
      "vendor_scope_requires_acknowledgement",
    ],
    ["of vendor acknowledged", org(), 0, live({ scopes: ["vendor"], acknowledge_vendor: true }), "done"],
    ["of a scope beyond the tier (item 136)", FREE, 0, live({ scopes: ["ai"] }), "tier_capability_not_allowed"],
    ["of a product beyond the tier (item 136)", FREE, 0, live({ products: ["chat"] }), "tier_capability_not_allowed"],
    ["of the last key that the plan allows", org(), 2, live(), "done"],
    ["of one key more (item 133)", org(), 3, live(), "key_limit_reached"],
  ])("%s", (_, organization, liveKeys, request, expected) => {
    expect(answer(decideCreation(organization, liveKeys, request))).toBe(expected);
  });

  test("of which little was said stores a live key without a name and without restrictions", () => {
    expect(decideCreation(org(), 0, { kind: "server" })).toEqual({
      org_id: "org_1",
      kind: "server",
      env: "live",
      name: "",
      scopes: [],
      products: [],
      allowed_origins: [],
      allowed_ips: [],
      vendor_acknowledged: false,
      status: "valid",
      expires_at: null,
    });
  });

  test("stores what was asked for, and is valid", () => {
    const request: KeyCreation = {
      kind: "server",
      env: "test",
      name: "ci",
      scopes: ["ai"],
      allowed_ips: ["10.0.0.0/8"],
    };
    expect(decideCreation(org(), 0, request)).toEqual({
      org_id: "org_1",
      kind: "server",
      env: "test",
      name: "ci",
      scopes: ["ai"],
      products: [],
      allowed_origins: [],
      allowed_ips: ["10.0.0.0/8"],
      vendor_acknowledged: false,
      status: "valid",
      expires_at: null,
    });
  });
});

describe("two things wrong with a creation: the earlier check of B5 decides", () => {
  const bare: KeyCreation = { kind: "server", scopes: ["vendor"] };
  test.each<[string, Organization, number, KeyCreation, string]>([
    ["no plan, unknown scope", org({ tier: null }), 0, live({ scopes: ["x"] }), "plan_required"],
    ["unknown scope, unknown product", org(), 0, live({ scopes: ["x"], products: ["y"] }), "unknown_scope"],
    ["unknown product, no origins", org(), 0, live({ products: ["y"], allowed_origins: [] }), "unknown_product"],
    [
      "no origins, vendor unacknowledged",
      org(),
      0,
      live({ scopes: ["vendor"], allowed_origins: [] }),
      "publishable_live_requires_origins",
    ],
    ["server on Free, vendor unacknowledged", FREE, 0, bare, "free_plan_publishable_only"],
    [
      "vendor unacknowledged, beyond the tier",
      FREE,
      0,
      live({ scopes: ["vendor"] }),
      "vendor_scope_requires_acknowledgement",
    ],
    ["beyond the tier, limit reached", FREE, 9, live({ scopes: ["ai"] }), "tier_capability_not_allowed"],
  ])("%s", (_, organization, liveKeys, request, expected) => {
    expect(answer(decideCreation(organization, liveKeys, request))).toBe(expected);
  });
});

describe("a change", () => {
  test.each<[string, Organization, KeyRecord | null, KeyUpdate, string]>([
    ["of the name", org(), key(), { name: "second" }, "done"],
    ["that narrows a key made without origins", org(), key({ allowed_origins: [] }), { scopes: ["ai"] }, "done"],
    [
      "that leaves an unacknowledged vendor scope as it was",
      org(),
      key({ scopes: ["ai", "vendor"] }),
      { scopes: ["vendor"] },
      "done",
    ],
    ["that narrows, on Free (item 137)", FREE, key(), { scopes: ["ai"], products: ["chat"] }, "done"],
    ["that keeps what the tier no longer admits (item 137)", FREE, key(), { scopes: ["ai", "design", "maps"] }, "done"],
    [
      "that widens beyond the tier (item 131)",
      FREE,
      key({ scopes: ["maps"] }),
      { scopes: ["maps", "ai"] },
      "tier_capability_not_allowed",
    ],
    [
      "that adds a product beyond the tier",
      FREE,
      key({ products: ["tile"] }),
      { products: ["tile", "chat"] },
      "tier_capability_not_allowed",
    ],
    [
      "that lifts a restriction beyond the tier",
      FREE,
      key({ products: ["tile"] }),
      { products: [] },
      "tier_capability_not_allowed",
    ],
    ["that lifts a restriction on Pro", org(), key({ products: ["tile"] }), { products: [] }, "done"],
    [
      "that adds vendor unacknowledged (item 138)",
      org(),
      key(),
      { scopes: ["vendor"] },
      "vendor_scope_requires_acknowledgement",
    ],
    ["that adds vendor acknowledged before", org(), key({ vendor_acknowledged: true }), { scopes: ["vendor"] }, "done"],
    [
      "that takes the last origin away (item 139)",
      org(),
      key(),
      { allowed_origins: [] },
      "publishable_live_requires_origins",
    ],
    ["of a server key on Free adds no key", FREE, key({ kind: "server" }), { name: "x" }, "done"],
    ["at the key limit adds no key", org({ key_limit: 0 }), key(), { name: "x" }, "done"],
    ["without a plan", org({ tier: null }), key(), { name: "x" }, "plan_required"],
    ["of an unknown key", org(), null, { name: "x" }, "not_found"],
    ["of a foreign key (item 127)", org(), key({ org_id: "org_2" }), { name: "x" }, "not_found"],
    ["of a revoked key (item 63)", org(), key({ status: "revoked" }), { name: "x" }, "not_found"],
  ])("%s", (_, organization, before, request, expected) => {
    expect(answer(decideUpdate(organization, before, request))).toBe(expected);
  });

  test("leaves what it does not name, and can take an expiry away", () => {
    const before = key({ expires_at: 99 });
    expect(decideUpdate(org(), before, { name: "second" })).toEqual({ ...before, name: "second" });
    expect(decideUpdate(org(), before, { expires_at: null })).toEqual({ ...before, expires_at: null });
  });
});

describe("a revocation", () => {
  test.each<[string, Organization, KeyRecord | null, string]>([
    ["of a valid key", org(), key(), "done"],
    ["without a plan", org({ tier: null }), key(), "done"],
    ["of a revoked key (item 141)", org(), key({ status: "revoked" }), "not_found"],
    ["of a foreign key", org(), key({ org_id: "org_2" }), "not_found"],
    ["of an unknown key", org(), null, "not_found"],
  ])("%s", (_, organization, before, expected) => {
    expect(answer(decideRevocation(organization, before))).toBe(expected);
  });
});
