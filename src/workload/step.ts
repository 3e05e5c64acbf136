/** One call of a story: what to send, as whom, from where, and the caller's facts. The driver adds the secrets. */
import type { CallFacts } from "../contract/call-facts.ts";
import { type Product, type RouteName, routeOf } from "../contract/routes.ts";
import { bodyOf, pathOf } from "./bodies.ts";
import { type CallerName, callerOf, type TargetView } from "./callers/target-view.ts";

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
