/** A server key is for servers: with an Origin it is refused, and no page may read the refusal (items 41, 145-148, 197). */
import { foreignHeader } from "../../../contract/foreign-text.ts";
import { outcomeOf } from "../../../contract/refusals.ts";
import type { RouteName } from "../../../contract/routes.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { Checks } from "../../checks.ts";
import { pairwise } from "../../pairwise.ts";
import type { Rule } from "../../rule.ts";
import { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import { FORMS, role, type TestCall } from "../../sending/test-call.ts";

const BROWSER = outcomeOf("server_key_in_browser");

const server = { as: "server", of: role("server") } as const;

const inBrowser = (route: RouteName, origin: TestCall["origin"], form: TestCall["form"] = "bearer"): Cell => ({
  testCall: { route, credential: server, origin, form },
  accepts: [BROWSER],
});

export const serverKeyInBrowser = tableRule({
  id: "server-key-in-browser",
  level: "must",
  spec: [41, 145, 197],
  title: "a server key that comes with an Origin is answered 403 server_key_in_browser",
  phase: "lattice",
  needs: { roles: ["server"] },
  cost: { calls: 20 },
  cells: () =>
    pairwise({ route: RUNTIME_ROUTES, origin: ["listed", "foreign"] as const, form: FORMS }).map(
      ({ route, origin, form }) => inBrowser(route, origin, form),
    ),
});

export const serverKeyInFrame = tableRule({
  id: "server-key-in-a-sandboxed-frame",
  level: "should",
  spec: [148],
  title: "a server key that comes with Origin: null is answered 403 server_key_in_browser",
  phase: "lattice",
  needs: { roles: ["server"] },
  cost: { calls: 2 },
  cells: () => [inBrowser("design.styles", "null"), inBrowser("poi.enrich", "null", "x-api-key")],
});

export const serverKeyCors: Rule = {
  id: "server-key-is-blocked-by-cors",
  level: "must",
  spec: [146],
  title: "an answer to a server key in a browser carries no Access-Control-Allow-Origin",
  phase: "lattice",
  needs: { roles: ["server"] },
  cost: { calls: 2 },
  run: async (context) => {
    const checks = new Checks("no Access-Control-Allow-Origin on the answer to a server key with an Origin");
    await context.each(["design.styles", "chat.control"] as const, async (route) => {
      const answer = await context.send(inBrowser(route, "listed").testCall);
      if (answer.transient) return checks.unclear("overload or no answer");
      const allowed = answer.headers["access-control-allow-origin"];
      checks.require(
        allowed === undefined,
        answer,
        "no Access-Control-Allow-Origin",
        `it was ${foreignHeader(allowed)}`,
      );
    });
    return checks.result();
  },
};
