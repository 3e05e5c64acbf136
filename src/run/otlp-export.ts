/**
 * Sends the metrics of a run to an OpenTelemetry collector while it goes on, where the environment names one
 * (`OTEL_EXPORTER_OTLP_ENDPOINT`, as the OpenTelemetry specification says). What cannot be sent is a warning and nothing
 * more: whoever watches decides nothing.
 */
import { request } from "undici";
import type { Line } from "../history/line.ts";
import type { Sample } from "../history/sample.ts";
import { OtlpMetrics } from "../report/otlp-metrics.ts";
import { redactor } from "../supervision/redaction.ts";

const EVERY_MS = 5_000;
const DEADLINE_MS = 3_000;

export type OtlpExport = {
  see(line: Line | Sample): void;
  /** Sends once more, and ends. */
  close(): Promise<void>;
};

type Environment = Readonly<Record<string, string | undefined>>;

/** Where to; `null` where none is named. */
const endpointOf = (env: Environment): string | null => {
  const own = env.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT;
  if (own !== undefined && own !== "") return own;
  const base = env.OTEL_EXPORTER_OTLP_ENDPOINT;
  return base === undefined || base === "" ? null : `${base.replace(/\/+$/, "")}/v1/metrics`;
};

/** `name=value,name=value`, each percent-encoded. Values are credentials more often than not. */
const headersOf = (env: Environment): Record<string, string> => {
  const text = env.OTEL_EXPORTER_OTLP_METRICS_HEADERS ?? env.OTEL_EXPORTER_OTLP_HEADERS ?? "";
  const pairs = text.split(",").filter((pair) => pair.includes("="));
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      const [name, value] = [pair.slice(0, at), pair.slice(at + 1)].map((part) => decodeURIComponent(part.trim()));
      redactor.register(value as string);
      return [(name as string).toLowerCase(), value as string];
    }),
  );
};

type OtlpAbout = {
  env: Environment;
  /** Attributes of the run. */
  resource: Record<string, string>;
  startMs: number;
  onWarning(text: string): void;
};

/** `null` where the environment names no collector. */
export const startOtlpExport = ({ env, resource, startMs, onWarning }: OtlpAbout): OtlpExport | null => {
  const endpoint = endpointOf(env);
  if (endpoint === null) return null;
  redactor.registerUrl(endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT");
  const protocol = env.OTEL_EXPORTER_OTLP_METRICS_PROTOCOL ?? env.OTEL_EXPORTER_OTLP_PROTOCOL;
  if (protocol === "grpc") {
    onWarning("OTEL_EXPORTER_OTLP_PROTOCOL is grpc; Floodgate sends http/json, which a collector takes on port 4318");
  }
  const metrics = new OtlpMetrics({ "service.name": env.OTEL_SERVICE_NAME ?? "floodgate", ...resource }, startMs);
  const headers = headersOf(env);
  let hasWarned = false;
  const send = async (): Promise<void> => {
    try {
      const answer = await request(endpoint, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(redactor.redactValue(metrics.toOtlp(Date.now()))),
        headersTimeout: DEADLINE_MS,
        bodyTimeout: DEADLINE_MS,
        signal: AbortSignal.timeout(DEADLINE_MS),
      });
      await answer.body.dump();
      if (answer.statusCode >= 300) throw new Error(`status ${answer.statusCode}`);
    } catch (error) {
      if (!hasWarned)
        onWarning(`metrics could not be sent to OTEL_EXPORTER_OTLP_ENDPOINT: ${(error as Error).message}`);
      hasWarned = true;
    }
  };
  let sending: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    sending = sending.then(send);
  }, EVERY_MS);
  timer.unref();
  return {
    see: (line) => metrics.see(line),
    close: async () => {
      clearInterval(timer);
      await sending.then(send);
    },
  };
};
