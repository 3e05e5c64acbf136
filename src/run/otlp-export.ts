/** Sends a run's metrics to the OpenTelemetry collector that the environment names; failures are only warnings. */
import { callControl } from "../client/control-call.ts";
import { parseJson } from "../contract/envelopes.ts";
import { clean } from "../contract/foreign-text.ts";
import type { Line } from "../history/line.ts";
import type { Sample } from "../history/series.ts";
import { otlpMetrics } from "../report/otlp-metrics.ts";
import { decoded, redact, redactor } from "../supervision/redaction.ts";

type Environment = Readonly<Record<string, string | undefined>>;
type Warn = (text: string) => void;

const DEADLINE_MS = 3_000;
/** The longest timeout: a longer one would let a slow collector delay the end of the run. */
const DEADLINE_MS_MAX = 10_000;

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** The value of an HTTP header (RFC 9110, field-value). */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Reads OpenTelemetry's environment variables; `null` if they name no usable collector. */
const otlpSettings = (env: Environment, warn: Warn) => {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true" || env.OTEL_METRICS_EXPORTER === "none") return null;
  /** Reads a setting: the variable for metrics comes first, and an empty value counts as absent. */
  const setting = (name: string): { variable: string; value: string } | null => {
    for (const variable of [`OTEL_EXPORTER_OTLP_METRICS_${name}`, `OTEL_EXPORTER_OTLP_${name}`]) {
      const value = env[variable]?.trim();
      if (value) return { variable, value };
    }
    return null;
  };
  const endpoint = (): string | null => {
    const { variable, value } = setting("ENDPOINT") ?? {};
    if (value === undefined) return null;
    redactor.registerUrl(value, variable);
    const url = URL.parse(value);
    if (url === null || !/^https?:$/.test(url.protocol)) {
      warn(`${variable} is no address that begins with http:// or https://; no metrics are sent`);
      return null;
    }
    if (url.username !== "" || url.password !== "") {
      warn(`${variable} has a user or a password in it, which is not sent; put it into OTEL_EXPORTER_OTLP_HEADERS`);
      url.username = "";
      url.password = "";
    }
    if (!variable?.includes("_METRICS_")) url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/metrics`;
    return url.href;
  };
  /** Parses `name=value,name=value`, each percent-encoded. */
  const headers = (): Record<string, string> => {
    const { variable, value: all = "" } = setting("HEADERS") ?? {};
    const found: Record<string, string> = {};
    for (const [at, pair] of all.split(",").entries()) {
      if (pair.trim() === "") continue;
      const cut = pair.indexOf("=");
      const name = decoded(pair.slice(0, Math.max(cut, 0)).trim()).toLowerCase();
      const written = pair.slice(cut + 1).trim();
      const value = decoded(written);
      redactor.register(value, variable);
      const which = `header ${at + 1} of ${variable}`;
      if (cut < 0 || !NAME.test(name) || !VALUE.test(value)) {
        warn(`${which} is no name=value that HTTP can carry; it is left out`);
        continue;
      }
      if (value === written && written.includes("%")) {
        warn(`${which} is not percent-encoded (a % is written %25); it is sent as it stands there`);
      }
      found[name] = value;
    }
    return found;
  };
  const deadlineMs = (): number => {
    const { variable, value } = setting("TIMEOUT") ?? {};
    const ms = Number(value ?? DEADLINE_MS);
    if (Number.isFinite(ms) && ms > 0) return Math.min(ms, DEADLINE_MS_MAX);
    warn(`${variable} is no number of milliseconds above 0; ${DEADLINE_MS} is used`);
    return DEADLINE_MS;
  };
  const url = endpoint();
  if (url === null) return null;
  const { variable, value } = setting("PROTOCOL") ?? {};
  // Most exporters default to http/protobuf; a collector takes both at the same address.
  if (value !== undefined && !/^http\/(?:json|protobuf)$/.test(value)) {
    const is = value === "grpc" ? "grpc" : "none that is known";
    warn(`${variable} is ${is}; Floodgate sends http/json, which a collector takes on port 4318`);
  }
  return { url, headers: headers(), withinMs: deadlineMs() };
};

const EVERY_MS = 5_000;
const MESSAGE_CHARS_MAX = 200;

export type OtlpExport = NonNullable<ReturnType<typeof startOtlpExport>>;

const plain = (text: string): string => clean(redact(text)).replace(/\s+/g, " ").trim().slice(0, MESSAGE_CHARS_MAX);

/** Says what the collector rejected (opentelemetry-proto, `ExportMetricsPartialSuccess`); `null` if nothing. */
const partialOf = (text: string): string | null => {
  type Answer = { partialSuccess?: { rejectedDataPoints?: unknown; errorMessage?: unknown } };
  const { rejectedDataPoints = 0, errorMessage } = (parseJson(text) as Answer | null | undefined)?.partialSuccess ?? {};
  const why = typeof errorMessage === "string" ? plain(errorMessage) : "";
  if (Number(rejectedDataPoints) > 0)
    return `the collector rejected ${Number(rejectedDataPoints)} data points${why === "" ? "" : `: ${why}`}`;
  return why === "" ? null : `the collector took all metrics, and says: ${why}`;
};

type About = { env: Environment; resource: Record<string, string>; startMs: number; onWarning: Warn };

/** Starts the export; `null` if the environment names no usable collector. */
export const startOtlpExport = ({ env, resource, startMs, onWarning }: About) => {
  const said = new Set<string>();
  const warn = (text: string): void => {
    if (!said.has(text)) onWarning(text);
    said.add(text);
  };
  const settings = otlpSettings(env, warn);
  if (settings === null) return null;
  const { url, headers, withinMs } = settings;
  const metrics = otlpMetrics({ "service.name": env.OTEL_SERVICE_NAME ?? "floodgate", ...resource }, startMs);
  const failed = ({ message, code = message }: Error & { code?: string }): void =>
    warn(`metrics could not be sent to the collector of OTEL_EXPORTER_OTLP_ENDPOINT: ${plain(code)}`);
  const send = async (): Promise<void> => {
    try {
      const body = redactor.redactValue(metrics.toOtlp(Date.now()));
      const { status, text } = await callControl(url, { method: "POST", headers, body, withinMs });
      const moved = status < 400 ? ", a redirect, which is not followed" : "";
      if (status >= 300) throw new Error(`status ${status}${moved}`);
      const partial = partialOf(text);
      if (partial !== null) warn(partial);
    } catch (error) {
      failed(error as Error);
    }
  };
  let sending: Promise<void> | null = null;
  const timer = setInterval(() => {
    // While an export is under way no other begins, so that none queue up for a slow collector.
    sending ??= send().finally(() => {
      sending = null;
    });
  }, EVERY_MS);
  timer.unref();
  return {
    see: (line: Line | Sample): void => {
      try {
        metrics.see(line);
      } catch (error) {
        failed(error as Error);
      }
    },
    /** Sends once more, and ends. Never rejects, and ends within its deadlines. */
    close: async (): Promise<void> => {
      clearInterval(timer);
      await sending;
      await send();
    },
  };
};
