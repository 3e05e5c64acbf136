import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Service } from "../control-plane.ts";
import { Unavailable } from "../links/batch.ts";
import { type FaultyLink, type LinkFault, startFaultyLink } from "../links/faulty-link.fixture.ts";
import { createHttpKeys, shiftableClock } from "../ports.ts";
import { asking } from "./keys.fixture.ts";
import { hashSecret } from "./secret.ts";
import { type KeyStore, openKeyStore, startKeyService } from "./store.ts";

const BUDGET_MS = 250;

describe("the link to the key service", () => {
  let store: KeyStore;
  let service: Service;
  let link: FaultyLink;
  let keys: ReturnType<typeof asking>;
  let hash: string;

  beforeEach(async () => {
    store = openKeyStore(":memory:");
    store.putOrganization({ id: "org_a", tier: "Pro" });
    hash = hashSecret(store.putKey({ org_id: "org_a", kind: "server" }, Date.now()).secret);
    service = await startKeyService({ store, clock: shiftableClock() }, { port: 0 });
    link = await startFaultyLink(service.url);
    keys = asking(createHttpKeys({ url: link.url }));
  });
  afterEach(async () => {
    await keys.close();
    await link.close();
    await service.close();
  });

  test.each<LinkFault>(["request-lost", "reply-lost", "reset", "truncated-reply"])(
    "%s: neither found nor unknown, and the first call after the heal is answered",
    async (fault) => {
      expect(await keys.bySecretHash(hash, 5_000)).not.toBeNull();
      link.setFault(fault);
      const asked = [
        keys.bySecretHash(hash, BUDGET_MS),
        keys.byId("key_nobody", BUDGET_MS),
        keys.create("org_a", { kind: "server" }, BUDGET_MS),
        keys.revoke("org_a", "key_nobody", BUDGET_MS),
      ];
      for (const answer of await Promise.allSettled(asked)) {
        expect(answer.status === "rejected" && answer.reason).toBeInstanceOf(Unavailable);
      }
      link.setFault("none");
      expect(await keys.bySecretHash(hash, 5_000)).not.toBeNull();
    },
  );

  test("a refused connection is told at once, and the first call after it is back is answered", async () => {
    await link.refuse();
    const beganMs = performance.now();
    await expect(keys.bySecretHash(hash, 60_000)).rejects.toThrow(Unavailable);
    expect(performance.now() - beganMs).toBeLessThan(30_000);
    await link.listenAgain();
    expect(await keys.bySecretHash(hash, 5_000)).not.toBeNull();
  });
});

test.each([
  ["not JSON", () => "<html>"],
  ["no answers", () => "{}"],
  ["neither found nor missing", (of: string) => JSON.stringify({ answers: [{ of }] })],
  ["another's answer", () => JSON.stringify({ answers: [{ of: "other", found: false }] })],
  [
    "a record with fields missing",
    (of: string) => JSON.stringify({ answers: [{ of, found: true, key: {}, org: {} }] }),
  ],
])("an answer that is nonsense is neither a key nor unknown: %s", async (_name, answerTo) => {
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    response.end(answerTo((JSON.parse(text) as { lookups: { id: string }[] }).lookups[0]?.id ?? ""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const keys = createHttpKeys({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  await expect(keys.find({ id: randomUUID() }, 5_000)).rejects.toThrow(Unavailable);
  await keys.close();
  server.closeAllConnections();
  server.close();
});
