import { readFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { startOtlpExport } from "./recorder.ts";

type Point = { attributes: { key: string; value: { stringValue: string } }[]; asInt?: string; asDouble?: number };
type Metric = {
  name: string;
  sum?: { dataPoints: Point[] };
  gauge?: { dataPoints: Point[] };
  histogram?: { dataPoints: { count: string; bucketCounts: string[] }[] };
};

let server: Server;
let status: number;
let answer: string;
let got: { path: string; headers: IncomingHttpHeaders; body: string }[];
beforeEach(async () => {
  status = 200;
  answer = "{}";
  got = [];
  server = createServer((req, res) => {
    let body = "";
    req.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    req.on("end", () => {
      got.push({ path: req.url ?? "", headers: req.headers, body });
      res.writeHead(status, { location: "/elsewhere" }).end(answer);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(() => new Promise((resolve) => server.close(resolve)));

const call = (i: number, outcome: string): CallLine => ({
  type: "call",
  id: `r.s.c-${i}`,
  stage: "s",
  driver: i % 2 === 0 ? "k6" : "open-loop",
  org: "org_a",
  route: "design.styles",
  intended_us: 0,
  started_us: 900,
  connect_us: 0,
  sent_us: 1_000,
  first_us: 5_000,
  done_us: 30_000,
  outcome,
  attempt: 0,
  clock_error_us: 0,
});

const start = (env: Record<string, string>) => {
  const warnings: string[] = [];
  const about = {
    env,
    resource: { "floodgate.run": "r1" },
    startMs: 1_000,
    onWarning: (text: string) => warnings.push(text),
  };
  return { exporter: startOtlpExport(about), warnings };
};
const base = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

describe("metrics to a collector", () => {
  test("the dashboard asks for metrics that are sent, and for all of them that are about calls", async () => {
    const { exporter } = start({ OTEL_EXPORTER_OTLP_ENDPOINT: base() });
    exporter?.see({ ...call(0, "200"), events: 2, ended: "done", first_event_us: 6_000, gaps_us: [20_000] });
    exporter?.see(call(1, "429 b2b_overloaded"));
    const values = { in_flight: 1, generator_cores: 0.5, host_steal: 0 };
    exporter?.see({ type: "sample", stage: "s", at_us: 1, values });
    await exporter?.close();
    const sent = [...(got[0]?.body ?? "").matchAll(/"name":"(floodgate_\w+)"/g)].map(([, name]) => name as string);
    const dashboard = readFileSync(join(import.meta.dirname, "../../reports/grafana-dashboard.json"), "utf8");
    const asked = [...dashboard.matchAll(/floodgate_(?!run\b)\w+/g)].map(([name]) =>
      name.replace(/_(?:total|bucket)$/, ""),
    );
    expect(new Set(asked)).toEqual(new Set(sent));
  });

  test("nothing is sent where none is named", () => {
    expect(start({}).exporter).toBeNull();
  });

  test("every call is counted once, by the same names for both drivers", async () => {
    const { exporter, warnings } = start({
      OTEL_EXPORTER_OTLP_ENDPOINT: `${base()}/otlp/`,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Basic%20c2VjcmV0LW9mLXRoZS1jb2xsZWN0b3I=",
    });
    const outcomes = ["200", "200", "429 b2b_overloaded", "429 b2b_overloaded", "indeterminate"];
    for (const [i, outcome] of outcomes.entries()) exporter?.see(call(i, outcome));
    exporter?.see({ type: "sample", stage: "s", at_us: 1, values: { in_flight: 7 } });
    await exporter?.close();
    expect(warnings).toEqual([]);
    expect(got[0]?.path).toBe("/otlp/v1/metrics");
    expect(got[0]?.headers.authorization).toBe("Basic c2VjcmV0LW9mLXRoZS1jb2xsZWN0b3I=");
    const { resourceMetrics } = JSON.parse(got[0]?.body ?? "") as {
      resourceMetrics: { scopeMetrics: { metrics: Metric[] }[] }[];
    };
    const metrics = resourceMetrics[0]!.scopeMetrics[0]!.metrics;
    const of = (name: string) => metrics.find((metric) => metric.name === name);
    const points = of("floodgate_calls")!.sum!.dataPoints;
    expect(points.reduce((sum, { asInt }) => sum + Number(asInt), 0)).toBe(outcomes.length);
    const drivers = points.flatMap(({ attributes }) => attributes.filter(({ key }) => key === "driver"));
    expect(new Set(drivers.map(({ value }) => value.stringValue))).toEqual(new Set(["k6", "open-loop"]));
    const latency = of("floodgate_latency_ms")!.histogram!.dataPoints;
    expect(latency.map(({ count }) => count)).toEqual(["1", "1"]);
    expect(latency[0]!.bucketCounts.indexOf("1")).toBe(5);
    expect(of("floodgate_in_flight")!.gauge!.dataPoints[0]!.asDouble).toBe(7);
  });

  test("a collector that refuses is a warning, once, and ends nothing", async () => {
    status = 503;
    const { exporter, warnings } = start({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${base()}/here` });
    exporter?.see(call(0, "200"));
    await exporter?.close();
    expect(got[0]?.path).toBe("/here");
    expect(warnings).toEqual([expect.stringContaining("status 503")]);
  });

  test.each<[what: string, env: Record<string, string>, warning: RegExp]>([
    [
      "a header that is not percent-encoded",
      { OTEL_EXPORTER_OTLP_HEADERS: "api-key=50%off-SECRET" },
      /header 1 .* not percent-encoded/,
    ],
    ["a header without a value", { OTEL_EXPORTER_OTLP_HEADERS: "a=1,just-a-SECRET" }, /header 2 .* is left out/],
    ["a header that HTTP cannot carry", { OTEL_EXPORTER_OTLP_HEADERS: "a=x%0ASECRET" }, /header 1 .* is left out/],
    ["a time-out that is none", { OTEL_EXPORTER_OTLP_TIMEOUT: "soon" }, /TIMEOUT is no number/],
    ["a time-out of nothing", { OTEL_EXPORTER_OTLP_TIMEOUT: "0" }, /TIMEOUT is no number/],
    ["a protocol that is none", { OTEL_EXPORTER_OTLP_PROTOCOL: "carrier-pigeon" }, /PROTOCOL is not a known protocol/],
    ["gRPC", { OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "grpc" }, /METRICS_PROTOCOL is grpc/],
  ])("%s is a warning that shows no value, and the metrics are sent", async (_what, env, warning) => {
    const { exporter, warnings } = start({ OTEL_EXPORTER_OTLP_ENDPOINT: base(), ...env });
    exporter?.see(call(0, "200"));
    await exporter?.close();
    expect(warnings).toEqual([expect.stringMatching(warning)]);
    expect(warnings.join()).not.toContain("SECRET");
    expect(got).toHaveLength(1);
  });

  test.each([
    ["no address", "collector"],
    ["no scheme", "localhost:4318"],
    ["another scheme", "ftp://127.0.0.1/"],
    ["a port that is none", "http://127.0.0.1:99999"],
  ])("an endpoint with %s is a warning, and nothing is sent", async (_what, endpoint) => {
    const { exporter, warnings } = start({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
    expect([exporter, warnings]).toEqual([
      null,
      [expect.stringMatching(/ENDPOINT is no address .* no metrics are sent/)],
    ]);
  });

  test("what is switched off sends nothing and says nothing", () => {
    for (const [name, off] of [
      ["OTEL_SDK_DISABLED", "true"],
      ["OTEL_METRICS_EXPORTER", "none"],
    ] as const) {
      expect(start({ OTEL_EXPORTER_OTLP_ENDPOINT: base(), [name]: off })).toEqual({ exporter: null, warnings: [] });
    }
  });

  test.each<[what: string, answer: string, warning: RegExp | null]>([
    [
      "rejected points",
      '{"partialSuccess":{"rejectedDataPoints":"12","errorMessage":"too\\u001b[31m old"}}',
      /rejected 12 data points: too\ufffd\[31m old$/,
    ],
    ["rejected points, as a number", '{"partialSuccess":{"rejectedDataPoints":3}}', /rejected 3 data points$/],
    [
      "a word of warning",
      '{"partialSuccess":{"errorMessage":"use another name"}}',
      /took all metrics, and says: use another name/,
    ],
    [
      "a long story",
      JSON.stringify({ partialSuccess: { rejectedDataPoints: 1, errorMessage: "x".repeat(9_000) } }),
      /^.{0,300}$/,
    ],
    ["nothing special", '{"partialSuccess":{}}', null],
    ["no JSON", "fine", null],
    ["another JSON", "null", null],
  ])("partial success with %s is read and said, once", async (_what, body, warning) => {
    answer = body;
    const { exporter, warnings } = start({ OTEL_EXPORTER_OTLP_ENDPOINT: base() });
    await exporter?.close();
    await exporter?.close();
    expect(warnings).toEqual(warning === null ? [] : [expect.stringMatching(warning)]);
  });

  test("a redirect is said and not followed", async () => {
    status = 307;
    const { exporter, warnings } = start({ OTEL_EXPORTER_OTLP_ENDPOINT: base() });
    await exporter?.close();
    expect(warnings).toEqual([expect.stringContaining("status 307, a redirect, which is not followed")]);
    expect(got).toHaveLength(1);
  });

  test("a collector that nobody runs, one that says nothing and one that trickles cost a deadline", async () => {
    const mute = createServer((req, res) => {
      if (req.url?.startsWith("/trickle")) {
        res.writeHead(200);
        const timer = setInterval(() => res.write(" "), 20);
        res.on("close", () => clearInterval(timer));
      }
    });
    await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
    const there = `http://127.0.0.1:${(mute.address() as AddressInfo).port}`;
    const saidOf = async (endpoint: string): Promise<string[]> => {
      const { exporter, warnings } = start({
        OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
        OTEL_EXPORTER_OTLP_TIMEOUT: "150",
      });
      await exporter?.close();
      return warnings;
    };
    expect(await saidOf(`${there}/mute`)).toEqual([expect.stringContaining("no answer within 150 ms")]);
    expect(await saidOf(`${there}/trickle`)).toEqual([expect.stringContaining("no answer within 150 ms")]);
    mute.closeAllConnections();
    await new Promise((resolve) => mute.close(resolve));
    const gone = createServer();
    await new Promise<void>((resolve) => gone.listen(0, "127.0.0.1", resolve));
    const nowhere = `http://127.0.0.1:${(gone.address() as AddressInfo).port}`;
    await new Promise((resolve) => gone.close(resolve));
    expect(await saidOf(nowhere)).toEqual([expect.stringContaining("ECONNREFUSED")]);
  });

  test("a user and a password in the endpoint are neither sent nor shown", async () => {
    const { exporter, warnings } = start({ OTEL_EXPORTER_OTLP_ENDPOINT: base().replace("//", "//me:SECRET-%zz@") });
    await exporter?.close();
    expect(warnings).toEqual([expect.stringMatching(/has a user or a password in it, which is not sent/)]);
    expect(warnings.join()).not.toContain("SECRET");
    expect(got[0]?.headers.authorization).toBeUndefined();
  });
});
