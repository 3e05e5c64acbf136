/** A hostile server may send our own key back in any coding: none passes the boundary for foreign text. */
import { describe, expect, test } from "vitest";
import {
  foreignError,
  foreignHeader,
  foreignMoment,
  foreignName,
  foreignValue,
  shapeOf,
  shapeOfBody,
} from "../contract/foreign-text.ts";
import { readAnswer } from "../contract/refusals.ts";
import { CODED, CODED_OTHERWISE } from "./coded-secrets.fixture.ts";

const KEY = "svc_sk_live_4f9aK2mQx7LpT3vBz8Ns";

describe("a key in another coding", () => {
  test.each(Object.entries({ ...CODED, ...CODED_OTHERWISE }))("passes nowhere: %s", (_coding, code) => {
    const coded = code(KEY);
    for (const shown of [
      foreignName(coded),
      foreignMoment(coded),
      foreignHeader(coded),
      foreignError(coded),
      String(foreignValue(coded)),
      shapeOf({ detail: coded, [coded]: [coded], deep: { deeper: { [coded]: coded } } }),
      shapeOfBody(coded, undefined),
      readAnswer(403, JSON.stringify({ detail: coded })).outcome,
      readAnswer(429, JSON.stringify({ error: coded })).outcome,
    ]) {
      expect(shown).not.toContain(coded);
      expect(shown.length).toBeLessThan(200);
    }
  });
});
