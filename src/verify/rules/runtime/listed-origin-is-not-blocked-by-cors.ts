/** Whether a page on an allowlisted Origin may read what it is answered (item 159). */
import { foreignHeader } from "../../../contract/foreign-text.ts";
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import { role, type TestCall } from "../../sending/test-call.ts";

export const corsForListed: Rule = {
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
          `it was ${foreignHeader(allowed)}`,
        );
      }
    }
    return checks.result();
  },
};
