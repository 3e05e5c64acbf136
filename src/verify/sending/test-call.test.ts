import { expect, test } from "vitest";
import type { Target } from "../../target/target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { asNobody, buildRequest, stepOfTestCall } from "./test-call.ts";

test.each([
  [false, "Bearer "],
  // Strict HTTP/2 servers, such as nghttp2, reset a stream whose header value ends in a blank.
  [true, "Bearer"],
])("a header's value keeps the blank at its end but over HTTP/2: %j", (isH2, sent) => {
  const target: Target = { schema: "floodgate/target@1", base_url: "http://127.0.0.1:1/v1" };
  const call = asNobody("design.styles", { headers: { authorization: "Bearer " } });
  const step = stepOfTestCall(viewOf(target), 0, call);
  const parts = { step, id: "a", idPrefix: "a", secret: null, shared: {}, isH2 };
  const { headers = [] } = buildRequest(target, call, parts).request;
  expect(headers[headers.indexOf("authorization") + 1]).toBe(sent);
});
