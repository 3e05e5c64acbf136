/** Which check decides at runtime when two fail (part B): chosen and not stated, so a should. */
import { outcomeOf } from "../../../contract/refusals.ts";
import type { KeyRole } from "../../../target/target.ts";
import { type Cell, tableRule } from "../../cells.ts";
import type { Context } from "../../context.ts";
import { exchangeCall, role } from "../../sending/test-call.ts";

const KIND = outcomeOf("publishable_key_required");
const MISMATCH = outcomeOf("session_origin_mismatch");
const SCOPE = outcomeOf("insufficient_scope");
const PRODUCT = outcomeOf("product_not_allowed");
const TIER = outcomeOf("tier_capability_not_allowed");
const BROWSER = outcomeOf("server_key_in_browser");
const ADDRESS = outcomeOf("ip_not_allowed");
const PUBLISHABLE = outcomeOf("publishable_requires_session");
const UNAUTHENTICATED = outcomeOf("unauthenticated");

export const runtimeOrder = tableRule({
  id: "runtime-order",
  level: "should",
  spec: [148, 150, 151, 156],
  title: "at runtime kind, browser and address decide before scope and tier",
  phase: "order",
  needs: { anyOf: ["publishable", "server_no_design", "server_foreign_ip", "publishable_no_ai"] },
  cost: { calls: 7 },
  cells: (context: Context) => {
    const cells: Cell[] = [];
    const add = (needed: KeyRole, cell: () => Cell): void => {
      if (context.has(needed)) cells.push(cell());
    };
    const server = (of: KeyRole) => ({ as: "server", of: role(of) }) as const;
    add("server_no_design", () => ({
      testCall: { route: "design.styles", credential: server("server_no_design"), origin: "foreign" },
      accepts: [BROWSER],
      tolerates: [SCOPE],
    }));
    add("server_foreign_ip", () => ({
      testCall: { route: "design.styles", credential: server("server_foreign_ip"), origin: "foreign" },
      accepts: [BROWSER],
      tolerates: [ADDRESS],
    }));
    add("server_downgraded", () => ({
      testCall: { route: "poi.enrich", credential: server("server_downgraded"), origin: "foreign" },
      accepts: [BROWSER],
      tolerates: [TIER, SCOPE],
    }));
    add("publishable_no_ai", () => ({
      testCall: {
        route: "poi.enrich",
        credential: { as: "publishable", of: role("publishable_no_ai") },
        origin: "listed",
      },
      accepts: [PUBLISHABLE],
      tolerates: [SCOPE],
    }));
    add("publishable", () => ({
      testCall: {
        route: "design.styles",
        credential: { as: "session", of: role("publishable"), product: "chat" },
        origin: "foreign",
      },
      accepts: [MISMATCH],
      tolerates: [SCOPE, PRODUCT],
    }));
    for (const name of ["revoked", "expired"] as const) {
      add(name, () => ({
        testCall: exchangeCall(name, "foreign", "chat"),
        accepts: [UNAUTHENTICATED],
        tolerates: [MISMATCH, KIND],
      }));
    }
    return cells;
  },
});
