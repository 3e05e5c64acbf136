/** What a user says to k6 about where to send its own metrics besides: `K6_OUT` and the settings of its outputs. */
import { redactor } from "../../supervision/redaction.ts";

const NAMES = /^(?:K6_OUT|OTEL_.+|K6_(?:OTEL|PROMETHEUS_RW|INFLUXDB|STATSD|WEB_DASHBOARD|CLOUD)_.+)$/;
const SECRET = /PASSWORD|TOKEN|HEADER|KEY|USERNAME/;

/** Nothing where `K6_OUT` is not set: k6 has a clean environment otherwise. */
export const k6Outputs = (env: Readonly<Record<string, string | undefined>>): Record<string, string> => {
  if (env.K6_OUT === undefined || env.K6_OUT === "") return {};
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || !NAMES.test(name)) continue;
    if (SECRET.test(name)) redactor.register(value, name);
    else redactor.registerUrl(value.replace(/^[\w-]+=/, ""), name);
    kept[name] = value;
  }
  return kept;
};
