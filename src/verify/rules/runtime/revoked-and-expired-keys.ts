/** Keys that were good once (items 61, 142, 153, 190). */
import { outcomeOf } from "../../../contract/refusals.ts";
import type { Cell } from "../../cells.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { pairwise } from "../../pairwise.ts";
import type { Rule } from "../../rule.ts";
import { RUNTIME_ROUTES } from "../../runtime-routes.ts";
import { deadlineMs, expectOver } from "../../sending/settling.ts";
import { exchangeCall, FORMS, role } from "../../sending/test-call.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");
const PUBLISHABLE = outcomeOf("publishable_requires_session");
const NO_ORIGIN = outcomeOf("origin_required");

/** A revoked or expired key, where it would be used if it were good. Its place among the checks is not stated (A1). */
const spentKeyCells = async (context: Context, name: "revoked" | "expired"): Promise<Cell[]> => {
  const kind = await context.kindOf(name);
  const credential = { as: kind, of: role(name) } as const;
  const facts = { state: name };
  const runtime = pairwise({ route: RUNTIME_ROUTES.filter((route) => route !== "chat.route"), form: FORMS }).map(
    ({ route, form }): Cell => ({
      testCall: { route, credential, origin: "none", form, facts },
      accepts: [UNAUTHENTICATED],
      tolerates: kind === "publishable" ? [PUBLISHABLE, NO_ORIGIN] : [],
    }),
  );
  if (kind === "server") return runtime;
  const exchange = (["chat", "editor"] as const).map(
    (product): Cell => ({
      testCall: exchangeCall(name, "listed", product, { facts }),
      accepts: [UNAUTHENTICATED],
    }),
  );
  return [...exchange, ...runtime.slice(0, 4)];
};

const spentKey = (id: string, name: "revoked" | "expired"): Rule => ({
  id,
  level: "must",
  spec: [61, 142, 153, 190],
  title: `a key that is ${name} is answered 401`,
  phase: "lattice",
  needs: { roles: [name] },
  cost: { calls: 14 },
  run: async (context) => {
    const checks = new Checks("401, and no session");
    const endMs = deadlineMs(context);
    await context.each(await spentKeyCells(context, name), (cell) => expectOver(context, checks, cell, endMs));
    return checks.result();
  },
});

export const revokedKey = spentKey("revoked-key", "revoked");
export const expiredKey = spentKey("expired-key", "expired");
