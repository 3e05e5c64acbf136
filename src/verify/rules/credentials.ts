/** Missing, unknown, forged, revoked, expired credentials are 401 (items 2, 20-21, 58-61, 107-111, 142, 153, 190). */
import { credentialKind } from "../../contract/credentials.ts";
import { isObject, parseJson } from "../../contract/refusals.ts";
import { PRODUCTS, type RouteName } from "../../contract/routes.ts";
import { GARBAGE_KEY, UNKNOWN_KEYS } from "../../workload/step.ts";
import { type Context, callerOf, RUNTIME_ROUTES } from "../context.ts";
import { all, pairwise, type Row, type Rule, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted, lookOf } from "../sending/answer.ts";
import { answerTo, deadlineMs, expectOver } from "../sending/settling.ts";
import { asNobody, exchangeCall, FORMS, type Form, mint, role, type TestCall } from "../sending/test-call.ts";

const LIVE = "svc_sess_live_";
const segment = (text: string): string => Buffer.from(text).toString("base64url");
const jsonSegment = (value: unknown): string => segment(JSON.stringify(value));

const HEAD = jsonSegment({ alg: "HS256", typ: "JWT" });
const IN_2100 = 4_102_444_800;
const CLAIMS = jsonSegment({ sub: "nobody", exp: IN_2100 });
const SIGNATURE = segment("signature-of-nobody");

// biome-ignore format: a table
const UNKNOWN_CREDENTIALS = ([
  ["garbage", "a text that is no key", GARBAGE_KEY, "$GARBAGE"],
  ["server", "a server key that nobody issued", UNKNOWN_KEYS.server, "$UNKNOWN_SERVER"],
  ["publishable", "a publishable key that nobody issued", UNKNOWN_KEYS.publishable, "$UNKNOWN_PUBLISHABLE"],
  ["session", "a session token that nobody issued", `${LIVE}${HEAD}.${CLAIMS}.${SIGNATURE}`, "$UNKNOWN_SESSION"],
] as const).map(([kind, what, value, variable]) => ({ kind, what, secret: { value, variable } }));

const changedAt = (text: string, at: number): string =>
  `${text.slice(0, at)}${text[at] === "A" ? "B" : "A"}${text.slice(at + 1)}`;

/** The last base64url character may hold only padding bits, so changes are made before it. */
const BEFORE_END = 10;

/** Variants of a valid token, each with one change; `once`: tried on one route only. Empty if `token` is no JWT. */
export const forgeries = (token: string) => {
  const prefix = /^svc_sess_[^_]*_/.exec(token)?.[0];
  const [head, payload, signature] = prefix === undefined ? [] : token.slice(prefix.length).split(".");
  if (head === undefined || payload === undefined || signature === undefined || signature.length < 8) return [];
  const middle = Math.floor(signature.length / 2);
  const nearEnd = Math.max(middle + 1, signature.length - BEFORE_END);
  const signed = [
    ["with another signature", changedAt(signature, 0)],
    ["whose signature differs in the middle", changedAt(signature, middle)],
    ["whose signature differs near its end", changedAt(signature, nearEnd)],
    ["with half a signature", signature.slice(0, middle)],
  ].map(([what, other]) => {
    return { what: `a session token ${what}`, value: `${prefix}${head}.${payload}.${other}`, once: true };
  });
  const unsigned = `${prefix}${jsonSegment({ alg: "none", typ: "JWT" })}.${payload}.`;
  const made = [...signed, { what: "a session token without a signature (alg none)", value: unsigned, once: false }];
  const claims = parseJson(Buffer.from(payload, "base64url").toString("utf8"));
  // Claims that cannot be decoded cannot be changed.
  if (!isObject(claims)) return made;
  // The new end differs from the old one: an unchanged token is no forgery.
  const exp = claims.exp === IN_2100 ? IN_2100 + 1 : IN_2100;
  const later = `${prefix}${head}.${jsonSegment({ ...claims, exp })}.${signature}`;
  return [...made, { what: "a session token whose end was moved", value: later, once: false }];
};

/** A router may take these for `/design/styles` where a check that compares paths does not. */
const ODD_PATHS = ["//design/styles", "/design//styles", "/Design/Styles", "/design/styles/", "/design/%73tyles"];

const { must, should } = rulesOf("lattice");

/** The exchange and all runtime routes but `chat.route`, which may report refusals under status 200 (A11). */
const PLAIN_ROUTES: readonly RouteName[] = ["sdk.sessions", ...RUNTIME_ROUTES.filter((name) => name !== "chat.route")];
const ORIGINS = ["none", "foreign"] as const;
const ASKED = PRODUCTS.filter((name) => name !== "viewer");

const productFor = (route: RouteName, i: number): Pick<TestCall, "product"> => {
  const product = ASKED[i % 3];
  return route === "sdk.sessions" && product !== undefined ? { product } : {};
};

const unknownBy = (value: string, variable: string, what: string) =>
  ({ credential: { as: "unknown" }, secret: { value, variable }, what }) as const;

/** Refusals that may precede the key lookup, because prefix and Origin are in the head (items 69-70, 83; A1, A4). */
const earlier = (kind: (typeof UNKNOWN_CREDENTIALS)[number]["kind"], route: RouteName, origin: string): string[] => {
  const needsOrigin = origin === "none" ? ["origin_required"] : [];
  const inBrowser = kind === "server" && origin !== "none" ? ["server_key_in_browser"] : [];
  if (route !== "sdk.sessions")
    return kind === "publishable" ? ["publishable_requires_session", ...needsOrigin] : inBrowser;
  if (kind === "publishable") return needsOrigin;
  return kind === "garbage" ? [] : ["publishable_key_required", ...inBrowser];
};

const NO_UTF8 = Buffer.from('{"sub":"\xff"}', "latin1").toString("base64url");

const UNPARSABLE: readonly (readonly [what: string, text: string])[] = [
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
  ["claims with bytes that are no UTF-8", `${HEAD}.${NO_UTF8}.${SIGNATURE}`],
];
const UNPARSABLE_AT = ["design.styles", "poi.enrich", "chat.control"] as const;

const chatToken = async (context: Context): Promise<string> => {
  if (!context.has("publishable")) return "";
  const { session_token: token } = (await context.mint("publishable", "chat")).fields;
  return typeof token === "string" ? token : "";
};

/** Length of the end of a key that is certainly random; an organization's name may come before it. */
const RANDOM_END = 12;

/** The key with swapped letter case. `isEvident`: its random end has letters of both cases, so case must matter. */
const inOtherCase = (key: string): { value: string; isEvident: boolean } | null => {
  const head = /^svc_(?:pk|sk)_(?:(?:live|test)_)?/.exec(key)?.[0] ?? "";
  const rest = key.slice(head.length);
  if (!/[a-z]/i.test(rest)) return null;
  const swapped = rest.replace(/[a-z]/gi, (one) => (one === one.toUpperCase() ? one.toLowerCase() : one.toUpperCase()));
  const end = rest.slice(-RANDOM_END);
  return { value: head + swapped, isEvident: /[a-z]/.test(end) && /[A-Z]/.test(end) };
};

/** `isOpen`: an acceptance is only noted. */
const nearMisses = async (context: Context): Promise<{ call: TestCall; isOpen: boolean }[]> => {
  const miss = (to: Partial<TestCall>, value: string, what: string, isOpen = false) => ({
    call: asNobody("design.styles", { ...to, ...unknownBy(value, "$ALMOST_A_KEY", what), open: true }),
    isOpen,
  });
  const names = (["server", "publishable"] as const).filter(context.has);
  const ofKeys = await Array.fromAsync(names, async (name) => {
    const key = await context.secretOf(name);
    const [form] = await context.exchangeForms();
    const originValue = context.keyRole("publishable")?.origin;
    const to = name === "server" ? {} : mint("publishable", "chat", { form, originValue });
    const swapped = inOtherCase(key);
    return [
      miss(to, key.slice(0, -1), `the ${name} key without its last character`),
      miss(to, `${key}x`, `the ${name} key and one character more`),
      miss(to, `${key}.`, `the ${name} key and a full stop`),
      ...(swapped === null
        ? []
        : [miss(to, swapped.value, `the ${name} key with its letters in the other case`, !swapped.isEvident)]),
    ];
  });
  if (!context.has("admin_pro")) return ofKeys.flat();
  return [...ofKeys.flat(), miss({}, await context.secretOf("admin_pro"), "an administrator's token")];
};

/** Calls with a revoked or expired key that would otherwise be right. The order of this check is not specified (A1). */
const overRows = async (context: Context, name: "revoked" | "expired"): Promise<Row[]> => {
  const kind = credentialKind(await context.secretOf(name)) === "server" ? "server" : "publishable";
  const facts = { state: name };
  const runtime = PLAIN_ROUTES.filter((route) => route !== "sdk.sessions").flatMap((route) =>
    FORMS.map((form): Row => {
      const call: TestCall = { route, credential: { as: kind, of: role(name) }, origin: "none", form, facts };
      const or = kind === "publishable" ? ["publishable_requires_session", "origin_required"] : [];
      return [call, "unauthenticated", or];
    }),
  );
  if (kind === "server") return runtime;
  const exchange = (["chat", "editor"] as const).map((product) => mint(name, product, { facts }));
  return [...all(exchange, "unauthenticated"), ...runtime.slice(0, 4)];
};

const over = (id: string, name: "revoked" | "expired") =>
  must(id, [61, 142, 153, 190], {
    title: `a key that is ${name} is answered 401`,
    needs: { roles: [name] },
    cost: { calls: 14 },
    step: async (context, checks) => {
      const endMs = deadlineMs(context);
      await context.each(await overRows(context, name), (row) => expectOver(context, checks, row, endMs));
    },
  });

/** The letter é as one byte of Latin-1 and as two bytes of UTF-8, each in either header. */
const LETTERS = [
  ["\u00e9", "a key with one byte above 127 at its end", "x-api-key", "bearer"],
  ["\u00c3\u00a9", "a key with two bytes of UTF-8 at its end", "bearer", "x-api-key"],
] as const;

/** Keys with a letter outside ASCII, sent once for two rules: `hostile-input` judges that nothing breaks. */
export const foreignLetters = (context: Context): Promise<Answer[]> =>
  context.once("keys with letters outside ASCII", () => {
    const originValue = context.keyRole("publishable")?.origin ?? "https://app.example";
    const { server, publishable } = UNKNOWN_KEYS;
    const calls = LETTERS.flatMap(([letter, what, atRuntime, atExchange]) => {
      const by = (key: string, form: Form) =>
        ({ ...unknownBy(key + letter, "$NON_ASCII_KEY", what), form, once: true, open: true }) as const;
      return [
        asNobody("design.styles", by(server, atRuntime)),
        exchangeCall("publishable", "foreign", "chat", { ...by(publishable, atExchange), originValue }),
      ];
    });
    return context.each(calls, (call) => answerTo(context, call));
  });

// biome-ignore format: a table, a rule in a few lines
export const CREDENTIAL_RULES: readonly Rule[] = [
  must("missing-credential", [153, 190, 111], {
    title: "a call without a credential is answered 401, on every route",
    rows: all(pairwise({ route: PLAIN_ROUTES, origin: ORIGINS }).map(({ route, origin }, i) =>
      asNobody(route, { origin, ...productFor(route, i) })), "unauthenticated") }),
  must("missing-credential-on-odd-paths", [153, 190], {
    title: "the path of a catalog in another spelling gives the catalog to no caller without a credential",
    expected: "a refusal, or another answer than the catalog",
    needs: { anyOf: ["server", "publishable"] },
    cost: { calls: ODD_PATHS.length + 1 },
    step: async (context, checks) => {
      const own = await context.send({ ...callerOf(context, "design", 0), route: "design.styles" });
      if (!isAdmitted(own)) return inWords(own);
      const calls = ODD_PATHS.map((path) => asNobody("-", { path, open: true }));
      for (const answer of checks.setAsideUnclear(await context.each(calls, context.send)))
        checks.require(lookOf(answer) !== lookOf(own), answer, "no catalog", "the catalog, as with a key");
    } }),
  should("missing-credential-on-chat-route", [107, 153], {
    title: "the route whose failures travel under 200 still answers 401 to a call without a credential",
    rows: [[asNobody("chat.route"), "unauthenticated"]] }),
  must("invalid-credential", [153, 190], {
    title: "a credential that nobody issued is answered 401, on every route, in either header",
    rows: [
      ...pairwise({ route: PLAIN_ROUTES, nobody: UNKNOWN_CREDENTIALS, origin: ORIGINS, form: FORMS }).map(({ route, nobody, ...more }, i): Row => {
        const { kind, secret, what } = nobody;
        const or = earlier(kind, route, more.origin);
        const credential = { as: kind === "garbage" ? "garbage" : "unknown" } as const;
        const open = or.length > 0 ? { open: true as const } : {};
        return [asNobody(route, { ...open, credential, secret, what, ...more, ...productFor(route, i) }), "unauthenticated", or];
      }),
      ...["Basic dXNlcjpwYXNzd29yZA==", "Bearer", "Bearer "].map((authorization): Row => [asNobody("design.styles", {
        headers: { authorization }, what: `the header "Authorization: ${authorization.trim()}"` }), "unauthenticated"]),
    ] }),
  over("revoked-key", "revoked"),
  over("expired-key", "expired"),
  must("near-miss-of-a-credential", [2, 153, 190], {
    title: "a key that is almost a good one, or an administrator's token, is answered 401",
    needs: { anyOf: ["server", "publishable"] },
    cost: { calls: 9 },
    step: async (context, checks) => {
      await context.each(await nearMisses(context), async ({ call, isOpen }) => {
        const answer = await context.send(call);
        if (!isOpen) checks.expect(answer, "unauthenticated");
        else if (isAdmitted(answer)) checks.note(`${call.what} is taken; such keys have letters of one case alone`);
      });
    } }),
  must("forged-session", [20, 21, 153], {
    title: "a session token that was tampered with is answered 401",
    needs: { roles: ["publishable"] },
    cost: { calls: 8 },
    rows: async (context) => {
      const originValue = context.keyRole("publishable")?.origin ?? "https://app.example";
      return forgeries(await chatToken(context)).flatMap(({ what, value, once }, i) => {
        const by = { ...unknownBy(value, "$TAMPERED_SESSION", what), origin: "listed", originValue } as const;
        const calls = [asNobody("poi.enrich", by), asNobody("chat.control", by)];
        return all(once ? calls.slice(i % 2, 1 + (i % 2)) : calls, "unauthenticated");
      });
    } }),
  must("unparsable-session", [20, 21, 153, 190, 223], {
    title: "a text with the prefix of a session token that cannot be parsed is answered 401, as any unknown credential",
    cost: { calls: 19 },
    rows: async (context) => {
      // The prefix is the deployment's own, if it mints a session.
      const prefix = /^svc_sess_[^_.]*_/.exec(await chatToken(context))?.[0] ?? LIVE;
      const by = ([what, text]: (typeof UNPARSABLE)[number], i: number): Partial<TestCall> => ({
        ...unknownBy(prefix + text, "$UNPARSABLE_SESSION", `a session token with ${what}`),
        form: FORMS[i % FORMS.length] ?? "bearer",
      });
      const atRuntime = UNPARSABLE.map((text, i) => asNobody(UNPARSABLE_AT[i % 3] ?? "design.styles", by(text, i)));
      // The exchange may refuse session tokens unread, for their kind (items 69-70), so a sample is enough.
      const atExchange = UNPARSABLE.filter((_, i) => i % 3 === 1).map((text, i) =>
        asNobody("sdk.sessions", { product: "chat", open: true, ...by(text, i) }));
      return [...all(atRuntime, "unauthenticated"), ...all(atExchange, "unauthenticated", "publishable_key_required")];
    } }),
  must("key-with-a-foreign-letter", [58, 153, 190], {
    title: "an unknown key with a letter outside ASCII is answered 401, as any other",
    cost: { calls: 4, shared: "foreign letters" },
    step: async (context, checks) => {
      for (const answer of await foreignLetters(context)) {
        const { status, testCall: { what }, outcome } = answer;
        // A proxy may refuse such a header.
        if (status === null || status === 400 || /^edge 4/.test(outcome)) checks.note(`${what}: ${inWords(answer)}`);
        else if (checks.isUnclear(answer)) continue;
        else if (status >= 500) checks.note(`${what}: ${status}, of which hostile-input says more`);
        else checks.expect(answer, "unauthenticated");
      }
      return "no such key was looked at";
    } }),
];
