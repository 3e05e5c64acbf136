/** Gaps of the specification (tags [G]; A7): recorded, not judged, because clients come to rely on what is there. */
import { foreignHeader } from "../../contract/foreign-text.ts";
import { fits, recorded } from "../checks.ts";
import { type Context, callerOf } from "../context.ts";
import type { Needs } from "../planning/needs.ts";
import { type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { asNobody, inSession, mint, NO_SUCH_PATH, type TestCall } from "../sending/test-call.ts";
import { preflightHeaders } from "./runtime.ts";

const { must, info } = rulesOf("gaps");

type Gap = readonly [id: string, item: readonly number[], title: string, needs: Needs, ask: Ask, header?: string];
type Ask = TestCall | ((context: Context) => TestCall);

const ANYBODY: Needs = { anyOf: ["publishable", "server"] };
const PUBLISHABLE: Needs = { roles: ["publishable"] };

const byAnybody =
  (more: Partial<TestCall>, scope: "ai" | "design" = "design"): Ask =>
  (context) => ({ route: "design.styles", ...callerOf(context, scope), ...more });

const editorFrom = (origin: "none" | "null"): TestCall => inSession("editor", "design.styles", { origin });

// biome-ignore format: a table, a gap a row
const GAPS: readonly Gap[] = [
  ["gap-viewer-with-a-key", [77, 155], "what the exchange answers to product viewer with a full key (A7)",
    PUBLISHABLE, mint("publishable", "viewer")],
  ["gap-viewer-without-a-key", [154, 155], "what the exchange answers to product viewer without a key (A7)",
    {}, asNobody("sdk.sessions", { origin: "foreign", product: "viewer" })],
  ["gap-session-without-origin", [152], "whether a session works without an Origin", PUBLISHABLE, editorFrom("none")],
  ["gap-session-with-null-origin", [53], "whether a session works with Origin: null", PUBLISHABLE, editorFrom("null")],
  ["gap-bearer-in-lower-case", [144], "whether the word Bearer may be in lower case",
    ANYBODY, byAnybody({ form: "lower-bearer" })],
  ["gap-both-headers", [144], "what becomes of a call with the same credential in both headers",
    ANYBODY, byAnybody({ form: "both" })],
  ["gap-unknown-path", [18], "what an unknown path is answered", {}, asNobody("-", { path: NO_SUCH_PATH })],
  ["gap-wrong-method", [18], "what a known path is answered with another method, and whether it has Allow",
    {}, asNobody("-", { path: "/sdk/sessions", method: "PUT" }), "allow"],
  ["gap-preflight", [160], "what a preflight of the exchange is answered",
    {}, asNobody("-", { origin: "foreign", path: "/sdk/sessions", method: "OPTIONS", headers: preflightHeaders("x-api-key,content-type") }),
    "access-control-allow-origin"],
  ["gap-stream-without-accept", [110], "whether a stream is opened for a caller that does not ask for text/event-stream",
    ANYBODY, byAnybody({ route: "chat.control", headers: { accept: "*/*" } }, "ai"), "content-type"],
  ["gap-challenge", [165], "what a 401 says in WWW-Authenticate", {}, asNobody("design.styles"), "www-authenticate"],
  ["gap-session-caching", [38], "what the exchange says about caching",
    PUBLISHABLE, mint("publishable", "editor"), "cache-control"],
];

const answerOf = (context: Context, id: string): Promise<Answer> => {
  const ask = GAPS.find(([gap]) => gap === id)?.[4] as Ask;
  return context.once(id, () => context.send({ ...(typeof ask === "function" ? ask(context) : ask), open: true }));
};

export const GAP_RULES: readonly Rule[] = [
  ...GAPS.map(([id, item, title, needs, , header]) =>
    info(id, item, {
      title,
      needs,
      cost: { calls: 1 },
      step: async (context) => {
        const answer = await answerOf(context, id);
        const said = header === undefined ? "" : `, ${header}: ${foreignHeader(answer.headers[header])}`;
        return recorded(`${answer.outcome}${said}`, [answer]);
      },
    }),
  ),
  // Both readings of `null` refuse a session that needs an Origin: as not listed or as missing.
  must("session-origin-null", [53, 151, 152], {
    title: "where a session needs an Origin, null is neither an allowlisted one nor enough",
    needs: PUBLISHABLE,
    step: async (context, checks) => {
      const without = await answerOf(context, "gap-session-without-origin");
      const withNull = await answerOf(context, "gap-session-with-null-origin");
      // A key may list the text `null`, for pages without an origin.
      const isListed = context.keyRole("publishable")?.origin === "null";
      if (!fits(without, "origin_required") || isListed)
        return checks.idle("a session works without an Origin (152), so null may count as none (53)");
      if (!checks.isUnclear(withNull))
        checks.require(!isAdmitted(withNull), withNull, "a refusal, as without an Origin", inWords(withNull));
    },
  }),
];
