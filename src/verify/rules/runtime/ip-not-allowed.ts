/** From which addresses a server key may be used (items 44, 147, 198). */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import { FORMS, role } from "../../sending/test-call.ts";

const ADDRESS = outcomeOf("ip_not_allowed");

export const foreignAddress = tableRule({
  id: "ip-not-allowed",
  level: "must",
  spec: [44, 147, 198],
  title: "a server key used from an address outside its allowlist is answered 403 ip_not_allowed",
  phase: "lattice",
  needs: { roles: ["server_foreign_ip"] },
  cost: { calls: 10 },
  cells: () =>
    RUNTIME_ROUTES.map(
      (route, i): Cell => ({
        testCall: {
          route,
          credential: { as: "server", of: role("server_foreign_ip") },
          origin: "none",
          form: FORMS[i % 2] as "bearer",
        },
        accepts: [ADDRESS],
      }),
    ),
});
