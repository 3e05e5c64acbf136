/** From where a tile may be asked for (items 208, 209; A12). */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { ANY_SUCCESS } from "../../checks.ts";
import { FORMS, role } from "../../sending/test-call.ts";

const MISMATCH = outcomeOf("session_origin_mismatch");
const RESTRICTED = outcomeOf("tile_access_restricted");

export const tileOrigin = tableRule({
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

export const tileAdmitted = tableRule({
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
