/** The same failure of a connection has the same word in the history of either driver. Real servers, real k6. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createServer as createHttps } from "node:https";
import { createServer as createTcp } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { makeCertificates } from "../client/certificates.fixture.ts";
import { openListeners } from "../client/listeners.fixture.ts";
import type { CallLine } from "../history/line.ts";
import { wallUs } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { guardBudget } from "../workload/budget.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { constant } from "../workload/load-profiles.ts";
import type { Drive, Driver } from "./driver.ts";
import { driveK6 } from "./k6/k6.ts";
import { k6OrSkip, ROOT } from "./k6/run-k6.fixture.ts";
import { driveOpenLoop } from "./open-loop/driver.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-one-word-"));
const made = makeCertificates(folder);
const k6Path = k6OrSkip();
const { listen, closedPort, close } = openListeners();
afterAll(() => {
  close();
  rmSync(folder, { recursive: true, force: true });
});

/** Only what never answers is to run into a time-out: two dozen drivers start at once, and a busy machine serves them late. */
const [PATIENT, IMPATIENT] = [
  { callMs: 60_000, firstEventMs: 60_000, idleMs: 60_000 },
  { callMs: 2_000, firstEventMs: 700, idleMs: 700 },
];

const wordsOf = async (driver: Driver, base_url: string, ca: boolean, timeouts = PATIENT): Promise<unknown[]> => {
  const lines: CallLine[] = [];
  const target: Target = {
    schema: "floodgate/target@1",
    base_url,
    transport: ca ? { ca: "file:ca.pem" } : {},
    credentials: { server: { key: "svc_sk_live_0123456789abcdef" } },
  };
  const drive: Drive = {
    job: {
      stage: "stage",
      idPrefix: "run1-stage",
      story: "catalog-reads",
      seed: 1,
      profile: constant(10, 0.5),
      arrivals: "uniform",
      target,
      view: viewOf(target),
      epochUs: wallUs(),
      timeouts,
    },
    secrets: createSecrets(folder),
    budget: guardBudget({}),
    onLine: (line) => lines.push(line),
    signal: new AbortController().signal,
  };
  await driver(drive);
  return [...new Set(lines.map(({ error }) => error))];
};

const tlsPort = (identity: "good" | "expired" | "otherName" | "selfSigned"): Promise<number> =>
  listen(createHttps(made![identity], (_, res) => void res.end("{}")));
const tcpPort = (serve: (socket: import("node:net").Socket) => void): Promise<number> =>
  listen(
    createTcp((socket) => {
      socket.on("error", () => undefined);
      serve(socket);
    }),
  );

type Case = [word: string, url: () => Promise<string>, ca?: boolean];
const CASES: Case[] = [
  ["connection_refused", async () => `http://127.0.0.1:${await closedPort()}/v1`],
  [
    "connection_reset",
    async () => `http://127.0.0.1:${await tcpPort((s) => void s.once("data", () => s.resetAndDestroy()))}/v1`,
  ],
  ["connection_closed", async () => `http://127.0.0.1:${await tcpPort((s) => void s.once("data", () => s.end()))}/v1`],
  ["first_event_timeout", async () => `http://127.0.0.1:${await tcpPort((s) => void s.resume())}/v1`],
  [
    "protocol_error",
    async () => `http://127.0.0.1:${await tcpPort((s) => void s.once("data", () => s.end("what?\r\n\r\n")))}/v1`,
  ],
  ["tls_certificate_expired", async () => `https://127.0.0.1:${await tlsPort("expired")}/v1`, true],
  ["tls_wrong_name", async () => `https://127.0.0.1:${await tlsPort("otherName")}/v1`, true],
  ["tls_unknown_authority", async () => `https://127.0.0.1:${await tlsPort("good")}/v1`],
  ["tls_unknown_authority", async () => `https://127.0.0.1:${await tlsPort("selfSigned")}/v1`, true],
  ["tls_other", async () => `https://127.0.0.1:${await listen(createHttp((_, res) => void res.end("{}")))}/v1`],
];

/** The codes of time-outs in k6 are tested in native/sse/end_code_test.go, because k6 takes no shorter ones from here. */
const BY_K6 = CASES.filter(([word]) => word !== "first_event_timeout");

describe.concurrent("both drivers name what broke a call", () => {
  test.skipIf(made === null).each(CASES)("%s, by the open-loop driver (%#)", async (word, url, ca = false) => {
    const timeouts = word === "first_event_timeout" ? IMPATIENT : PATIENT;
    expect(await wordsOf(driveOpenLoop, await url(), ca, timeouts)).toEqual([word]);
  });

  test.skipIf(made === null || k6Path === null).each(BY_K6)("%s, by k6 (%#)", async (word, url, ca = false) => {
    const k6 = driveK6({ k6Path: k6Path as string, scenario: join(ROOT, "scenarios/catalog-reads.ts"), vus: 2 });
    expect(await wordsOf(k6, await url(), ca)).toEqual([word]);
  });
});
