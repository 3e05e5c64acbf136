/** What one handshake shows, against a TLS server with a certificate of its own making. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSecrets } from "../../target/secrets.ts";
import type { Target, Transport } from "../../target/target.ts";
import { protocolFindings } from "./connection.ts";
import { diagnoseTarget } from "./diagnose-target.ts";
import { findBaseUrl } from "./find-base-url.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-tls-look-"));
let server: Server | undefined;
let url = "";

beforeAll(async () => {
  const files = ["-keyout", join(folder, "key.pem"), "-out", join(folder, "cert.pem")];
  const what = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3"];
  try {
    await promisify(execFile)("openssl", [
      ...[...what, ...files, "-subj", "/CN=maps.test", "-addext", "subjectAltName=IP:127.0.0.1"],
    ]);
  } catch {
    console.warn("SKIPPED: the tests of a look at TLS need openssl");
    return;
  }
  const pem = (name: string): Buffer => readFileSync(join(folder, name));
  server = createServer({ key: pem("key.pem"), cert: pem("cert.pem") }, (req, res) => {
    const isRoute = req.url?.startsWith("/v1/design/") === true;
    res.writeHead(isRoute ? 401 : 404, { "content-type": "application/json" }).end("{}");
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
});
afterAll(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => (server === undefined ? resolve(null) : server.close(resolve)));
  rmSync(folder, { recursive: true });
});

const look = (transport: Transport, nowMs = Date.now()) => {
  const target: Target = { schema: "floodgate/target@1", base_url: url, transport };
  return protocolFindings(target, createSecrets(folder), nowMs);
};
const CA: Transport = { ca: "file:cert.pem" };

describe("a look at TLS", () => {
  test("names version, certificate and its end, and warns when that is near", async (context) => {
    if (server === undefined) return context.skip();
    const [protocol, tls] = await look(CA);
    expect(protocol).toMatchObject({ state: "ok", text: expect.stringContaining("HTTP/1.1 alone is offered") });
    expect(tls).toMatchObject({ state: "warn", text: expect.stringMatching(/^TLSv1\.3, certificate of maps\.test/) });
    const monthAgoMs = Date.now() - 30 * 24 * 3_600_000;
    expect((await look(CA, monthAgoMs))[1]?.state).toBe("ok");
  });

  test("an unknown authority does not reach the deployment, and a protocol that is not offered is wrong", async (context) => {
    if (server === undefined) return context.skip();
    const [, tls] = await look({});
    expect(tls).toMatchObject({ state: "silent", todo: expect.stringContaining('"ca"') });
    const [protocol] = await look({ ...CA, protocol: "h2" });
    expect(protocol).toMatchObject({ state: "wrong", text: expect.stringContaining("transport.protocol says h2") });
  });

  test("a certificate and a key that are none are named before a connection is made", async (context) => {
    if (server === undefined) return context.skip();
    const file = join(folder, "target.json");
    const credentials = { server: { key: "svc_sk_live_4f9aK2mQx7LpT3vBz8Ns" } };
    for (const [transport, said] of [
      [{ ...CA, cert: "file:cert.pem", key: "file:cert.pem" }, "transport.key: expected a private key"],
      [{ ca: "file:key.pem" }, "transport.ca: expected a certificate"],
    ] as const) {
      const target = { schema: "floodgate/target@1", base_url: url, transport, credentials };
      writeFileSync(file, JSON.stringify(target));
      const { sections, spent } = await diagnoseTarget(file, []);
      const wrong = sections.flatMap(({ findings }) => findings).filter(({ state }) => state === "wrong");
      expect(wrong).toEqual([expect.objectContaining({ name: "transport", text: expect.stringContaining(said) })]);
      expect(spent.requests).toBe(0);
    }
  });

  test("an address that was written with http:// is found behind https://", async (context) => {
    if (server === undefined) return context.skip();
    const { found } = await findBaseUrl(url.replace(/^https:/, "http:").replace(/\/v1$/, ""), CA, folder);
    expect(found?.url).toBe(url);
  });
});
