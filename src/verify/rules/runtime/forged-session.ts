/** Good sessions that were tampered with (items 20-21, 153). */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { forgeries } from "../../nobodies.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");

export const forgedSession = tableRule({
  id: "forged-session",
  level: "must",
  spec: [20, 21, 153],
  title: "a session token that was tampered with is answered 401",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 8 },
  cells: async (context) => {
    const { fields } = await context.mint("publishable", "chat");
    const token = typeof fields.session_token === "string" ? fields.session_token : "";
    const routes = ["poi.enrich", "chat.control"] as const;
    return forgeries(token).flatMap(({ what, value, once }, i) =>
      routes
        .filter((_, at) => once !== true || at === i % routes.length)
        .map(
          (route): Cell => ({
            testCall: {
              route,
              credential: { as: "unknown" },
              origin: "listed",
              originValue: context.keyRole("publishable")?.origin ?? "https://app.example",
              secret: { value, variable: "$TAMPERED_SESSION" },
              what,
            },
            accepts: [UNAUTHENTICATED],
          }),
        ),
    );
  },
});
