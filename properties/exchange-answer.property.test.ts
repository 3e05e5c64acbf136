/** P8: the answer of a successful exchange (2.2; items 23-26, 31-34), whatever was asked for and by whom. */
import fc from "fast-check";
import { afterAll, beforeAll, expect } from "vitest";
import { splitSessionToken } from "../src/contract/credentials.ts";
import { PRODUCTS } from "../src/contract/routes.ts";
import { law } from "./support/law.ts";
import { type RealApi, startRealApi } from "./support/real-api.ts";

let api: RealApi;
beforeAll(async () => {
  api = await startRealApi();
}, 30_000);
afterAll(() => api?.close());

const ORIGIN = "https://app.example";
const tokens = new Set<string>();
const optional = <T>(arb: fc.Arbitrary<T>) => fc.option(arb, { nil: undefined });

law(
  "P8 a session is short, names its product, and is a new token each time",
  () =>
    fc.asyncProperty(
      fc.record({
        product: fc.constantFrom(...PRODUCTS),
        env: fc.constantFrom("live", "test"),
        style: fc.constantFrom(null, "", "svc-dusk", "svc-morning"),
        map_id: optional(fc.string({ unit: "grapheme", maxLength: 20 })),
        more: fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 }),
      }),
      async ({ product, env, style, map_id, more }) => {
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
        expect(answer.expires_in).toBe(900);
        expect(answer.product).toBe(product);
        // Absent, not null and not empty, unless the organization stored one.
        expect("basemap_style_id" in answer).toBe(style !== null && style !== "");
        if (style) expect(answer.basemap_style_id).toBe(style);
        expect(heard.headers["cache-control"]).toBe("no-store");
        expect(tokens.has(token)).toBe(false);
        tokens.add(token);
        // The same key again: a token of its own (item 86).
        const again = await api.call({ method: "POST", path: "/sdk/sessions", origin: ORIGIN, credential, body });
        expect((again.json as { session_token: string }).session_token).not.toBe(token);
      },
    ),
  { quick: 100, nightly: 5_000 },
);
