/**
 * P11: whatever text a credential stands in, masking takes it out. The choke point of redaction is this one function, so
 * what holds for it holds for every log line and report that goes through it.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { findSecrets, maskCredential, maskSecrets } from "../src/contract/credentials.ts";
import { requestLogFields } from "../src/platform/api/caller.ts";
import { law } from "./laws/law.ts";
import { lineHoldsNoCredential } from "./laws/request-log-law.ts";
import { credentialArb } from "./model/arbitraries.ts";

const RUNS = { quick: 1_000, nightly: 100_000 };

/** What stands around a credential in logs, URLs, shell lines, JSON and HTML. */
const aroundArb = fc.oneof(
  fc.string(),
  fc.string({ unit: "binary" }),
  fc.constantFrom(
    "",
    " ",
    "Bearer ",
    '"key":"',
    "?api_key=",
    "&token=",
    "'",
    "`",
    "\n",
    "svc_",
    "svc_pk_",
    "eyJ",
    "...",
  ),
  // A mask of an earlier pass, right before or behind the next credential.
  credentialArb.map(maskCredential),
);
const textArb = fc.array(fc.tuple(aroundArb, credentialArb), { minLength: 1, maxLength: 4 });
const joined = (parts: [string, string][], tail: string): string => parts.flat().join("") + tail;

/** Whether a run of `size` characters of a secret's hidden part can still be read. */
const leaks = (masked: string, secret: string, size: number): boolean => {
  const hidden = secret.slice(0, -4);
  for (let at = prefixOf(secret).length; at + size <= hidden.length; at += 1) {
    if (masked.includes(hidden.slice(at, at + size))) return true;
  }
  return false;
};
const prefixOf = (secret: string): string => /^(?:svc_(?:pk|sk|sess)_(?:[a-z]+_)?(?:eyJ)?|eyJ)/.exec(secret)?.[0] ?? "";

law(
  "P11 no credential survives masking, in whatever text it stands",
  () =>
    fc.property(textArb, aroundArb, (parts, tail) => {
      const masked = maskSecrets(joined(parts, tail));
      for (const [, secret] of parts) expect(masked).not.toContain(secret);
      expect(findSecrets(masked)).toEqual([]);
    }),
  RUNS,
);

law(
  "P11 not even eight characters of a credential's inside survive, when it stands alone between words",
  () =>
    fc.property(
      fc.array(credentialArb, { minLength: 1, maxLength: 3 }),
      fc.constantFrom(" ", "\n", '","', "', '", "<br>", "; ", "|"),
      (secrets, between) => {
        const masked = maskSecrets(`a line:${between}${secrets.join(between)}${between}and its end`);
        for (const secret of secrets) expect(leaks(masked, secret, 8)).toBe(false);
        expect(masked.startsWith("a line:")).toBe(true);
        expect(masked.endsWith("and its end")).toBe(true);
      },
    ),
  RUNS,
);

law(
  "P11 masking twice is masking once",
  () =>
    fc.property(
      fc.oneof(
        fc.tuple(textArb, aroundArb).map(([parts, tail]) => joined(parts, tail)),
        aroundArb,
      ),
      (text) => {
        const once = maskSecrets(text);
        expect(maskSecrets(once)).toBe(once);
      },
    ),
  RUNS,
);

law(
  "P11 masked JSON is still JSON, and keeps what is no secret",
  () =>
    fc.property(credentialArb, fc.jsonValue(), fc.nat(), (secret, value, count) => {
      fc.pre(findSecrets(JSON.stringify(value)).length === 0);
      const masked = JSON.parse(maskSecrets(JSON.stringify({ authorization: `Bearer ${secret}`, value, count })));
      expect(masked).toEqual({
        authorization: `Bearer ${maskCredential(secret)}`,
        value: JSON.parse(JSON.stringify(value)),
        count,
      });
    }),
  RUNS,
);

law(
  "P11 masking finds what it masks: a text is unchanged if and only if no secret is found in it",
  () =>
    fc.property(
      fc.oneof(
        textArb.map((parts) => joined(parts, "")),
        aroundArb,
      ),
      (text) => {
        expect(maskSecrets(text) === text).toBe(findSecrets(text).length === 0);
      },
    ),
  RUNS,
);

law(
  "P11 the log line of a call holds no credential, whatever it was called with",
  () => lineHoldsNoCredential(requestLogFields),
  RUNS,
);
