/**
 * From where the exchange may be called (items 43, 71-73, 194, 195). Where a session may be used then stands in
 * `session-origins.ts`.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import type { Context } from "../../context.ts";
import { pairwise } from "../../pairwise.ts";
import type { Rule } from "../../rule.ts";
import { exchangeCall, type TestCall } from "../../sending/test-call.ts";
import { LOOKALIKE_RULES } from "./origin-lookalikes.ts";

const NO_ORIGIN = outcomeOf("origin_required");
const MISMATCH = outcomeOf("session_origin_mismatch");
const PRODUCTS_ASKED = ["chat", "editor"] as const;

const listedOf = (context: Context): string | undefined => context.keyRole("publishable")?.origin;

const originRequired = tableRule({
  id: "exchange-origin-required",
  level: "must",
  spec: [71, 194],
  title: "the exchange answers a call without an Origin with 403 origin_required",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 6 },
  cells: async (context) => {
    const asked = pairwise({ product: PRODUCTS_ASKED, form: await context.exchangeForms() }).map(({ product, form }) =>
      exchangeCall("publishable", "none", product, { form }),
    );
    // Anybody can write a Referer; only a browser's Origin says where a call comes from.
    const headers = { referer: `${context.target.credentials?.publishable?.origin}/` };
    const empty = exchangeCall("publishable", "foreign", "chat", { originValue: "", what: "an empty Origin" });
    return [
      ...[...asked, exchangeCall("publishable", "none", "chat", { headers })].map(
        (testCall): Cell => ({ testCall, accepts: [NO_ORIGIN] }),
      ),
      { testCall: empty, accepts: [NO_ORIGIN, MISMATCH] },
    ];
  },
});

/** The API's own address is in the allowlist as little as any other that is not listed. */
const ownOrigin = (context: Context): TestCall[] => {
  const { origin } = new URL(context.target.base_url);
  if (origin === listedOf(context)) return [];
  return [exchangeCall("publishable", "foreign", "chat", { originValue: origin, what: "the API's own Origin" })];
};

const originMismatch = tableRule({
  id: "exchange-origin-mismatch",
  level: "must",
  spec: [43, 72, 73, 195],
  title: "the exchange answers an Origin outside the key's allowlist with 403 session_origin_mismatch",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 5 },
  cells: async (context) =>
    [
      ...pairwise({ product: PRODUCTS_ASKED, form: await context.exchangeForms() }).map(({ product, form }) =>
        exchangeCall("publishable", "foreign", product, { form }),
      ),
      ...ownOrigin(context),
    ].map((testCall): Cell => ({ testCall, accepts: [MISMATCH] })),
});

/**
 * Whether `null` counts as an Origin or as none is a gap (item 53), so either subcode fits. That a call is refused which has no
 * allowlisted Origin is stated (items 71, 72): in both readings it is, so letting it in breaks a must.
 */
const nullOrigin = tableRule({
  id: "exchange-origin-null",
  level: "must",
  spec: [71, 72],
  title: "the exchange takes Origin: null neither for an allowlisted one nor for enough",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 1 },
  cells: (context) =>
    // A key may list the text `null` itself, for pages without an origin.
    listedOf(context) === "null"
      ? []
      : [{ testCall: exchangeCall("publishable", "null", "chat"), accepts: [MISMATCH, NO_ORIGIN] }],
});

export const ORIGIN_RULES: readonly Rule[] = [originRequired, originMismatch, ...LOOKALIKE_RULES, nullOrigin];
