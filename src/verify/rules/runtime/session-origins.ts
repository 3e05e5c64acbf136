/**
 * From where a session may be used, and whether a page may read what it is answered (items 151, 159, 195, 208, 209; A3, A12).
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import { scopeOf } from "../../context.ts";
import { pairwise } from "../../pairwise.ts";
import { RUNTIME_ROUTES, type Rule } from "../../rule.ts";
import { FORMS, role, type TestCall } from "../../sending/test-call.ts";

const MISMATCH = outcomeOf("session_origin_mismatch");
const RESTRICTED = outcomeOf("tile_access_restricted");

const sessionOrigin = tableRule({
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

const tileOrigin = tableRule({
  id: "tile-foreign-origin",
  level: "must",
  spec: [208, 209],
  title: "a tile asked for from a foreign Origin is refused: 429 tile_access_restricted or 403 session_origin_mismatch",
  phase: "lattice",
  needs: { roles: ["publishable"], tileUrl: true, spends: { map_loads: 1 } },
  cost: { calls: 2, map_loads: 1 },
  cells: () =>
    FORMS.map(
      (form): Cell => ({
        testCall: {
          route: "maps.tiles",
          credential: { as: "session", of: role("publishable"), product: "tile" },
          origin: "foreign",
          form,
        },
        accepts: [RESTRICTED],
        tolerates: [MISMATCH],
      }),
    ),
});

const tileAdmitted = tableRule({
  id: "tile-listed-origin",
  level: "should",
  spec: [208],
  title: "a tile asked for with a tile session from its allowlisted Origin is served",
  phase: "lattice",
  needs: { roles: ["publishable"], tileUrl: true, spends: { map_loads: 1 } },
  cost: { calls: 1, map_loads: 1 },
  cells: () => [
    {
      testCall: {
        route: "maps.tiles",
        credential: { as: "session", of: role("publishable"), product: "tile" },
        origin: "listed",
      },
      accepts: [ANY_SUCCESS],
      tolerates: ["404 Not Found", "edge 404"],
    },
  ],
});

const corsForListed: Rule = {
  id: "listed-origin-is-not-blocked-by-cors",
  level: "should",
  spec: [159],
  title: "a browser on an allowlisted Origin may read the answers",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 3 },
  run: async (context) => {
    const listed = context.keyRole("publishable")?.origin;
    const checks = new Checks("Access-Control-Allow-Origin names the allowlisted Origin");
    const editor = { as: "session", of: role("publishable"), product: "editor" } as const;
    const session: TestCall = { route: "design.styles", credential: editor, origin: "listed" };
    const stream: TestCall = { ...session, route: "chat.control", credential: { ...editor, product: "chat" } };
    const minted = await context.mint("publishable", "editor");
    for (const answer of [minted, ...(await Promise.all([session, stream].map(context.send)))]) {
      if (answer.transient) checks.unclear("overload or no answer");
      else {
        const allowed = answer.headers["access-control-allow-origin"];
        checks.require(
          allowed === "*" || allowed === listed,
          answer,
          `${listed} or *`,
          `it was ${allowed ?? "absent"}`,
        );
      }
    }
    return checks.result();
  },
};

export const SESSION_ORIGIN_RULES: readonly Rule[] = [sessionOrigin, tileOrigin, tileAdmitted, corsForListed];
