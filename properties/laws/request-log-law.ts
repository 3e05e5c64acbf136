/** P11 for the log, as a function of the line's writer: the line of a call never holds its credential. */
import fc from "fast-check";
import { expect } from "vitest";
import { findSecrets } from "../../src/contract/credentials.ts";
import type { CallEntry } from "../../src/platform/api/caller.ts";
import { credentialArb } from "../model/arbitraries.ts";

const entryArb = (credential: fc.Arbitrary<string | null>): fc.Arbitrary<CallEntry> =>
  fc.record({
    requestId: fc.uuid(),
    route: fc.constantFrom("sdk.sessions", "chat.route", "maps.tiles"),
    org: fc.constantFrom("-", "org_a"),
    outcome: fc.constantFrom("200", "401", "429 rate_limited"),
    durationMs: fc.double({ min: 0, max: 1e6, noNaN: true }),
    credential,
  });

/** Texts that are no key of ours; they must not be logged either, because they may be keys of another service. */
const strangeArb = fc.string({
  unit: fc.constantFrom(..."abcdefghijklmnopqrstuvwxyz0123456789"),
  minLength: 9,
  maxLength: 60,
});

export const lineHoldsNoCredential = (fields: (entry: CallEntry) => Record<string, unknown>) =>
  fc.property(fc.oneof(entryArb(credentialArb), entryArb(strangeArb), entryArb(fc.constant(null))), (entry) => {
    const line = JSON.stringify(fields(entry));
    expect(findSecrets(line), "credentials in the line").toEqual([]);
    if (entry.credential !== null) expect(line).not.toContain(entry.credential);
    expect(line).toContain(entry.requestId);
  });
