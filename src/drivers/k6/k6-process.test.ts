import { expect, test } from "vitest";
import { k6Outputs } from "./k6-process.ts";

test("K6_OUT goes to k6 with the settings of its output, and nothing else of the environment does", () => {
  const env = {
    K6_OUT: "opentelemetry",
    K6_OTEL_EXPORTER_TYPE: "http",
    OTEL_SERVICE_NAME: "x",
    K6_VUS: "9",
    HOME: "/h",
  };
  expect(k6Outputs(env)).toEqual({ K6_OUT: "opentelemetry", K6_OTEL_EXPORTER_TYPE: "http", OTEL_SERVICE_NAME: "x" });
  expect(k6Outputs({ OTEL_SERVICE_NAME: "x", K6_OTEL_EXPORTER_TYPE: "http" })).toEqual({});
});
