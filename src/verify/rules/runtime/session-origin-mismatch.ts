/** From where a session may be used (items 151, 195; A3). */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { scopeOf } from "../../context.ts";
import { pairwise } from "../../pairwise.ts";
import { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import { FORMS, role } from "../../sending/test-call.ts";

const MISMATCH = outcomeOf("session_origin_mismatch");

export const sessionOrigin = tableRule({
  id: "session-origin-mismatch",
  level: "must",
  spec: [151, 195],
  title: "a session used from an Origin outside the key's allowlist is answered 403 session_origin_mismatch",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 20 },
  cells: () =>
    pairwise({ route: RUNTIME_ROUTES, form: FORMS }).map(
      ({ route, form }): Cell => ({
        testCall: {
          route,
          credential: { as: "session", of: role("publishable"), product: scopeOf(route) === "ai" ? "chat" : "editor" },
          origin: "foreign",
          form,
        },
        accepts: [MISMATCH],
      }),
    ),
});
