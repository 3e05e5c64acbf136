/**
 * P8, the answer of a successful exchange, as a function of the servers, each with its configured session lifetime. For the
 * test and for mutants (mutant-laws.ts).
 */
import fc from "fast-check";
import { expect } from "vitest";
import { splitSessionToken } from "../../src/contract/credentials.ts";
import { PRODUCTS } from "../../src/contract/routes.ts";
import type { RealApi } from "../rigs/real-api.ts";

const ORIGIN = "https://app.example";
const optional = <T>(arb: fc.Arbitrary<T>) => fc.option(arb, { nil: undefined });

export type ExchangeServer = { api: RealApi; lifetimeS: number };

export const sessionIsShortAndNew = (open: () => readonly ExchangeServer[]) => {
  const seen = new Set<string>();
  return fc.asyncProperty(
    fc.record({
      which: fc.nat(),
      product: fc.constantFrom(...PRODUCTS),
      env: fc.constantFrom("live", "test"),
      style: fc.constantFrom(null, "", "svc-dusk", "svc-morning"),
      map_id: optional(fc.string({ unit: "grapheme", maxLength: 20 })),
      more: fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 }),
    }),
    async ({ which, product, env, style, map_id, more }) => {
      const servers = open();
      const { api, lifetimeS } = servers[which % servers.length] as ExchangeServer;
      const org = (await api.operate("POST", "/orgs", { tier: "Pro", basemap_style_id: style })).json as {
        id: string;
      };
      const record = { org_id: org.id, kind: "publishable", env, scopes: ["ai", "design", "maps"] };
      const fields = { ...record, products: [...PRODUCTS], allowed_origins: [ORIGIN] };
      const { key: credential } = (await api.operate("POST", "/keys", fields)).json as { key: string };
      const body = { ...more, product, ...(map_id === undefined ? {} : { map_id }) };
      const heard = await api.call({ method: "POST", path: "/sdk/sessions", origin: ORIGIN, credential, body });
      expect([heard.status, heard.text.slice(0, 100)]).toEqual([200, expect.any(String)]);
      const answer = heard.json as Record<string, unknown>;
      const token = answer.session_token as string;
      expect(splitSessionToken(token)?.env).toBe(env);
      expect(token).toMatch(/^svc_sess_[a-z]+_[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/);
      expect(answer.expires_in, "expires_in").toBe(lifetimeS);
      expect(lifetimeS > 0 && lifetimeS <= 1_800).toBe(true);
      expect(answer.product, "product").toBe(product);
      // Absent, not null and not empty, unless the organization stored one.
      expect("basemap_style_id" in answer, "whether a style is named").toBe(style !== null && style !== "");
      if (style) expect(answer.basemap_style_id).toBe(style);
      expect(heard.headers["cache-control"]).toBe("no-store");
      expect(seen.has(token), "a token of an earlier mint").toBe(false);
      seen.add(token);
      // A second exchange with the same key mints another token (item 86).
      const again = await api.call({ method: "POST", path: "/sdk/sessions", origin: ORIGIN, credential, body });
      expect((again.json as { session_token: string }).session_token).not.toBe(token);
    },
  );
};
