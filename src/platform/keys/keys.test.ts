import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openControl, operatedKeys } from "../operator.fixture.ts";
import { createHttpKeys, shiftableClock } from "../ports.ts";
import { asking, keysCases, localKeys, type OperableKeys } from "./keys.fixture.ts";
import { hashSecret } from "./secret.ts";
import { type KeyStore, openKeyStore, startKeyService } from "./store.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-keys-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const overHttp = async (store: KeyStore): Promise<OperableKeys> => {
  const clock = shiftableClock();
  const service = await startKeyService({ store, clock }, { port: 0 });
  const plane = await openControl(service.control, clock);
  const keys = operatedKeys(createHttpKeys({ url: service.url }), plane.url);
  return {
    ...keys,
    close: async () => {
      await keys.close();
      await Promise.all([service.close(), plane.close()]);
    },
  };
};

keysCases("keys in memory", async () => localKeys(openKeyStore(":memory:")));
keysCases("keys in SQLite", async () => localKeys(openKeyStore(join(folder, "local.sqlite"))));
keysCases("keys in memory over HTTP", () => overHttp(openKeyStore(":memory:")));
keysCases("keys in SQLite over HTTP", () => overHttp(openKeyStore(join(folder, "http.sqlite"))));

test("keys and their statuses are there again after the file is opened anew", async () => {
  const path = join(folder, "again.sqlite");
  const before = asking(localKeys(openKeyStore(path)));
  await before.putOrganization({ id: "org_a", tier: "Pro" });
  const { key, secret } = await before.putKey({ org_id: "org_a", kind: "server" });
  await before.revoke("org_a", key.id, 1_000);
  await before.close();
  const after = asking(localKeys(openKeyStore(path)));
  expect(await after.bySecretHash(hashSecret(secret), 1_000)).toMatchObject({ key: { id: key.id, status: "revoked" } });
  await after.close();
});
