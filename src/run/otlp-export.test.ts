import { readFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { startOtlpExport } from "./otlp-export.ts";

type Point = { attributes: { key: string; value: { stringValue: string } }[]; asInt?: string; asDouble?: number };
type Metric = {
  name: string;
  sum?: { dataPoints: Point[] };
  gauge?: { dataPoints: Point[] };
  histogram?: { dataPoints: { count: string; bucketCounts: string[] }[] };
};

let server: Server;
let status: number;
let got: { path: string; headers: IncomingHttpHeaders; body: string }[];
beforeEach(async () => {
  status = 200;
  got = [];
  server = createServer((req, res) => {
    let body = "";
    req.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    req.on("end", () => {
      got.push({ path: req.url ?? "", headers: req.headers, body });
      res.writeHead(status).end("{}");
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
});
