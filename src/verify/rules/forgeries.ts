/** Credentials that are almost good ones (items 2, 20-21, 125, 153): keys with an end cut off, sessions that were tampered with. */
import { outcomeOf } from "../../contract/subcodes.ts";
import { type Cell, tableRule } from "../cells.ts";
import { forgeries } from "../nobodies.ts";
import { exchangeProbe, type Probe } from "../probe.ts";
import type { Rule } from "../rule.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");

/** Good keys with an end cut off or put on, and an administrator's token where a platform key belongs (items 2, 125). */
const nearMisses = tableRule({
  id: "near-miss-of-a-credential",
  level: "must",
  spec: [2, 153, 190],
  title: "a key that is almost a good one, or an administrator's token, is answered 401",
  phase: "lattice",
  needs: { anyOf: ["server", "publishable"] },
  cells: async (context) => {
    const cells: Cell[] = [];
    const add = (probe: Probe, value: string, what: string): void => {
      const secret = { value, variable: "$ALMOST_A_KEY" };
      cells.push({
        probe: { ...probe, credential: { as: "unknown" }, secret, what, open: true },
        accepts: [UNAUTHENTICATED],
      });
    };
    for (const name of ["server", "publishable"] as const) {
      if (!context.has(name)) continue;
      const key = await context.secretOf(name);
      const origin = context.keyRole("publishable")?.origin;
      const probe: Probe =
        name === "server"
          ? { route: "design.styles", credential: { as: "unknown" }, origin: "none" }
          : {
              ...exchangeProbe("publishable", "listed", "chat", {
                form: (await context.exchangeForms())[0] ?? "bearer",
              }),
              ...(origin === undefined ? {} : { originValue: origin }),
            };
      add(probe, key.slice(0, -1), `the ${name} key without its last character`);
      add(probe, `${key}x`, `the ${name} key and one character more`);
    }
    if (context.has("admin_pro")) {
      const styles: Probe = { route: "design.styles", credential: { as: "unknown" }, origin: "none" };
      add(styles, await context.secretOf("admin_pro"), "an administrator's token");
    }
    return cells;
  },
});

const forgedSession = tableRule({
  id: "forged-session",
  level: "must",
  spec: [20, 21, 153],
  title: "a session token that was tampered with is answered 401",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cells: async (context) => {
    const { fields } = await context.mint("publishable", "chat");
    const token = typeof fields.session_token === "string" ? fields.session_token : "";
    const routes = ["poi.enrich", "chat.control"] as const;
    return forgeries(token).flatMap(({ what, value, once }, i) =>
      routes
        .filter((_, at) => once !== true || at === i % routes.length)
        .map(
          (route): Cell => ({
            probe: {
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

export const FORGERY_RULES: readonly Rule[] = [nearMisses, forgedSession];
