/** One call of a story (what to send, as whom, from where, and the caller's facts), and its request. The driver adds the secrets. */
import type { CallFacts } from "../contract/call-facts.ts";
import { isStreamed, type Product, type RouteName, routeOf } from "../contract/routes.ts";
import { type CallerName, callerOf, type TargetView } from "./callers/target-view.ts";

// Query, body and path of a correct call of each route (items 64-128), varied by number, so that no cache answers.

const QUESTIONS = [
  "Where can I have breakfast near the harbour?",
  "Show me the quiet streets on the way to the station.",
  "Which of these buildings is the oldest?",
  "Plan an hour's walk that ends at the market.",
] as const;

/** Written out, because `JSON.stringify` took 6 % of a k6 script's time. */
const chatBody = (n: number): string =>
  `{"messages":[{"role":"user","content":"${QUESTIONS[n % QUESTIONS.length]} (${n})"}],"lang":"en","map_zoom":${12 + (n % 5)}}`;

const BODIES: { readonly [name in RouteName]?: (n: number) => object } = {
  "chat.summary": (n) => ({ type: n % 2 === 0 ? "poi" : "building", name: `Place ${n}` }),
  "chat.button": (n) => ({ poi: { name: `Place ${n}` }, question: QUESTIONS[n % QUESTIONS.length] }),
  "chat.route": (n) => ({
    places: [
      { name: "Station", lat: 52.525, lon: 13.369 },
      { name: `Place ${n}`, lat: 52.5 + (n % 10) / 100, lon: 13.4 },
    ],
    profile: "walking",
    raw_query: "from the station to there, on foot",
  }),
  "design.analyze": (n) => ({
    dataset: {
      columns: [
        { name: "city", type: "string" },
        { name: "people", type: "number" },
      ],
      sample_rows: [{ city: `City ${n}`, people: 1000 + n }],
    },
    prompt: "Show where most people live",
  }),
  "design.apply": (n) => ({
    dataset: { columns: [{ name: "city" }, { name: "people" }], sample_rows: [{ city: `City ${n}`, people: n }] },
    roles: { label: "city", size: "people" },
  }),
  "maps.loads": () => ({}),
};

const bodyOf = (route: RouteName, n: number): string | undefined =>
  route === "chat.control" ? chatBody(n) : JSON.stringify(BODIES[route]?.(n));

const pathOf = (route: RouteName, n: number): string => {
  if (route === "poi.enrich") {
    const lat = (52 + (n % 100) / 100).toFixed(2);
    return `/retrieval/poi/enrich?lat=${lat}&lon=13.40&name=Cafe%20${n}&category=cafe`;
  }
  if (route === "maps.tiles") return `/maps/tiles/12/${2000 + (n % 96)}/${1300 + (n % 64)}`;
  return routeOf(route).path;
};

/** `garbage` is not a key by its form, `unknown` a well-formed key that was never issued. */
export type CredentialRef =
  | { readonly as: "none" | "garbage" | "unknown" }
  | { readonly as: "publishable" | "server" | "admin"; readonly of: CallerName }
  | { readonly as: "session"; readonly of: CallerName; readonly product: Product };

export type SessionWanted = { readonly of: CallerName; readonly product: Product };

/** `listed`: an origin in the allowlist of the caller's key; `null`: the text of a sandboxed frame. */
export type OriginRef = "listed" | "foreign" | "none" | "null";

export type Step = {
  readonly route: RouteName | "-";
  readonly method: "GET" | "POST" | "PATCH" | "DELETE" | "PUT" | "HEAD" | "OPTIONS";
  /** Below `{base_url}`, with its query. */
  readonly path: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly credential: CredentialRef;
  /** The header that carries the credential (item 22, 143). */
  readonly via: "authorization" | "x-api-key";
  readonly origin: OriginRef;
  /** The caller's organization, `"-"` without a valid credential. */
  readonly org: string;
  /** An alias of the key whose rate the call counts for; a session counts for its key. */
  readonly bucket?: string;
  readonly facts: CallFacts;
  readonly meter?: "map_loads" | "design_analyses";
  /** Leave the stream after so many events, or milliseconds from the first byte. */
  readonly abort?: { readonly afterEvents: number } | { readonly afterMs: number };
  /** Pause after each read of the answer. */
  readonly slowReadMs?: number;
  /** How the client reacts to "try again" (item 217). */
  readonly retry?: { readonly times: number; readonly honours: boolean };
};

export type StepWish = {
  -readonly [name in "origin" | "path" | "via" | "abort" | "retry" | "slowReadMs"]?: Step[name];
} & {
  route: RouteName;
  credential: CredentialRef;
  product?: Product;
  /** Replaces the correct body. */
  body?: { text: string | undefined; is: Exclude<CallFacts["body"], "none"> };
};

const factsOf = (
  view: TargetView,
  { credential, route, product, body }: StepWish,
  origin: OriginRef,
  hasBody: boolean,
): { org: string; facts: CallFacts } => {
  const facts: CallFacts = { credential: credential.as, origin, body: body?.is ?? (hasBody ? "ok" : "none") };
  if (product !== undefined) facts.product = product;
  if (!("of" in credential)) return { org: "-", facts };
  facts.state = "valid";
  if (credential.as === "admin")
    return { org: view.roles[credential.of.slice("role:".length)]?.org ?? credential.of, facts };
  const { org, powers } = callerOf(view, credential.of, credential.as === "server" ? "server" : "publishable");
  const { state = "valid", tier, scopes, products, ip = "allowed" } = powers;
  Object.assign(facts, { state, tier, scopes, products });
  if (credential.as === "server") facts.ip = ip;
  if (credential.as === "session" && route !== "sdk.sessions") facts.product = credential.product;
  return { org: state === "valid" ? org : "-", facts };
};

const bucketOf = (credential: CredentialRef): string | undefined => {
  if (!("of" in credential) || credential.as === "admin") return undefined;
  return `${credential.of}/${credential.as === "server" ? "server" : "publishable"}`;
};

/** Completes a wish to a step; unstated parts are those of a correct call. `n` varies the content. */
export const stepOf = (view: TargetView, n: number, wish: StepWish): Step => {
  const route = routeOf(wish.route);
  const origin = wish.origin ?? "none";
  const isExchange = wish.route === "sdk.sessions";
  const asked: StepWish = isExchange && wish.body === undefined ? { product: "chat", ...wish } : wish;
  const correct = isExchange ? JSON.stringify({ product: wish.product ?? "chat" }) : bodyOf(wish.route, n);
  const body = wish.body === undefined ? correct : wish.body.text;
  const { org, facts } = factsOf(view, asked, origin, body !== undefined);
  const meter = route.meter ?? (isExchange && asked.product === "tile" ? "map_loads" : undefined);
  return {
    route: wish.route,
    method: route.method,
    path: wish.path ?? pathOf(wish.route, n),
    credential: wish.credential,
    via: wish.via ?? (n % 2 === 0 ? "authorization" : "x-api-key"),
    origin,
    org,
    facts,
    bucket: bucketOf(wish.credential),
    body,
    meter,
    abort: wish.abort,
    slowReadMs: wish.slowReadMs,
    retry: wish.retry,
  };
};

export const exchangeStep = (view: TargetView, n: number, of: CallerName, product: Product): Step =>
  stepOf(view, n, { route: "sdk.sessions", credential: { as: "publishable", of }, origin: "listed", product });

// Turns a step into a request: URL, headers, and the name of its credential. Our driver and k6 send the same
// requests.

export const GARBAGE_KEY = "this-is-no-key";
export const UNKNOWN_KEYS = {
  publishable: "svc_pk_live_nobodyhaseverissuedthis0",
  server: "svc_sk_live_nobodyhaseverissuedthis0",
};
const FOREIGN_ORIGIN = "https://foreign.example";

/** The key of a secret in a record: `server role:server`, `session tenant:org_a chat`. */
export const credentialName = (ref: CredentialRef): string =>
  "of" in ref ? `${ref.as} ${ref.of}${ref.as === "session" ? ` ${ref.product}` : ""}` : ref.as;

/** `undefined` for a real credential. */
export const nobodysCredential = ({ credential: { as }, route }: Step): string | null | undefined => {
  if (as === "none") return null;
  if (as === "garbage") return GARBAGE_KEY;
  return as === "unknown" ? UNKNOWN_KEYS[route === "sdk.sessions" ? "publishable" : "server"] : undefined;
};

/** Tiles and key management may be elsewhere. */
export type Places = { readonly base_url: string; readonly key_management_url?: string; readonly tile_url?: string };

const withoutSlash = (url: string): string => (url.endsWith("/") ? url.replace(/\/+$/, "") : url);

export const urlOf = ({ base_url, key_management_url = base_url, tile_url }: Places, { route, path }: Step): string => {
  const [, z, x, y] = (route === "maps.tiles" && /^\/maps\/tiles\/([^/?]+)\/([^/?]+)\/([^/?]+)$/.exec(path)) || [];
  if (tile_url !== undefined && z !== undefined && x !== undefined && y !== undefined) {
    return tile_url.replaceAll("{z}", z).replaceAll("{x}", x).replaceAll("{y}", y);
  }
  return withoutSlash(route.startsWith("keys.") ? key_management_url : base_url) + path;
};

type RequestParts = {
  readonly id: string;
  readonly credential: string | null;
  readonly listedOrigin: string | undefined;
  /** Headers of the target file, names in lower case. */
  readonly shared: Readonly<Record<string, string>>;
};

/** Headers by lower-case name; `null` if the step needs a listed origin and there is none. */
export const headersOf = (step: Step, parts: RequestParts): Record<string, string> | null => {
  const headers: Record<string, string> = {
    "user-agent": "floodgate",
    accept: "application/json",
    // Answers are not decoded; without this header a server may choose a coding.
    "accept-encoding": "identity",
  };
  for (const name in parts.shared) headers[name] = parts.shared[name] as string;
  if (isStreamed(step)) headers.accept = "text/event-stream";
  if (step.body !== undefined) headers["content-type"] = "application/json";
  headers["x-request-id"] = parts.id;
  if (parts.credential !== null) {
    if (step.via === "authorization") headers.authorization = `Bearer ${parts.credential}`;
    else headers["x-api-key"] = parts.credential;
  }
  if (step.origin === "foreign") headers.origin = FOREIGN_ORIGIN;
  else if (step.origin === "null") headers.origin = "null";
  else if (step.origin === "listed") {
    // Without a caller there is no allowlist, so any origin will do.
    const origin = "of" in step.credential ? parts.listedOrigin : FOREIGN_ORIGIN;
    if (origin === undefined) return null;
    headers.origin = origin;
  }
  if (step.headers === undefined) return headers;
  for (const [name, value] of Object.entries(step.headers)) headers[name.toLowerCase()] = value;
  return headers;
};

/** Tiles may be images, and paths outside the routes have no specified body. */
export const mayHaveAnyBody = ({ route, method }: Pick<Step, "route" | "method">): boolean =>
  route === "-" || route === "maps.tiles" || method === "OPTIONS" || method === "HEAD";

export const callId = (prefix: string, i: number, step: number, attempt: number): string =>
  `${prefix}-${i}${step === 0 ? "" : `_${step}`}${attempt === 0 ? "" : `r${attempt}`}`;
