/**
 * P5 for what the server writes: status, headers and body of every refusal, against an independent copy of the tables of
 * section 7. A function of the writer, so that a mutant's can be tried (mutant-laws.ts).
 */
import fc from "fast-check";
import { expect } from "vitest";
import type { Refuse } from "../../src/core/call.ts";
import type { Answer } from "../../src/platform/api/answer.ts";

const STATUS: Readonly<Record<number, string>> = {
  401: "unauthenticated publishable_requires_session",
  403: `insufficient_scope tier_capability_not_allowed origin_required session_origin_mismatch product_not_allowed
    server_key_in_browser ip_not_allowed publishable_key_required sessions_disabled sessions_not_configured
    free_plan_publishable_only plan_required vendor_scope_requires_acknowledgement`,
  409: "key_limit_reached",
  422: "malformed_body unknown_scope unknown_product publishable_live_requires_origins",
  429: `map_load_quota_exceeded map_load_hard_stop tile_access_restricted b2b_overloaded org_overloaded
    limiter_unavailable rate_limited`,
  503: "key_service_unavailable",
};
const STATUS_OF = new Map(
  Object.entries(STATUS).flatMap(([status, names]) =>
    names.split(/\s+/).map((name) => [name, Number(status)] as const),
  ),
);
/** Section 7.1: four refusals are flat, two have no text, all others have a `detail`. */
export const FLAT = ["map_load_quota_exceeded", "b2b_overloaded", "org_overloaded", "tile_access_restricted"];
export const SILENT = ["unauthenticated", "key_service_unavailable"];
/** Retry-After in seconds (items 208, 214, 218); `rate_limited` computes its own. */
const RETRY: Readonly<Record<string, string>> = {
  tile_access_restricted: "3600",
  b2b_overloaded: "1",
  org_overloaded: "1",
  limiter_unavailable: "1",
  key_service_unavailable: "1",
};

const quotaArb = fc.record({ meter: fc.constant("map_loads" as const), limit: fc.nat(), used: fc.nat() });
const refuseArb: fc.Arbitrary<Refuse> = fc
  .record({
    name: fc.constantFrom(...STATUS_OF.keys()),
    quota: quotaArb,
    waitS: fc.integer({ min: 1, max: 3_000 }),
    errors: fc.array(fc.record({ loc: fc.array(fc.string(), { maxLength: 2 }), msg: fc.string(), type: fc.string() }), {
      maxLength: 2,
    }),
  })
  .map(({ name, quota, waitS, errors }) => ({
    refuse: name as Refuse["refuse"],
    ...(name === "map_load_quota_exceeded" ? { quota } : {}),
    ...(name === "rate_limited" ? { retryAfterS: waitS } : {}),
    ...(name === "malformed_body" ? { errors } : {}),
  }));

const bodyOf = ({ refuse: name, quota, errors }: Refuse): object => {
  if (SILENT.includes(name)) return {};
  if (FLAT.includes(name)) return { error: name, ...quota };
  return errors === undefined ? { detail: name } : { detail: name, errors };
};

export const writesTheEnvelopeOfItsSubcode = (writeRefusal: (refuse: Refuse) => Answer) =>
  fc.property(refuseArb, (refuse) => {
    const { status, headers, body } = writeRefusal(refuse);
    const name = refuse.refuse;
    const headerOf = (header: string): string | undefined => {
      const at = headers.findIndex((text, i) => i % 2 === 0 && text.toLowerCase() === header);
      return at === -1 ? undefined : headers[at + 1];
    };
    const of = (part: string): string => `${name}: ${part}`;
    expect(status, of("status")).toBe(STATUS_OF.get(name));
    expect(JSON.parse(body), of("body")).toEqual(bodyOf(refuse));
    expect(headerOf("content-type"), of("Content-Type")).toBe("application/json");
    expect(headerOf("content-length"), of("Content-Length")).toBe(String(Buffer.byteLength(body)));
    expect(headerOf("retry-after"), of("Retry-After")).toBe(refuse.retryAfterS?.toString() ?? RETRY[name]);
    expect(headerOf("www-authenticate") !== undefined, of("WWW-Authenticate")).toBe(status === 401);
  });
