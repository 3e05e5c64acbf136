/** What the exchange does not take: server keys and sessions (items 68, 70, 84, 199). */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { pairwise } from "../../pairwise.ts";
import { exchangeCall, role } from "../../sending/test-call.ts";

const KIND = outcomeOf("publishable_key_required");
const BROWSER = outcomeOf("server_key_in_browser");
const UNAUTHENTICATED = outcomeOf("unauthenticated");

const server = { as: "server", of: role("server") } as const;

export const wrongKind = tableRule({
  id: "exchange-wrong-kind",
  level: "must",
  spec: [68, 70, 199],
  title: "the exchange answers a server key with 403 publishable_key_required",
  phase: "lattice",
  needs: { roles: ["server"] },
  cost: { calls: 9 },
  cells: () =>
    pairwise({ origin: ["none", "listed", "foreign"] as const, product: ["chat", "editor", "viewer"] as const }).map(
      ({ origin, product }): Cell => ({
        testCall: { route: "sdk.sessions", credential: server, origin, product },
        accepts: [KIND],
        tolerates: origin === "none" ? [] : [BROWSER],
      }),
    ),
});

export const sessionAtExchange = tableRule({
  id: "exchange-with-a-session",
  level: "must",
  spec: [70, 84],
  title: "the exchange does not turn a session token into another one",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 2 },
  cells: () =>
    (["listed", "none"] as const).map(
      (origin): Cell => ({
        testCall: {
          ...exchangeCall("publishable", origin, "chat"),
          credential: { as: "session", of: role("publishable"), product: "chat" },
        },
        accepts: [KIND],
        tolerates: [UNAUTHENTICATED],
      }),
    ),
});
