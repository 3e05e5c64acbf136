/** Nobody is served with a credential that nobody issued, whatever else is right or wrong (items 153, 190; A1). */
import { outcomeOf } from "../../../contract/refusals.ts";
import type { RouteName } from "../../../contract/routes.ts";
import { type Cell, tableRule } from "../../cells.ts";
import { NOBODIES, type Nobody } from "../../nobodies.ts";
import { pairwise } from "../../pairwise.ts";
import { FORMS } from "../../sending/test-call.ts";
import { ORIGINS, PLAIN_ROUTES, productFor } from "./missing-credential.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");
const PUBLISHABLE = outcomeOf("publishable_requires_session");
const KIND = outcomeOf("publishable_key_required");
const NO_ORIGIN = outcomeOf("origin_required");
const BROWSER = outcomeOf("server_key_in_browser");

/**
 * The kind is known from the prefix, and a missing Origin from the head, before a key is looked up. So whatever begins with
 * `svc_sk_` or `svc_sess_` may get `publishable_key_required` at the exchange, also when nobody issued it: the kind is the first
 * of the four checks of 4.1 (items 69-70), of 401 it is not stated where it stands among them (83, A1), and that an invalid session
 * is answered 401 there is a resolution of A4, not a statement. It is refused either way. A text without such a prefix is 401.
 */
const earlier = (kind: Nobody["kind"], route: RouteName, origin: string): string[] => {
  if (route === "sdk.sessions") {
    if (kind === "publishable") return origin === "none" ? [NO_ORIGIN] : [];
    return kind === "garbage" ? [] : [KIND, ...(kind === "server" && origin !== "none" ? [BROWSER] : [])];
  }
  if (kind === "publishable") return [PUBLISHABLE, ...(origin === "none" ? [NO_ORIGIN] : [])];
  return kind === "server" && origin !== "none" ? [BROWSER] : [];
};

export const invalidCredential = tableRule({
  id: "invalid-credential",
  level: "must",
  spec: [153, 190],
  title: "a credential that nobody issued is answered 401, on every route, in either header",
  phase: "lattice",
  needs: {},
  cost: { calls: 43 },
  cells: () => [
    ...pairwise({ route: PLAIN_ROUTES, nobody: NOBODIES, origin: ORIGINS, form: FORMS }).map(
      ({ route, nobody, origin, form }, i): Cell => ({
        testCall: {
          ...(earlier(nobody.kind, route, origin).length > 0 ? { open: true as const } : {}),
          route,
          credential: { as: nobody.kind === "garbage" ? "garbage" : "unknown" },
          secret: nobody.secret,
          what: nobody.what,
          origin,
          form,
          ...productFor(route, i),
        },
        accepts: [UNAUTHENTICATED],
        tolerates: earlier(nobody.kind, route, origin),
      }),
    ),
    ...(["Basic dXNlcjpwYXNzd29yZA==", "Bearer", "Bearer "] as const).map(
      (authorization): Cell => ({
        testCall: {
          route: "design.styles",
          credential: { as: "none" },
          origin: "none",
          headers: { authorization },
          what: `the header "Authorization: ${authorization.trim()}"`,
        },
        accepts: [UNAUTHENTICATED],
      }),
    ),
  ],
});
