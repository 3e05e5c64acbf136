/** A credential may come in either of two headers (items 22, 143). */
import { type Cell, tableRule } from "../../cells.ts";
import { ANY_SUCCESS } from "../../checks.ts";
import { callersOf, scopeOf } from "../../context.ts";
import { exchangeCall, FORMS } from "../../sending/test-call.ts";

export const eitherHeader = tableRule({
  id: "either-header",
  level: "must",
  spec: [22, 143],
  title: "a credential is accepted in Authorization: Bearer and in X-Api-Key alike",
  phase: "lattice",
  needs: { anyOf: ["server", "publishable"] },
  cost: { calls: 8 },
  cells: (context) =>
    (["design.styles", "design.themes"] as const).flatMap((route) =>
      callersOf(context, scopeOf(route)).flatMap((caller) =>
        FORMS.map((form): Cell => ({ testCall: { route, ...caller, form }, accepts: [ANY_SUCCESS] })),
      ),
    ),
});

export const exchangeHeader = tableRule({
  id: "either-header-at-the-exchange",
  level: "should",
  spec: [143],
  title: "the exchange takes a publishable key in Authorization: Bearer and in X-Api-Key alike",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 2 },
  cells: () =>
    FORMS.map(
      (form): Cell => ({
        testCall: exchangeCall("publishable", "listed", "editor", { form }),
        accepts: [ANY_SUCCESS],
      }),
    ),
});
