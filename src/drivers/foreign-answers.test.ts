/** Answers that the API did not write, or that nobody asked for as they are: every driver calls them by one name. */
import type { OutgoingHttpHeaders } from "node:http";
import { join } from "node:path";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { type StubApi, startStubApi } from "../client/stub-api.fixture.ts";
import { VOCABULARIES, writeEvent } from "../contract/streams.ts";
import type { CallLine } from "../history/line.ts";
import { wallUs } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import { guardBudget } from "../workload/budget.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { constant } from "../workload/load-profiles.ts";
import { driveAutocannon } from "./autocannon/autocannon.ts";
import { runK6 } from "./k6/k6.ts";
import { k6OrSkip, ROOT } from "./k6/run-k6.fixture.ts";
import { runOpenLoop } from "./open-loop/run-open-loop.fixture.ts";

const binary = k6OrSkip();

type Foreign = {
  what: string;
  status?: number;
  type?: string;
  /** The header Content-Type comes twice, as behind a proxy that adds its own. */
  twice?: true;
  coding?: string;
  /** From the plain body, which is JSON or an event stream. */
  body(plain: string): string | Buffer;
  outcome: string;
  error?: string;
};

const page = "<html><head><title>Sign in</title></head></html>";
const coded = (coding: string, body: Foreign["body"], word: string, status = 200): Foreign => ({
  what: `${status} coded ${coding}`,
  status,
  coding,
  body,
  outcome: `edge ${status}`,
  error: `coded-${word}`,
});

const ANSWERS: readonly Foreign[] = [
  coded("gzip", gzipSync, "gzip"),
  coded("GZIP", gzipSync, "gzip"),
  coded("x-gzip", gzipSync, "gzip"),
  coded("br", brotliCompressSync, "br"),
  coded("deflate", deflateSync, "deflate"),
  coded("zstd", zstdCompressSync, "zstd"),
  coded("identity, gzip", gzipSync, "gzip"),
  coded("of-our-own", (plain) => plain, "unknown"),
  { ...coded("gzip", (plain) => plain, "gzip"), what: "a coding that it does not have" },
  coded("gzip", () => gzipSync('{"detail":"rate_limited"}'), "gzip", 429),
  { what: "a coding that is none", coding: "identity", body: (plain) => plain, outcome: "200" },
  { what: "an empty coding", coding: "", body: (plain) => plain, outcome: "200" },
  { what: "a page where one signs in", type: "text/html", body: () => page, outcome: "edge 200" },
  { what: "a page that moved", status: 301, type: "text/html", body: () => page, outcome: "edge 301" },
  { what: "a firewall's page", status: 403, type: "text/html", body: () => page, outcome: "edge 403" },
  { what: "a header that is too large", status: 431, body: () => "", outcome: "edge 431" },
  { what: "a gateway's page", status: 503, type: "text/html", body: () => page, outcome: "edge 503" },
  { what: "a gateway's words", status: 502, body: () => '{"error":"Bad Gateway"}', outcome: "edge 502" },
  { what: "a gateway's limit", status: 429, body: () => '{"message":"API rate limit exceeded"}', outcome: "edge 429" },
  { what: "a content type that stands twice", twice: true, body: (plain) => plain, outcome: "200" },
  { what: "a byte order mark", body: (plain) => `\ufeff${plain}`, outcome: "200" },
  {
    what: "a refusal behind a byte order mark",
    status: 429,
    body: () => '\ufeff{"detail":"rate_limited"}',
    outcome: "429 rate_limited",
  },
  { what: "a refusal of the API", status: 429, body: () => '{"detail":"rate_limited"}', outcome: "429 rate_limited" },
];

const numberOf = (id: string): number => Number(/-(\d+)$/.exec(id)?.[1] ?? 0);
const answerOf = (id: string): Foreign => ANSWERS[numberOf(id) % ANSWERS.length] as Foreign;

/** Calls of the story are answered in turn; sessions are minted as usual. */
const startForeign = async (): Promise<StubApi> => {
  const stub = await startStubApi();
  const { content, done } = VOCABULARIES.control;
  stub.instead = ({ id, path }, res) => {
    if (!/c-\d+$/.test(id)) return false;
    const isStream = path.includes("/stream");
    const plain = isStream ? writeEvent(content[0] as string, { text: "a" }) + writeEvent(done, {}) : '{"ok":true}';
    const { status = 200, type, twice, coding, body } = answerOf(id);
    const usual = status === 200 && isStream ? "text/event-stream" : "application/json";
    const headers: Record<string, string | string[]> = { "content-type": twice ? [usual, usual] : (type ?? usual) };
    if (coding !== undefined) headers["content-encoding"] = coding;
    res.writeHead(status, headers as OutgoingHttpHeaders);
    res.end(body(plain));
    return true;
  };
  return stub;
};

const play = async (driver: "open-loop" | "k6", story: string, stub: StubApi): Promise<CallLine[]> => {
  const lines: CallLine[] = [];
  const target = stub.target();
  const job = {
    stage: "s",
    idPrefix: `r.${driver}.c`,
    seed: 3,
    profile: constant(2 * ANSWERS.length, 1),
    arrivals: "uniform" as const,
    target,
    view: viewOf(target),
    epochUs: wallUs(),
  };
  const common = { secrets: createSecrets("."), onLine: (line: CallLine) => void lines.push(line) };
  if (driver === "open-loop") await runOpenLoop({ job: { ...job, story }, ...common });
  else {
    const setup = { k6Path: binary as string, scenario: join(ROOT, `scenarios/${story}.ts`) };
    const signal = new AbortController().signal;
    const { problems } = await runK6(setup, { job: { ...job, story }, budget: guardBudget({}), signal, ...common });
    expect(problems.filter(({ verdict }) => verdict === "fail")).toEqual([]);
  }
  return lines.filter(({ unscheduled, attempt }) => unscheduled === undefined && attempt === 0);
};

const DRIVERS = binary === null ? (["open-loop"] as const) : (["open-loop", "k6"] as const);

test.each(
  DRIVERS.flatMap((driver) =>
    (["catalog-reads", "chat-past-capacity", "steady-mix"] as const).map((story) => [driver, story] as const),
  ),
)(
  "%s asks for no coding in %s, and calls each answer that is not the API's by its name",
  async (driver, story) => {
    const stub = await startForeign();
    try {
      const lines = await play(driver, story, stub);
      expect(lines.length).toBe(2 * ANSWERS.length);
      for (const line of lines) {
        const { what, outcome, error } = answerOf(line.id);
        expect({ what, outcome: line.outcome, error: line.error }).toEqual({ what, outcome, error });
        if (outcome === "edge 200") expect(line.events ?? 0, what).toBe(0);
      }
      expect(new Set(stub.asked.map(({ headers }) => headers["accept-encoding"]))).toEqual(new Set(["identity"]));
    } finally {
      await stub.close();
    }
  },
  30_000,
);

test("autocannon asks for no coding either, and counts them by the same names", async () => {
  const stub = await startForeign();
  const target = stub.target();
  try {
    const byOutcome: Record<string, number> = {};
    await driveAutocannon()({
      job: {
        ...{ stage: "s", idPrefix: "r.c", story: "catalog-reads", seed: 3, target, view: viewOf(target) },
        ...{ profile: constant(2, 1), arrivals: "uniform", epochUs: wallUs() },
      },
      secrets: createSecrets("."),
      budget: guardBudget({ requests: ANSWERS.length }),
      onLine: ({ outcome }) => {
        byOutcome[outcome] = (byOutcome[outcome] ?? 0) + 1;
      },
      signal: new AbortController().signal,
    });
    const expected: Record<string, number> = {};
    for (const { outcome } of ANSWERS) expected[outcome] = (expected[outcome] ?? 0) + 1;
    expect(byOutcome).toEqual(expected);
    expect(new Set(stub.asked.map(({ headers }) => headers["accept-encoding"]))).toEqual(new Set(["identity"]));
  } finally {
    await stub.close();
  }
});
