/** What every key store keeps, whatever it is made of. Run by `keys.test.ts`. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ChangedKey, KeyRecord, KeySnapshot, Organization } from "../../core/call.ts";
import type { KeyCreation, KeyUpdate, ManagementRefusal } from "../../core/management.ts";
import { type Clock, type Keys, shiftableClock } from "../ports.ts";
import { hashSecret } from "./secret.ts";
import type { KeyInput, KeyStore, OrganizationInput } from "./store.ts";

/** The error for a record that cannot be stored. */
const UNSTORABLE = { name: "RequestError", statusCode: 422 };

/** The port, and what the service offers its operator on the control plane. */
export type OperableKeys = Keys & {
  putOrganization(input: OrganizationInput): Promise<Organization>;
  organization(id: string): Promise<Organization | null>;
  putKey(input: KeyInput): Promise<Required<ChangedKey>>;
  patchKey(id: string, patch: Partial<KeyRecord>): Promise<KeyRecord | null>;
};

/** The port over a store in the same process. It answers at once, so budgets have no meaning. */
export const localKeys = (store: KeyStore, clock: Clock = shiftableClock()): OperableKeys => ({
  find: async (lookup) => store.find(lookup),
  change: async (change) => store.change(change, clock.nowMs()),
  putOrganization: async (input) => store.putOrganization(input),
  organization: async (id) => store.organization(id),
  putKey: async (input) => store.putKey(input, clock.nowMs()),
  patchKey: async (id, patch) => store.patchKey(id, patch),
  close: async () => store.close(),
});

/** The port with a function for each of its questions. */
export const asking = <K extends Keys>(keys: K) => ({
  ...keys,
  bySecretHash: (hash: string, budgetMs: number): Promise<KeySnapshot | null> => keys.find({ hash }, budgetMs),
  byId: (id: string, budgetMs: number): Promise<KeySnapshot | null> => keys.find({ id }, budgetMs),
  create: async (
    org: string,
    request: KeyCreation,
    budgetMs: number,
  ): Promise<Required<ChangedKey> | ManagementRefusal> =>
    (await keys.change({ does: "create", org, request }, budgetMs)) as Required<ChangedKey> | ManagementRefusal,
  update: (org: string, id: string, request: KeyUpdate, budgetMs: number): Promise<ChangedKey | ManagementRefusal> =>
    keys.change({ does: "update", org, id, request }, budgetMs),
  revoke: (org: string, id: string, budgetMs: number): Promise<ChangedKey | ManagementRefusal> =>
    keys.change({ does: "revoke", org, id }, budgetMs),
});
type AskingKeys = ReturnType<typeof asking<OperableKeys>>;

const BUDGET_MS = 5_000;

export const keysCases = (name: string, open: () => Promise<OperableKeys>): void => {
  describe(name, () => {
    let keys: AskingKeys;
    beforeAll(async () => {
      keys = asking(await open());
    });
    afterAll(() => keys.close());
    const anOrganization = (fields: Partial<Organization> = {}): Promise<Organization> =>
      keys.putOrganization({ id: `org_${randomUUID()}`, tier: "Pro", ...fields });
    const aKey = async (org: Organization, fields: KeyCreation = { kind: "server" }) => {
      const made = await keys.create(org.id, fields, BUDGET_MS);
      if ("refuse" in made) throw new Error(`expected a key, got ${made.refuse}`);
      return made;
    };

    test("a created key is found by its secret's hash and by its id, with its organization", async () => {
      const org = await anOrganization({ in_flight_cap: 7, basemap_style_id: "svc-dusk" });
      const { key, secret } = await aKey(org, {
        kind: "publishable",
        name: "Main",
        scopes: ["ai", "maps"],
        products: ["tile"],
        allowed_origins: ["https://app.example"],
        expires_at: 4_102_444_800_000,
      });
      expect(secret).toMatch(/^svc_pk_live_[0-9A-Za-z]{32}$/);
      expect(key).toMatchObject({ org_id: org.id, status: "valid", last4: secret.slice(-4), scopes: ["ai", "maps"] });
      expect(await keys.bySecretHash(hashSecret(secret), BUDGET_MS)).toEqual({ key, org });
      expect(await keys.byId(key.id, BUDGET_MS)).toEqual({ key, org });
    });

    test("a secret is told once and never stored", async () => {
      const { key, secret } = await aKey(await anOrganization());
      expect(JSON.stringify(await keys.byId(key.id, BUDGET_MS))).not.toContain(secret.slice(7));
    });

    test("kind and environment are in the secret", async () => {
      const { secret } = await aKey(await anOrganization(), { kind: "server", env: "test" });
      expect(secret).toMatch(/^svc_sk_test_[0-9A-Za-z]{32}$/);
    });

    test("an unknown key is null, not an error", async () => {
      expect(await keys.bySecretHash(hashSecret("svc_pk_live_nobody"), BUDGET_MS)).toBeNull();
      expect(await keys.byId("key_nobody", BUDGET_MS)).toBeNull();
    });

    test("look-ups of one moment get their own answers", async () => {
      const org = await anOrganization({ key_limit: 100 });
      const made = await Promise.all(Array.from({ length: 20 }, () => aKey(org)));
      const found = await Promise.all(
        made.flatMap(({ key, secret }) => [
          keys.byId(key.id, BUDGET_MS),
          keys.bySecretHash(hashSecret(secret), BUDGET_MS),
        ]),
      );
      expect(found.map((snapshot) => snapshot?.key.id)).toEqual(made.flatMap(({ key }) => [key.id, key.id]));
    });

    test("of many creations at once, exactly the key limit is made", async () => {
      const org = await anOrganization({ key_limit: 5 });
      const answers = await Promise.all(
        Array.from({ length: 40 }, () => keys.create(org.id, { kind: "server" }, BUDGET_MS)),
      );
      expect(answers.filter((answer) => "key" in answer)).toHaveLength(5);
      expect(answers.filter((answer) => "refuse" in answer && answer.refuse === "key_limit_reached")).toHaveLength(35);
    });

    test("revoked and expired keys do not count towards the limit", async () => {
      const org = await anOrganization({ key_limit: 2 });
      const { key } = await aKey(org);
      await aKey(org, { kind: "server", expires_at: Date.now() - 1_000 });
      await aKey(org);
      expect(await keys.create(org.id, { kind: "server" }, BUDGET_MS)).toEqual({ refuse: "key_limit_reached" });
      expect(await keys.revoke(org.id, key.id, BUDGET_MS)).toMatchObject({ key: { status: "revoked" } });
      expect(await keys.create(org.id, { kind: "server" }, BUDGET_MS)).toHaveProperty("secret");
    });

    test("management is decided by the organization as it is now", async () => {
      const org = await anOrganization();
      const { key } = await aKey(org, {
        kind: "publishable",
        allowed_origins: ["https://app.example"],
        scopes: ["maps"],
      });
      await keys.putOrganization({ id: org.id, tier: "Free" });
      expect(await keys.update(org.id, key.id, { scopes: ["maps", "ai"] }, BUDGET_MS)).toEqual({
        refuse: "tier_capability_not_allowed",
      });
      expect(await keys.create(org.id, { kind: "server" }, BUDGET_MS)).toEqual({
        refuse: "free_plan_publishable_only",
      });
      await keys.putOrganization({ id: org.id, tier: null });
      expect(await keys.create(org.id, { kind: "server" }, BUDGET_MS)).toEqual({ refuse: "plan_required" });
    });

    test("an organization that nobody made has no plan", async () => {
      expect(await keys.create(`org_${randomUUID()}`, { kind: "server" }, BUDGET_MS)).toEqual({
        refuse: "plan_required",
      });
    });

    test("a change is stored and leaves the rest", async () => {
      const org = await anOrganization();
      const { key, secret } = await aKey(org, { kind: "server", scopes: ["ai", "maps"], name: "a" });
      const changed = await keys.update(org.id, key.id, { scopes: ["maps"], name: "b" }, BUDGET_MS);
      expect(changed).toEqual({ key: { ...key, scopes: ["maps"], name: "b" } });
      expect((await keys.bySecretHash(hashSecret(secret), BUDGET_MS))?.key).toEqual({
        ...key,
        scopes: ["maps"],
        name: "b",
      });
    });

    test("a foreign, unknown, revoked or expired key is not found by management", async () => {
      const [org, other] = [await anOrganization(), await anOrganization()];
      const { key } = await aKey(org);
      expect(await keys.update(other.id, key.id, { name: "x" }, BUDGET_MS)).toEqual({ refuse: "not_found" });
      expect(await keys.revoke(other.id, key.id, BUDGET_MS)).toEqual({ refuse: "not_found" });
      expect(await keys.revoke(org.id, "key_nobody", BUDGET_MS)).toEqual({ refuse: "not_found" });
      expect(await keys.revoke(org.id, key.id, BUDGET_MS)).toMatchObject({ key: { status: "revoked" } });
      expect(await keys.revoke(org.id, key.id, BUDGET_MS)).toEqual({ refuse: "not_found" });
      expect(await keys.update(org.id, key.id, { name: "x" }, BUDGET_MS)).toEqual({ refuse: "not_found" });
      const { key: expired } = await aKey(org, { kind: "server", expires_at: Date.now() - 1_000 });
      expect(await keys.update(org.id, expired.id, { expires_at: null }, BUDGET_MS)).toEqual({ refuse: "not_found" });
    });

    test("statuses survive in the record", async () => {
      const org = await anOrganization();
      const { key } = await aKey(org);
      await keys.revoke(org.id, key.id, BUDGET_MS);
      expect((await keys.byId(key.id, BUDGET_MS))?.key.status).toBe("revoked");
    });

    test("the control plane stores a key that management would refuse, under a given secret", async () => {
      const org = await anOrganization({ tier: "Free" });
      const secret = `svc_sk_live_${randomUUID()}`;
      const { key } = await keys.putKey({
        org_id: org.id,
        kind: "server",
        scopes: ["vendor"],
        status: "expired",
        secret,
      });
      expect(await keys.bySecretHash(hashSecret(secret), BUDGET_MS)).toMatchObject({
        key: { id: key.id, status: "expired", scopes: ["vendor"], last4: secret.slice(-4) },
      });
      expect(await keys.patchKey(key.id, { status: "valid" })).toMatchObject({ id: key.id, status: "valid" });
      expect((await keys.byId(key.id, BUDGET_MS))?.key.status).toBe("valid");
      await expect(keys.putKey({ org_id: org.id, kind: "server", secret })).rejects.toMatchObject(UNSTORABLE);
      await expect(keys.putKey({ org_id: "org_nobody", kind: "server" })).rejects.toMatchObject(UNSTORABLE);
      expect(await keys.patchKey("key_nobody", { status: "valid" })).toBeNull();
    });

    test("a key put again under its id is replaced, and its old secret is unknown", async () => {
      const org = await anOrganization();
      const id = `key_${randomUUID()}`;
      const first = await keys.putKey({ id, org_id: org.id, kind: "server" });
      const second = await keys.putKey({ id, org_id: org.id, kind: "server", name: "again" });
      expect(await keys.bySecretHash(hashSecret(first.secret), BUDGET_MS)).toBeNull();
      expect((await keys.bySecretHash(hashSecret(second.secret), BUDGET_MS))?.key).toMatchObject({ id, name: "again" });
    });

    test("an organization has its tier's defaults until told otherwise, and follows a new tier with them", async () => {
      const org = await anOrganization();
      expect(org).toMatchObject({ map_load_allowance: 100_000, key_limit: 25, in_flight_cap: null });
      await keys.putOrganization({ id: org.id, key_limit: 9 });
      expect(await keys.putOrganization({ id: org.id, tier: "Free" })).toMatchObject({
        map_load_allowance: 1_000,
        key_limit: 9,
      });
      expect(await keys.organization(org.id)).toMatchObject({ tier: "Free" });
      expect(await keys.organization("org_nobody")).toBeNull();
      await expect(keys.putOrganization({ id: `org_${randomUUID()}` })).rejects.toMatchObject(UNSTORABLE);
    });
  });
};
