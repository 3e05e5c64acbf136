import { describe, expect, test } from "vitest";
import { verdictOf } from "./verdict-for-tests.ts";

/** A defect in what a body or a query is taken for, and the rule that names it. */
const DEFECTS: readonly (readonly [defect: string, rule: string])[] = [
  ["takes-capitals", "wrong-product-is-refused"],
  ["trims-products", "wrong-product-is-refused"],
  ["refuses-map-id", "map-id-is-not-malformed"],
  ["500-on-odd-fields", "hostile-input"],
  ["500-on-odd-messages", "hostile-input"],
  ["500-on-odd-places", "hostile-input"],
  ["500-on-odd-datasets", "hostile-input"],
  ["500-on-odd-rows", "hostile-input"],
  ["500-off-the-earth", "hostile-input"],
  ["500-on-odd-tiles", "hostile-input"],
  ["500-on-unknown-languages", "hostile-input"],
  ["500-on-empty-options", "hostile-input"],
  ["500-on-unknown-roles", "hostile-input"],
  ["500-on-blank-messages", "hostile-input"],
  ["500-on-many-messages", "hostile-input"],
  ["500-on-long-session-ids", "hostile-input"],
  ["500-on-odd-session-ids", "hostile-input"],
  ["500-on-empty-words", "hostile-input"],
  ["500-on-many-places", "hostile-input"],
  ["500-on-one-spot", "hostile-input"],
  ["500-on-no-places", "hostile-input"],
  ["500-on-odd-options", "hostile-input"],
  ["500-on-unknown-callers", "hostile-input"],
  ["500-on-odd-encodings", "hostile-input"],
  ["500-on-odd-conditions", "hostile-input"],
  ["500-on-two-credentials", "hostile-input"],
  ["500-on-odd-paths", "hostile-input"],
  ["500-on-long-paths", "hostile-input"],
  ["500-on-queries-of-posts", "hostile-input"],
  ["500-on-more-text", "hostile-input"],
  ["500-on-a-byte-order-mark", "hostile-input"],
  ["500-on-nan", "hostile-input"],
  ["500-on-the-same-twice", "hostile-input"],
  ["streams-latin1", "stream-is-utf8"],
  ["poi-refuses-lang", "poi-optional-parameters"],
  ["poi-refuses-source", "poi-takes-each-parameter"],
  ["poi-knows-no-source", "poi-optional-parameters"],
  ["poi-needs-a-language", "poi-optional-parameters"],
  ["control-refuses-location", "control-optional-fields"],
  ["control-refuses-session_id", "control-optional-fields"],
  ["control-refuses-auto_actions", "control-optional-fields"],
  ["control-needs-a-zoom", "control-optional-fields"],
  ["500-on-charsets", "hostile-input"],
  ["poi-refuses-options", "poi-optional-parameters"],
  ["summary-knows-no-buildings", "summary-takes-both-types"],
  ["route-failure-in-its-own-word", "route-failures-are-200"],
  ["route-failure-as-detail", "route-failures-are-200"],
  ["route-failure-without-body", "route-failures-are-200"],
  ["route-failure-as-no-route", "route-failures-are-told"],
  ["one-place-is-malformed", "route-failures-are-told"],
  ["analyzes-later", "answers-are-json"],
];

describe("a deployment with one defect in what it makes of a body or a query", () => {
  test.concurrent.each(DEFECTS)("%s fails the rule %s", { timeout: 60_000 }, async (defect, rule) => {
    expect(await verdictOf(defect, rule)).toBe("fail");
  });
});
