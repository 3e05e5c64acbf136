/**
 * What the specification leaves open (tags [G], A7): nothing here is right or wrong; what the target does is written down,
 * because its clients will come to rely on it.
 */

import { maskSecrets } from "../../../contract/credentials.ts";
import { foreignHeader } from "../../../contract/foreign-text.ts";
import { type Context, callersOf, scopeOf } from "../../context.ts";
import type { Needs } from "../../planning/needs.ts";
import type { Rule } from "../../rule.ts";
import type { Answer } from "../../sending/answer.ts";
import { exchangeCall, role, type TestCall } from "../../sending/test-call.ts";

type Gap = {
  id: string;
  spec: readonly number[];
  title: string;
  needs?: Needs;
  testCall(context: Context): TestCall;
  read?(answer: Answer): string;
};

/** Sent once, whoever looks at it first. */
const answerOf = ({ id, testCall }: Pick<Gap, "id" | "testCall">, context: Context): Promise<Answer> =>
  context.once(id, () => context.send({ ...testCall(context), open: true }));

const gap = ({ id, spec, title, needs = {}, testCall, read = ({ outcome }) => outcome }: Gap): Rule => ({
  id,
  level: "info",
  spec,
  title,
  phase: "gaps",
  needs,
  cost: { calls: 1 },
  run: async (context) => {
    const answer = await answerOf({ id, testCall }, context);
    return {
      verdict: answer.transient ? "inconclusive" : "pass",
      reason: "recorded, not judged: the specification leaves it open",
      expected: "anything",
      got: maskSecrets(read(answer)),
      evidence: [answer.id],
    };
  },
});

const header = (name: string) => (answer: Answer) =>
  `${answer.outcome}, ${name}: ${foreignHeader(answer.headers[name])}`;

const caller = (context: Context): Pick<TestCall, "credential" | "origin"> =>
  callersOf(context, scopeOf("design.styles"))[0] ?? { credential: { as: "none" }, origin: "none" };

const ANYBODY: Needs = { anyOf: ["publishable", "server"] };
const PUBLISHABLE: Needs = { roles: ["publishable"] };

const requested = {
  "access-control-request-method": "POST",
  "access-control-request-headers": "x-api-key,content-type",
};

const editorFrom = (origin: "none" | "null"): TestCall => ({
  route: "design.styles",
  credential: { as: "session", of: role("publishable"), product: "editor" },
  origin,
});

const WITHOUT_ORIGIN: Gap = {
  id: "gap-session-without-origin",
  spec: [152],
  title: "whether a session works without an Origin",
  needs: PUBLISHABLE,
  testCall: () => editorFrom("none"),
};

const WITH_NULL: Gap = {
  id: "gap-session-with-null-origin",
  spec: [53],
  title: "whether a session works with Origin: null",
  needs: PUBLISHABLE,
  testCall: () => editorFrom("null"),
};

/** The answers to the same session without an Origin and with `null`, for the rule in which the two gaps meet. */
export const sessionWithoutOrigin = (context: Context): Promise<Answer> => answerOf(WITHOUT_ORIGIN, context);
export const sessionWithNull = (context: Context): Promise<Answer> => answerOf(WITH_NULL, context);

export const GAP_RULES: readonly Rule[] = [
  gap({
    id: "gap-viewer-with-a-key",
    spec: [77, 155],
    title: "what the exchange answers to product viewer with a full key (A7)",
    needs: PUBLISHABLE,
    testCall: () => exchangeCall("publishable", "listed", "viewer"),
  }),
  gap({
    id: "gap-viewer-without-a-key",
    spec: [154, 155],
    title: "what the exchange answers to product viewer without a key (A7)",
    testCall: () => ({ route: "sdk.sessions", credential: { as: "none" }, origin: "foreign", product: "viewer" }),
  }),
  gap(WITHOUT_ORIGIN),
  gap(WITH_NULL),
  gap({
    id: "gap-bearer-in-lower-case",
    spec: [144],
    title: "whether the word Bearer may be in lower case",
    needs: ANYBODY,
    testCall: (context) => ({ route: "design.styles", ...caller(context), form: "lower-bearer" }),
  }),
  gap({
    id: "gap-both-headers",
    spec: [144],
    title: "what becomes of a call with the same credential in both headers",
    needs: ANYBODY,
    testCall: (context) => ({ route: "design.styles", ...caller(context), form: "both" }),
  }),
  gap({
    id: "gap-unknown-path",
    spec: [18],
    title: "what an unknown path is answered",
    testCall: () => ({ route: "-", credential: { as: "none" }, origin: "none", path: "/floodgate-no-such-path" }),
  }),
  gap({
    id: "gap-wrong-method",
    spec: [18],
    title: "what a known path is answered with another method, and whether it has Allow",
    testCall: () => ({ route: "-", credential: { as: "none" }, origin: "none", path: "/sdk/sessions", method: "PUT" }),
    read: header("allow"),
  }),
  gap({
    id: "gap-preflight",
    spec: [160],
    title: "what a preflight of the exchange is answered",
    testCall: () => ({
      route: "-",
      credential: { as: "none" },
      origin: "foreign",
      path: "/sdk/sessions",
      method: "OPTIONS",
      headers: requested,
    }),
    read: header("access-control-allow-origin"),
  }),
  gap({
    id: "gap-stream-without-accept",
    spec: [110],
    title: "whether a stream is opened for a caller that does not ask for text/event-stream",
    needs: ANYBODY,
    testCall: (context) => ({
      route: "chat.control",
      ...(callersOf(context, "ai")[0] ?? caller(context)),
      headers: { accept: "*/*" },
    }),
    read: header("content-type"),
  }),
  gap({
    id: "gap-challenge",
    spec: [165],
    title: "what a 401 says in WWW-Authenticate",
    testCall: () => ({ route: "design.styles", credential: { as: "none" }, origin: "none" }),
    read: header("www-authenticate"),
  }),
  gap({
    id: "gap-session-caching",
    spec: [38],
    title: "what the exchange says about caching",
    needs: PUBLISHABLE,
    testCall: () => exchangeCall("publishable", "listed", "editor"),
    read: header("cache-control"),
  }),
];
