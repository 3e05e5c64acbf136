/**
 * Texts that begin as a session token does and hold nothing that a JWT library can read (items 20-21, 153, 190, 223). A service
 * that parses a token before it checks the signature stumbles over them; forged-session changes good tokens, which parse.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import type { Context } from "../../context.ts";
import { FORMS, type TestCall } from "../../sending/test-call.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");
/** At the exchange the kind may be looked at first, and shows in the prefix (items 69-70). */
const KIND = outcomeOf("publishable_key_required");
const LIVE = "svc_sess_live_";

const segment = (text: string): string => Buffer.from(text).toString("base64url");
const HEAD = segment('{"alg":"HS256","typ":"JWT"}');
const CLAIMS = segment('{"sub":"nobody","exp":4102444800}');
const SIGNATURE = segment("signature-of-nobody");

const TEXTS: readonly (readonly [what: string, text: string])[] = [
  ["nothing behind the prefix", ""],
  ["no dots", "floodgate0no0such0session"],
  ["one dot", `${HEAD}.${CLAIMS}`],
  ["four dots", `${HEAD}.${CLAIMS}.${SIGNATURE}.${SIGNATURE}.${SIGNATURE}`],
  ["three empty parts", ".."],
  ["parts that are no base64url", "*$!.*$!.*$!"],
  ["claims that are no base64url", `${HEAD}.*$!.${SIGNATURE}`],
  ["a signature that is no base64url", `${HEAD}.${CLAIMS}.*$!`],
  ["parts that hold no JSON", `${segment("no json")}.${segment("{")}.${SIGNATURE}`],
  ["claims that hold no JSON", `${HEAD}.${segment("no json")}.${SIGNATURE}`],
  ["claims that are null", `${HEAD}.${segment("null")}.${SIGNATURE}`],
  ["a head that is null", `${segment("null")}.${CLAIMS}.${SIGNATURE}`],
  ["a head without an algorithm", `${segment("{}")}.${CLAIMS}.${SIGNATURE}`],
  [
    "claims with bytes that are no UTF-8",
    `${HEAD}.${Buffer.from('{"sub":"\xff"}', "latin1").toString("base64url")}.${SIGNATURE}`,
  ],
];

const ROUTES = ["design.styles", "poi.enrich", "chat.control"] as const;

/** As the deployment's own tokens begin, where it mints any for us. */
const prefixOf = async (context: Context): Promise<string> => {
  if (!context.has("publishable")) return LIVE;
  const { session_token: token } = (await context.mint("publishable", "chat")).fields;
  return (typeof token === "string" ? /^svc_sess_[^_.]*_/.exec(token)?.[0] : undefined) ?? LIVE;
};

export const unparsableSession = tableRule({
  id: "unparsable-session",
  level: "must",
  spec: [20, 21, 153, 190, 223],
  title: "a text with the prefix of a session token that cannot be parsed is answered 401, as any unknown credential",
  phase: "lattice",
  needs: {},
  cost: { calls: 19 },
  cells: async (context) => {
    const prefix = await prefixOf(context);
    const common = (
      text: string,
      what: string,
      i: number,
    ): Pick<TestCall, "credential" | "secret" | "form" | "what"> => ({
      credential: { as: "unknown" },
      secret: { value: prefix + text, variable: "$UNPARSABLE_SESSION" },
      form: FORMS[i % FORMS.length] ?? "bearer",
      what: `a session token with ${what}`,
    });
    const atRuntime = TEXTS.map(
      ([what, text], i): Cell => ({
        testCall: { route: ROUTES[i % ROUTES.length] ?? "design.styles", origin: "none", ...common(text, what, i) },
        accepts: [UNAUTHENTICATED],
      }),
    );
    // There it may be refused unread, for its kind: some of each sort show whether it is.
    const atTheExchange = TEXTS.filter((_, i) => i % 3 === 1).map(
      ([what, text], i): Cell => ({
        testCall: { route: "sdk.sessions", origin: "none", product: "chat", open: true, ...common(text, what, i) },
        accepts: [UNAUTHENTICATED],
        tolerates: [KIND],
      }),
    );
    return [...atRuntime, ...atTheExchange];
  },
});
