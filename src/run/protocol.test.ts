/** Which version of HTTP is spoken, where a gateway offers both: the one that the target file states, by every driver. */
import { mkdtempSync, rmSync } from "node:fs";
import { createSecureServer, type Http2SecureServer } from "node:http2";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { makeCertificates } from "../client/certificates.fixture.ts";
import type { Driver } from "../drivers/driver.ts";
import { driveK6 } from "../drivers/k6/k6.ts";
import { k6OrSkip, ROOT } from "../drivers/k6/run-k6.fixture.ts";
import { driveOpenLoop } from "../drivers/open-loop/driver.ts";
import type { CallLine } from "../history/line.ts";
import type { Protocol } from "../history/run-document.ts";
import { wallUs } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { guardBudget } from "../workload/budget.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { constant } from "../workload/load-profiles.ts";
import { playQuietly } from "./play-quietly.fixture.ts";
import { scenarioStage } from "./suites/suites.ts";

const binary = k6OrSkip();
const folder = mkdtempSync(join(tmpdir(), "floodgate-protocol-"));
const certificates = makeCertificates(folder);
const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
  rmSync(join(folder, "run"), { recursive: true, force: true });
});
afterAll(() => rmSync(folder, { recursive: true }));

type Edge = { target(protocol?: Protocol): Target; versions: Set<string> };

const startEdge = async (offersH2: boolean): Promise<Edge> => {
  const versions = new Set<string>();
  const { good } = certificates as NonNullable<typeof certificates>;
  const answer = (httpVersion: string, end: (body: string) => void): void => {
    versions.add(httpVersion);
    end('{"ok":true}');
  };
  const server = offersH2
    ? createSecureServer({ ...good, allowHTTP1: true }, (req, res) => {
        res.writeHead(200, { "content-type": "application/json" });
        answer(req.httpVersion, (body) => res.end(body));
      })
    : createTlsServer(good, (req, res) => {
        res.writeHead(200, { "content-type": "application/json" });
        answer(req.httpVersion, (body) => res.end(body));
      });
  const sessions = new Set<{ destroy(): void }>();
  (server as Http2SecureServer).on("session", (session) => sessions.add(session));
  server.on("secureConnection", (socket) => sessions.add(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push(() => {
    for (const session of sessions) session.destroy();
    return new Promise((resolve) => server.close(() => resolve()));
  });
  const base_url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const { caFile } = certificates as NonNullable<typeof certificates>;
  return {
    versions,
    target: (protocol) => ({
      schema: "floodgate/target@1",
      base_url,
      transport: { ca: `file:${caFile}`, ...(protocol === undefined ? {} : { protocol }) },
      limits: { slots: 8, service_ms: 20, global_in_flight: 8, org_in_flight: 8, rate_per_s: 50, burst: 100 },
      tenants: [1, 2, 3].map((k) => ({ org: `org_t${k}`, tier: "Pro" as const, server: { key: `svc_sk_live_t${k}` } })),
    }),
  };
};

const DRIVERS: readonly (readonly [string, Driver])[] = [
  ["open-loop", driveOpenLoop],
  ...(binary === null
    ? []
    : [["k6", driveK6({ k6Path: binary, scenario: join(ROOT, "scenarios/catalog-reads.ts") })] as const]),
];

describe.skipIf(certificates === null)("a gateway that offers HTTP/2 as well", () => {
  const CASES = [
    [undefined, "1.1", "h1"],
    ["h1", "1.1", "h1"],
    ["h2", "2.0", "h2"],
  ] as const;
  test.each(DRIVERS.flatMap(([name, driver]) => CASES.map((one) => [name, ...one, driver] as const)))(
    "%s with transport.protocol %o speaks HTTP/%s, and says what it saw",
    async (_, stated, version, seen, driver) => {
      const { target: targetOf, versions } = await startEdge(true);
      const target = targetOf(stated);
      const lines: CallLine[] = [];
      const { protocols } = await driver({
        job: {
          stage: "s",
          idPrefix: "r.c",
          story: "catalog-reads",
          seed: 1,
          profile: constant(30, 1),
          arrivals: "uniform",
          target,
          view: viewOf(target),
          epochUs: wallUs(),
        },
        secrets: createSecrets(folder),
        budget: guardBudget({}),
        onLine: (line) => void lines.push(line),
        signal: new AbortController().signal,
      });
      expect(new Set(lines.map(({ outcome }) => outcome))).toEqual(new Set(["200"]));
      expect(versions).toEqual(new Set([version]));
      expect(protocols).toEqual([seen]);
    },
    30_000,
  );

  test("a stage names in its summary the version that was agreed upon", async () => {
    const { target } = await startEdge(true);
    const stage = scenarioStage("catalog-reads", { ratePerS: 30, durationS: 1 });
    const document = await playQuietly({ profile: "load", folder, target: target(), stages: () => [stage!] });
    expect(document.stages[0]?.protocols).toEqual(["h1"]);
  });
});

describe.skipIf(certificates === null)("HTTP/2 that cannot be had is refused before anything is sent", () => {
  const playAt = (target: Target) =>
    playQuietly({ profile: "load", folder, target, stages: () => [scenarioStage("catalog-reads", { durationS: 1 })!] });

  test("by a gateway that offers HTTP/1.1 alone", async () => {
    const { target, versions } = await startEdge(false);
    const { exit_code, claims } = await playAt(target("h2"));
    expect(exit_code).toBe(3);
    expect(claims.map(({ reason }) => reason).join()).toMatch(
      /offers HTTP\/1\.1 alone, and transport\.protocol says h2/,
    );
    expect(versions.size).toBe(0);
  });

  test("at an http:// address, as a mistake of the target file", async () => {
    const { target } = await startEdge(false);
    const plain = { ...target("h2"), base_url: "http://127.0.0.1:9/v1" };
    await expect(playAt(plain)).rejects.toThrow(/transport\.protocol: expected "h1" for an http:\/\/ address/);
  });
});
