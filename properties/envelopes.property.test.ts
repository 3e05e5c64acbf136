/**
 * P5: how a refusal looks is a function of its subcode (section 7.1), what is written is read back as the same, and
 * reading never throws, whatever a balancer, a proxy or a broken server says.
 */
import fc from "fast-check";
import { expect } from "vitest";
import {
  type AnyRefusalName,
  type BodyError,
  GAP_REFUSALS,
  outcomeOf,
  REFUSALS,
  readAnswer,
  refusalOf,
  writeEnvelope,
} from "../src/contract/refusals.ts";
import { HEALTHY } from "../src/platform/parts.ts";
import { FLAT, SILENT, writesTheEnvelopeOfItsSubcode } from "./laws/envelope-laws.ts";
import { law } from "./laws/law.ts";

const RUNS = { quick: 1_000, nightly: 100_000 };
const NAMES = [...Object.keys(REFUSALS), ...Object.keys(GAP_REFUSALS)] as AnyRefusalName[];
const nameArb = fc.constantFrom(...NAMES);
const quotaArb = fc.record({ meter: fc.constant("map_loads"), limit: fc.nat(), used: fc.nat() });
const errorArb: fc.Arbitrary<BodyError> = fc.record({
  loc: fc.array(fc.oneof(fc.string(), fc.nat()), { maxLength: 3 }),
  msg: fc.string(),
  type: fc.string(),
});

const written = (name: AnyRefusalName, quota: { meter: string; limit: number; used: number }) =>
  name === "map_load_quota_exceeded" ? writeEnvelope(name, quota) : writeEnvelope(name);

law(
  "P5 a body has detail, or error, or neither, and the subcode alone says which (item 59)",
  () =>
    fc.property(
      nameArb,
      quotaArb,
      fc.option(fc.array(errorArb, { maxLength: 2 }), { nil: undefined }),
      (name, quota, errors) => {
        const body =
          errors === undefined
            ? (written(name, quota) as object)
            : writeEnvelope(name, name === "map_load_quota_exceeded" ? quota : undefined, errors);
        expect("error" in body).toBe(FLAT.includes(name));
        expect("detail" in body).toBe(!FLAT.includes(name) && !SILENT.includes(name));
        if (SILENT.includes(name)) expect(body).toEqual({});
      },
    ),
  RUNS,
);

law(
  "P5 what the server writes has the status, the body and the headers of its subcode",
  () => writesTheEnvelopeOfItsSubcode(HEALTHY.writeRefusal),
  RUNS,
);

law(
  "P5 what is written is read back as the same refusal, however the JSON is spaced",
  () =>
    fc.property(nameArb, quotaArb, fc.constantFrom(0, 2, "\t"), (name, quota, space) => {
      const { status, subcode, envelope } = refusalOf(name);
      const text = JSON.stringify(written(name, quota), null, space);
      const read = readAnswer(status, text);
      expect(read).toMatchObject({ outcome: outcomeOf(name), subcode, envelope });
      expect(read.quota).toEqual(name === "map_load_quota_exceeded" ? quota : undefined);
    }),
  RUNS,
);

law(
  "P5 fields that a newer deployment adds do not change what is read",
  () =>
    fc.property(nameArb, quotaArb, fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 4 }), (name, quota, more) => {
      const { status, subcode } = refusalOf(name);
      const { detail: _, error: __, ...added } = more;
      const body = { ...added, ...written(name, quota) };
      expect(readAnswer(status, JSON.stringify(body))).toMatchObject({ outcome: outcomeOf(name), subcode });
    }),
  RUNS,
);

const statusArb = fc.oneof(fc.constantFrom(200, 201, 204, 401, 403, 404, 409, 422, 429, 500, 502, 503), fc.nat(999));
// Words that an object answers to by birth are what a careless look-up trips over.
const wordArb = fc.oneof(
  fc.constantFrom("constructor", "__proto__", "toString", "hasOwnProperty", "origin_not_allowed", ...NAMES),
  fc.string(),
);
const bodyArb = fc.oneof(
  fc.string(),
  fc.string({ unit: "binary" }),
  fc.json(),
  fc.constantFrom("", " ", "null", "[]", "{", "<html><body>502 Bad Gateway</body></html>", '{"detail":["x"]}'),
  fc
    .record(
      { detail: fc.oneof(wordArb, fc.jsonValue()), error: fc.oneof(wordArb, fc.jsonValue()), used: fc.jsonValue() },
      { requiredKeys: [] },
    )
    .map((body) => JSON.stringify(body)),
  wordArb.map((word) => JSON.stringify({ detail: word })),
);

law(
  "P5 reading never throws, and always gives a name that can be counted",
  () =>
    fc.property(statusArb, bodyArb, (status, text) => {
      const { outcome, subcode, envelope } = readAnswer(status, text);
      expect(typeof outcome).toBe("string");
      const success = status >= 200 && status < 300;
      expect([`edge ${status}`, `${status}`, ...(success ? ["200 error"] : [`${status} ${subcode}`])]).toContain(
        outcome,
      );
      expect(subcode === null || typeof subcode === "string").toBe(true);
      expect(["detail", "flat", "none", "both", "other"]).toContain(envelope);
    }),
  { quick: 3_000, nightly: 300_000 },
);

law(
  "P5 an answer without a word of the contract is called edge, never shedding",
  () =>
    fc.property(
      fc.constantFrom(429, 500, 502, 504),
      fc.oneof(fc.string(), fc.constant("<html></html>")),
      (status, text) => {
        fc.pre(!text.includes("{"));
        expect(readAnswer(status, text).outcome).toBe(`edge ${status}`);
      },
    ),
  RUNS,
);
