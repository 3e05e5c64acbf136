import { describe, expect, test } from "vitest";
import { type Answer, cacheInWords, isTransient, nameAnswer } from "./answer.ts";

const named = (status: number, body: unknown): [string, string] => {
  const { outcome, envelope } = nameAnswer(status, typeof body === "string" ? body : JSON.stringify(body));
  return [outcome, envelope];
};

describe("an answer", () => {
  test.each([
    ["a subcode in its own envelope", 403, { detail: "ip_not_allowed" }, "403 ip_not_allowed", "detail"],
    ["fields beside it", 403, { detail: "ip_not_allowed", request_id: 1 }, "403 ip_not_allowed", "detail"],
    ["the flat body", 429, { error: "org_overloaded" }, "429 org_overloaded", "flat"],
    ["the flat body inside a detail", 429, { detail: { error: "org_overloaded" } }, "429 org_overloaded", "wrapped"],
    [
      ...(["a framework's error with a subcode as its message", 403] as const),
      { statusCode: 403, error: "Forbidden", message: "origin_required" },
      ...(["403 origin_required", "other"] as const),
    ],
    ["a subcode as the message alone", 429, { message: "b2b_overloaded" }, "429 b2b_overloaded", "other"],
    ["a subcode of another status", 403, { error: "No", message: "publishable_requires_session" }, "edge 403", "flat"],
    ["both envelopes", 429, { detail: "org_overloaded", error: "x" }, "429 org_overloaded", "both"],
    ["the older name", 403, { detail: "origin_not_allowed" }, "403 session_origin_mismatch", "detail"],
    ["a 401 without a body", 401, "", "401", "none"],
    ["a 401 with words of its own", 401, { error: "unauthorized" }, "401", "flat"],
    ["a list of errors under 422", 422, { detail: [{ msg: "x" }] }, "422 malformed_body", "detail"],
    ["a subcode of key creation", 422, { detail: "unknown_scope" }, "422 unknown_scope", "detail"],
    ["a route failure", 200, { error: "no way" }, "200 error", "flat"],
    ["a balancer's page", 502, "<html>", "edge 502", "other"],
    ["a firewall's words", 403, { error: "Request blocked", ref: "18.ab" }, "edge 403", "flat"],
    ["a gateway's limit in its words", 429, { error: "Too Many Requests" }, "edge 429", "flat"],
    ["a limit under a name of its own", 429, { error: "too_many_requests" }, "429 too_many_requests", "flat"],
    ["a key that is gone, in words", 404, { error: "Not Found" }, "404 other_9_190c", "flat"],
    ["a refusal behind a byte order mark", 403, '\ufeff{"detail":"ip_not_allowed"}', "403 ip_not_allowed", "detail"],
    ["a sentence in its own envelope", 403, { detail: "Key lacks scope: ai" }, "403 other_19_0f66", "detail"],
    ["nothing but a status", 403, {}, "403 no_subcode", "none"],
    ["nothing but a balancer's status", 502, {}, "edge 502", "none"],
    ["no body at all", 403, "", "edge 403", "none"],
    ["problem details", 403, { title: "Forbidden", detail: "Blocked: rule 7" }, "edge 403", "detail"],
    [
      ...(["Cloudflare's limit", 429, { title: "Error 1015", detail: "Limited", error_name: "rate_limited" }] as const),
      ...(["edge 429", "detail"] as const),
    ],
    ["a name that every object has", 403, { detail: "constructor" }, "403 other_11_6d12", "detail"],
  ])("%s is named by its status and subcode", (_what, status, body, outcome, envelope) => {
    expect(named(status, body)).toEqual([outcome, envelope]);
  });

  test("a limit of any name is waited for, as a gateway's is", () => {
    expect(["429 too_many_requests", "429 other_17_ec54", "429 map_load_hard_stops"].every(isTransient)).toBe(true);
  });

  test("overload, rate and lost dependencies say nothing about another check; a used-up allowance does", () => {
    expect(["429 rate_limited", "503", "edge 502", "indeterminate"].every(isTransient)).toBe(true);
    expect(["429 map_load_quota_exceeded", "401", "500", "edge 500"].some(isTransient)).toBe(false);
  });
});

test.each([
  [{ "x-cache": "HIT from edge" }, "out of a cache in between (x-cache: hit)"],
  [{ "x-cache": "TCP_MEM_HIT, MISS" }, "out of a cache in between (x-cache: hit)"],
  [{ "cf-cache-status": "HIT", age: "7" }, "out of a cache in between (cf-cache-status: hit)"],
  [{ "cache-status": "edge; hit; ttl=30" }, "out of a cache in between (cache-status: hit)"],
  [{ "x-proxy-cache": "MISS", age: "7" }, "out of a cache in between (Age: 7)"],
  [{ "x-request-id": "run-1.c-2" }, "with the X-Request-Id of another call, as a copy out of a cache has"],
  [{ "x-cache": "MISS from edge", "x-request-id": "run-1.c-3" }, null],
  [{ "cache-status": "edge; fwd=uri-miss", "x-cache": "hit-for-miss", "x-request-id": "theirs" }, null],
])("an answer with %j came %s", (headers, words) => {
  const request = { headers: { "x-request-id": "run-1.c-3" } } as unknown as Answer["request"];
  expect(cacheInWords({ id: "run-1.c-3", request, headers: headers as Answer["headers"] })).toBe(words);
});
