/**
 * Sends the metrics of a run to an OpenTelemetry collector while it goes on, where the environment names one
 * (`OTEL_EXPORTER_OTLP_ENDPOINT`, as the OpenTelemetry specification says). Whatever goes wrong, with the settings, on the
 * way or at the collector, is a warning and nothing more: whoever watches decides nothing.
 */
import { callControl } from "../client/control-call.ts";
import { parseJson } from "../contract/envelopes.ts";
import { clean } from "../contract/foreign-text.ts";
import type { Line } from "../history/line.ts";
import type { Sample } from "../history/sample.ts";
import { OtlpMetrics } from "../report/otlp-metrics.ts";
import { redact, redactor } from "../supervision/redaction.ts";
import { otlpSettings } from "./otlp-settings.ts";

const EVERY_MS = 5_000;
const MESSAGE_CHARS_MAX = 200;

export type OtlpExport = {
  see(line: Line | Sample): void;
  /** Sends once more, and ends. Never rejects, and ends within its deadlines. */
  close(): Promise<void>;
};

type OtlpAbout = {
  env: Readonly<Record<string, string | undefined>>;
  /** Attributes of the run. */
  resource: Record<string, string>;
  startMs: number;
  onWarning(text: string): void;
};

/** On one line, without what a terminal obeys, and short. */
const plain = (text: string): string => clean(redact(text)).replace(/\s+/g, " ").trim().slice(0, MESSAGE_CHARS_MAX);

/** What the collector took only in part (opentelemetry-proto, `ExportMetricsPartialSuccess`); `null` where it took all. */
const partialOf = (text: string): string | null => {
  type Answer = { partialSuccess?: { rejectedDataPoints?: unknown; errorMessage?: unknown } };
  const partial = (parseJson(text) as Answer | null | undefined)?.partialSuccess;
  const rejected = Number(partial?.rejectedDataPoints ?? 0);
  const why = typeof partial?.errorMessage === "string" ? plain(partial.errorMessage) : "";
  if (!(rejected > 0)) return why === "" ? null : `the collector took all metrics, and says: ${why}`;
  return `the collector rejected ${rejected} data points${why === "" ? "" : `: ${why}`}`;
};

/** `null` where the environment names no collector that can be used. */
export const startOtlpExport = ({ env, resource, startMs, onWarning }: OtlpAbout): OtlpExport | null => {
  const said = new Set<string>();
  // What goes wrong at every export is said once.
  const warn = (text: string): void => {
    if (!said.has(text)) onWarning(text);
    said.add(text);
  };
  const settings = otlpSettings(env, warn);
  if (settings === null) return null;
  const { endpoint, headers, deadlineMs } = settings;
  const metrics = new OtlpMetrics({ "service.name": env.OTEL_SERVICE_NAME ?? "floodgate", ...resource }, startMs);
  const failed = (error: unknown): void => {
    const { message, code } = error as Error & { code?: string };
    const why = plain(code ?? message);
    warn(`metrics could not be sent to the collector of OTEL_EXPORTER_OTLP_ENDPOINT: ${why}`);
  };
  const send = async (): Promise<void> => {
    try {
      const body = redactor.redactValue(metrics.toOtlp(Date.now()));
      const { status, text } = await callControl(endpoint, { method: "POST", headers, body, withinMs: deadlineMs });
      const moved = status >= 300 && status < 400 ? ", a redirect, which is not followed" : "";
      if (status >= 300) failed(new Error(`status ${status}${moved}`));
      const partial = status < 300 ? partialOf(text) : null;
      if (partial !== null) warn(partial);
    } catch (error) {
      failed(error);
    }
  };
  let sending: Promise<void> | null = null;
  const timer = setInterval(() => {
    // A slow collector gets the next export in place of a queue of them.
    sending ??= send().finally(() => {
      sending = null;
    });
  }, EVERY_MS);
  timer.unref();
  return {
    see: (line) => {
      try {
        metrics.see(line);
      } catch (error) {
        failed(error);
      }
    },
    close: async () => {
      clearInterval(timer);
      await sending;
      await send();
    },
  };
};
