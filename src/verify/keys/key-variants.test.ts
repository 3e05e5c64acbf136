import { describe, expect, test } from "vitest";
import type { Variant } from "../../../properties/second-api/names.ts";
import type { VerifyResult } from "../run-verify.ts";
import { verifySecondApi } from "../verify-second-api.fixture.ts";

const manage = async (
  variants: readonly Variant[],
  only: string[],
): Promise<VerifyResult & { liveBefore: number; liveAfter: number; journal: string[] }> => {
  const journal: string[] = [];
  let liveBefore = 0;
  const { api, ...result } = await verifySecondApi({ variants }, ({ liveKeys }) => {
    liveBefore = liveKeys();
    return {
      only,
      allowWrites: true,
      journal: {
        about: ({ name }) => `${journal.push(`about ${name}`)}`,
        done: (_id, { detail } = {}) => void journal.push(`done ${detail}`),
        undone: (_id, detail) => void journal.push(`undone ${detail}`),
      },
    };
  });
  return { ...result, liveBefore, liveAfter: api.liveKeys(), journal };
};

const wrongIn = ({ claims }: VerifyResult): string[] =>
  claims
    .filter(({ level, verdict }) => level === "must" && /fail|inconclusive/.test(verdict))
    .map(({ id, got, reason }) => `${id}: ${reason}; ${got}`);

/** Readings of what is not shown of key management, and a rule that can say nothing then. */
const VARIANTS: readonly (readonly [variants: readonly Variant[], skipped: string | null, why: RegExp])[] = [
  [["kind-is-key-type"], "keys-free-plan-publishable-only", /reads the kind/],
  [["kind-is-key-type"], "server-key-is-created", /reads the kind/],
  [["kind-is-server-unless-told"], "key-is-created", /reads the kind/],
  [["kind-is-server-unless-told"], "keys-free-plan-may-publish", /reads the kind/],
  [["servers-are-secret"], "keys-free-plan-publishable-only", /the kind|another body/],
  [["scopes-are-grants"], "keys-unknown-scope", /reads the scopes/],
  [["scopes-are-grants"], "keys-vendor-needs-acknowledgement", /reads the scopes/],
  [["scopes-are-grants"], "deleted-key-is-dead", /reads the scopes/],
  [["products-are-surfaces"], "keys-unknown-product", /reads the products/],
  [["products-are-surfaces"], "key-is-narrowed-and-widened", /reads the products/],
  [["origins-are-web-origins"], "key-is-created", /reads allowed_origins/],
  [["origins-are-web-origins"], "keys-limit-reached", /reads allowed_origins/],
  [["origins-are-web-origins", "live-is-asked-for"], "keys-live-publishable-needs-origins", /reads env/],
  [["live-is-asked-for"], "keys-live-publishable-needs-origins", /reads env/],
  [["live-is-asked-for", "no-env-in-keys"], "keys-live-publishable-needs-origins", /reads env/],
  [["addresses-are-networks"], "key-addresses-are-kept", /reads allowed_ips/],
  [["keys-live-elsewhere", "unknown-is-403"], "keys-plan-required", /not at .*every path there is answered/],
  [["keys-live-elsewhere", "unknown-is-401"], "key-is-created", /not at .*every path there is answered/],
  [["keys-live-elsewhere"], "keys-limit-reached", /not at/],
  [["keys-name-their-products", "products-are-surfaces"], "key-is-created", /reads the products/],
  [["keys-name-their-products", "admin-tokens-last-until-2100"], null, /^$/],
  [["camel-key"], null, /^$/],
  [["listed-key", "scopes-are-grants", "products-are-surfaces"], "keys-unknown-product", /reads the products/],
];

describe("a conforming deployment whose key management is not as it is written here", () => {
  test.concurrent.each(VARIANTS.map(([names, rule, why]) => [names.join(", "), rule, { names, why }] as const))(
    "%s: fails no must, leaves no key behind, and skips %s for it",
    async (_, rule, { names, why }) => {
      const result = await manage(names, ["management"]);
      expect(wrongIn(result)).toEqual([]);
      expect(result.leftOver).toEqual([]);
      expect(result.liveAfter).toBe(result.liveBefore);
      if (rule === null) return;
      const claim = result.claims.find(({ id }) => id === `verify/${rule}`);
      expect(`${claim?.verdict} ${claim?.reason}`).toMatch(/^skipped /);
      expect(claim?.reason).toMatch(why);
    },
  );

  test("names the key that it could not remove where no id is reported, and makes no more", async () => {
    const result = await manage(["secret-alone"], ["management"]);
    expect(wrongIn(result)).toEqual([]);
    expect(result.liveAfter - result.liveBefore).toBe(1);
    const claim = result.claims.find(({ id }) => id === "verify/key-is-narrowed-and-widened");
    expect(claim?.reason).toMatch(/names no id: the key \.\.\.\w{4} could not be removed/);
    expect(result.leftOver).toEqual([]);
    expect(result.journal.filter((line) => /^done .*cannot be removed/.test(line))).toHaveLength(1);
    expect(result.journal.join()).not.toMatch(/svc_pk_live_\w{8}/);
  });
});
