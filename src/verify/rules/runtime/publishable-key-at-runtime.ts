/** A publishable key opens nothing but the exchange (items 40, 68, 149, 191). */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { Checks } from "../../checks.ts";
import { pairwise } from "../../pairwise.ts";
import type { Rule } from "../../rule.ts";
import { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import { inWords, isAdmitted } from "../../sending/answer.ts";
import { FORMS, role } from "../../sending/test-call.ts";

const PUBLISHABLE = outcomeOf("publishable_requires_session");
const NO_ORIGIN = outcomeOf("origin_required");

export const publishableAtRuntime = tableRule({
  id: "publishable-key-at-runtime",
  level: "must",
  spec: [40, 68, 149, 191],
  title: "a publishable key sent to a runtime route is answered 401 publishable_requires_session",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 30 },
  cells: () =>
    pairwise({ route: RUNTIME_ROUTES, origin: ["listed", "none", "foreign"] as const, form: FORMS }).map(
      ({ route, origin, form }): Cell => ({
        testCall: { route, credential: { as: "publishable", of: role("publishable") }, origin, form },
        accepts: [PUBLISHABLE],
        tolerates: origin === "none" ? [NO_ORIGIN] : [],
      }),
    ),
});

/** Tiles may be public, or behind another server with answers of its own: what must not be is that this key opens them. */
export const publishableAtTiles: Rule = {
  id: "publishable-key-at-tiles",
  level: "must",
  spec: [40, 68, 149],
  title: "a tile that nobody gets without a credential is not served to a publishable key either",
  phase: "lattice",
  needs: { roles: ["publishable"], tileUrl: true, spends: { map_loads: 1 } },
  cost: { calls: 2 },
  run: async (context) => {
    const checks = new Checks("no tile for a publishable key that was not exchanged");
    const nobody = await context.send({ route: "maps.tiles", credential: { as: "none" }, origin: "listed" });
    if (isAdmitted(nobody)) return checks.result("tiles are public here");
    const credential = { as: "publishable", of: role("publishable") } as const;
    const answer = await context.send({ route: "maps.tiles", credential, origin: "listed" });
    if (answer.status === null || answer.transient) checks.unclear(inWords(answer));
    else checks.require(!isAdmitted(answer), answer, PUBLISHABLE, inWords(answer));
    return checks.result();
  },
};
