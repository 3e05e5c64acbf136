/** CORS (items 41, 143, 146, 159, 160). How a preflight is answered is not specified, and a proxy may answer it. */
import { foreignHeader } from "../../contract/foreign-text.ts";
import { rulesOf } from "../rule.ts";
import type { Answer } from "../sending/answer.ts";
import { asNobody, asServer, inSession } from "../sending/test-call.ts";

const { must, should } = rulesOf("lattice", { needs: { roles: ["publishable"] } });

const allowed = ({ headers }: Answer): string | undefined => headers["access-control-allow-origin"];
const overloaded = "overload or no answer";

/** In the Fetch standard `*` covers every header but Authorization. */
const lets = ({ headers }: Answer, name: string): boolean => {
  const names = (headers["access-control-allow-headers"] ?? "").toLowerCase().split(/\s*,\s*/);
  return names.includes(name) || (names.includes("*") && name !== "authorization");
};

export const CORS_RULES = [
  must("server-key-is-blocked-by-cors", [146], {
    title: "an answer to a server key in a browser carries no Access-Control-Allow-Origin",
    needs: { roles: ["server"] },
    cost: { calls: 2 },
    step: async (context, checks) => {
      await context.each(["design.styles", "chat.control"] as const, async (route) => {
        const answer = await context.send(asServer(route, { origin: "listed", form: "bearer" }));
        if (answer.transient) return checks.unclear(overloaded);
        const got = `it was ${foreignHeader(allowed(answer))}`;
        checks.require(allowed(answer) === undefined, answer, "no Access-Control-Allow-Origin", got);
      });
    },
  }),
  should("listed-origin-is-not-blocked-by-cors", [159], {
    title: "a browser on an allowlisted Origin may read the answers",
    expected: "Access-Control-Allow-Origin names the allowlisted Origin",
    cost: { calls: 3 },
    step: async (context, checks) => {
      const listed = context.keyRole("publishable")?.origin;
      const minted = await context.mint("publishable", "editor");
      const calls = [inSession("editor", "design.styles"), inSession("chat", "chat.control")];
      for (const answer of [minted, ...(await Promise.all(calls.map(context.send)))]) {
        if (answer.transient) checks.unclear(overloaded);
        else {
          const isRead = allowed(answer) === "*" || allowed(answer) === listed;
          checks.require(isRead, answer, `${listed} or *`, `it was ${foreignHeader(allowed(answer))}`);
        }
      }
    },
  }),
  // A preflight that allows the Origin but no credential header makes the API unusable from a page (item 143: one of them is enough).
  should("preflight-allows-a-credential", [143, 159, 160], {
    title: "a preflight that lets an allowlisted Origin in lets it send X-Api-Key or Authorization",
    cost: { calls: 2 },
    step: async (context, checks) => {
      const refused: Answer[] = [];
      for (const carrier of ["x-api-key", "authorization"]) {
        const asked = {
          "access-control-request-method": "POST",
          "access-control-request-headers": `content-type,${carrier}`,
        };
        const preflight = asNobody("-", {
          origin: "listed",
          originValue: context.keyRole("publishable")?.origin ?? "",
          path: "/sdk/sessions",
          method: "OPTIONS",
          headers: asked,
          what: `preflight for ${carrier}`,
        });
        const answer = await context.send(preflight);
        const isDone = answer.status !== null && answer.status >= 200 && answer.status < 300;
        if (!isDone || allowed(answer) === undefined) return checks.idle("preflights are not answered with CORS here");
        if (lets(answer, carrier)) checks.fine();
        else refused.push(answer);
      }
      const [first, second] = refused;
      if (first === undefined || second === undefined) return;
      const got = `it was ${foreignHeader(first.headers["access-control-allow-headers"] ?? "absent")}`;
      checks.require(false, first, "X-Api-Key or Authorization in Access-Control-Allow-Headers", got);
    },
  }),
];
