/**
 * Key management (B5; items 124-141): creations and changes against an order of checks written a second time, and what
 * must hold for any life of a key: limits are kept, vendor is acknowledged, the dead stay dead, narrowing is free.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { PRODUCTS, SCOPES } from "../src/contract/routes.ts";
import type { KeyRecord } from "../src/core/call.ts";
import { decideCreation, decideRevocation, decideUpdate } from "../src/core/management.ts";
import { KEY_DECISIONS } from "../src/platform/keys/store.ts";
import { law } from "./laws/law.ts";
import {
  changeIsDecidedByB5,
  creationArb,
  creationIsDecidedByB5,
  foreignKeyIsNotFound,
  managedKeyArb,
  orgArb,
  reach,
  refusalIn,
  updateArb,
} from "./laws/management-laws.ts";
import { NOW_MS } from "./model/arbitraries.ts";

const RUNS = { quick: 3_000, nightly: 200_000 };

law("a creation is decided by the first failing check of B5", () => creationIsDecidedByB5(KEY_DECISIONS), RUNS);

law(
  "a change is decided by the first failing check of B5, and only what it adds is held against the tier",
  () => changeIsDecidedByB5(KEY_DECISIONS),
  RUNS,
);

law(
  "a change that narrows is allowed on any recognised plan",
  () =>
    fc.property(
      orgArb.filter(({ tier }) => tier !== null),
      managedKeyArb.chain((key) =>
        fc.record({
          key: fc.constant(key),
          scopes: fc.subarray(key.scopes),
          // An empty list would lift the restriction, which is no narrowing.
          products: fc.subarray(reach(key.products), { minLength: 1 }),
          allowed_origins: fc.subarray(key.allowed_origins, { minLength: 1 }),
        }),
      ),
      (org, { key, ...request }) => {
        expect(refusalIn(decideUpdate(org, key, request))).toBeNull();
      },
    ),
  RUNS,
);

law(
  "an admitted change does what it says, and nothing else",
  () =>
    fc.property(orgArb, managedKeyArb, updateArb, (org, key, request) => {
      const after = decideUpdate(org, key, request);
      if ("refuse" in after) return;
      const { acknowledge_vendor, ...fields } = request;
      expect(after).toEqual({
        ...key,
        ...fields,
        vendor_acknowledged: key.vendor_acknowledged || acknowledge_vendor === true,
      });
    }),
  RUNS,
);

law(
  "a created key is valid, belongs to the organization and has what was asked for",
  () =>
    fc.property(orgArb, creationArb, (org, request) => {
      const key = decideCreation(org, 0, request);
      if ("refuse" in key) return;
      expect(key).toMatchObject({ org_id: org.id, kind: request.kind, status: "valid", env: request.env ?? "live" });
      expect(key.scopes.every((scope) => SCOPES.includes(scope))).toBe(true);
      expect(key.products.every((product) => PRODUCTS.includes(product))).toBe(true);
      expect(key.scopes.includes("vendor") && !key.vendor_acknowledged).toBe(false);
    }),
  RUNS,
);

law(
  "whatever is created, changed and revoked in whatever order, the key limit holds and the dead stay dead",
  () => {
    const stepArb = fc.oneof(
      fc.record({ does: fc.constant("create" as const), request: creationArb }),
      fc.record({ does: fc.constant("update" as const), which: fc.nat({ max: 9 }), request: updateArb }),
      fc.record({ does: fc.constant("revoke" as const), which: fc.nat({ max: 9 }) }),
    );
    return fc.property(orgArb, fc.array(stepArb, { maxLength: 40 }), (org, steps) => {
      const keys: KeyRecord[] = [];
      const live = (): number => keys.filter(({ status }) => status === "valid").length;
      for (const step of steps) {
        if (step.does === "create") {
          const made = decideCreation(org, live(), step.request);
          if (!("refuse" in made)) keys.push({ ...made, id: `key_${keys.length}`, created_at: NOW_MS, last4: "0000" });
        } else {
          const at = step.which % Math.max(1, keys.length);
          const key = keys[at] ?? null;
          const decided = step.does === "update" ? decideUpdate(org, key, step.request) : decideRevocation(org, key);
          if (key === null || key.status !== "valid") expect(decided).toEqual({ refuse: "not_found" });
          if (!("refuse" in decided)) keys[at] = decided;
        }
        expect(live()).toBeLessThanOrEqual(org.key_limit);
      }
    });
  },
  { quick: 500, nightly: 50_000 },
);

law("a foreign or unknown key is not found, whatever is asked", () => foreignKeyIsNotFound(KEY_DECISIONS), {
  quick: 300,
  nightly: 10_000,
});

law(
  "a key can be revoked on any plan, and then never again",
  () =>
    fc.property(orgArb, managedKeyArb, (org, key) => {
      const revoked = decideRevocation(org, key);
      expect(revoked).toEqual({ ...key, status: "revoked" });
      expect(decideRevocation(org, revoked as KeyRecord)).toEqual({ refuse: "not_found" });
    }),
  { quick: 300, nightly: 10_000 },
);
