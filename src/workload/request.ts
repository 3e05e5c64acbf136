/**
 * From a step to what goes over the wire: its URL, its headers, the name under which its credential is kept. Two drivers
 * send requests, ours and k6, and both have to send the same ones.
 */
import { routeOf } from "../contract/routes.ts";
import type { CredentialRef, Step } from "./step.ts";

/** No key at all by its shape. */
export const GARBAGE_KEY = "this-is-no-key";
/** Well-formed keys that nobody issued. */
export const UNKNOWN_KEYS = {
  publishable: "svc_pk_live_nobodyhaseverissuedthis0",
  server: "svc_sk_live_nobodyhaseverissuedthis0",
};
/** An origin that stands in nobody's allowlist. */
const FOREIGN_ORIGIN = "https://foreign.example";

/** One text for one secret, so that a book of them can be a record: `server role:server`, `session tenant:org_a chat`. */
export const credentialName = (ref: CredentialRef): string =>
  "of" in ref ? `${ref.as} ${ref.of}${ref.as === "session" ? ` ${ref.product}` : ""}` : ref.as;

/** What is sent for a credential that is nobody's; `undefined` for one that somebody has. */
export const nobodysCredential = (step: Step): string | null | undefined => {
  switch (step.credential.as) {
    case "none":
      return null;
    case "garbage":
      return GARBAGE_KEY;
    case "unknown":
      return step.route === "sdk.sessions" ? UNKNOWN_KEYS.publishable : UNKNOWN_KEYS.server;
    default:
      return undefined;
  }
};

/** Where a deployment is: tiles and key management may live elsewhere than the rest. */
export type Places = { readonly base_url: string; readonly key_management_url?: string; readonly tile_url?: string };

const withoutSlash = (url: string): string => (url.endsWith("/") ? url.replace(/\/+$/, "") : url);

const tileUrl = (template: string, path: string): string | null => {
  const [, z, x, y] = /^\/maps\/tiles\/([^/?]+)\/([^/?]+)\/([^/?]+)$/.exec(path) ?? [];
  if (z === undefined || x === undefined || y === undefined) return null;
  return template.replaceAll("{z}", z).replaceAll("{x}", x).replaceAll("{y}", y);
};

export const urlOf = (places: Places, step: Step): string => {
  if (step.route === "maps.tiles" && places.tile_url !== undefined) {
    const tile = tileUrl(places.tile_url, step.path);
    if (tile !== null) return tile;
  }
  const manages = step.route.startsWith("keys.") && places.key_management_url !== undefined;
  return withoutSlash(manages ? (places.key_management_url as string) : places.base_url) + step.path;
};

type RequestParts = {
  readonly id: string;
  /** `null`: none is sent. */
  readonly credential: string | null;
  /** The origin in the allowlist of the caller's key, where there is one. */
  readonly listedOrigin: string | undefined;
  /** Headers of the target file, names in lower case. */
  readonly shared: Readonly<Record<string, string>>;
};

/** Headers by name in lower case; `null` when the step wants a listed origin and there is none. */
export const headersOf = (step: Step, parts: RequestParts): Record<string, string> | null => {
  const headers: Record<string, string> = {
    "user-agent": "floodgate",
    accept: "application/json",
    // Answers are read as they come; whoever names no coding has to take any.
    "accept-encoding": "identity",
  };
  for (const name in parts.shared) headers[name] = parts.shared[name] as string;
  if (step.route !== "-" && routeOf(step.route).stream !== undefined) headers.accept = "text/event-stream";
  if (step.body !== undefined) headers["content-type"] = "application/json";
  headers["x-request-id"] = parts.id;
  if (parts.credential !== null) {
    if (step.via === "authorization") headers.authorization = `Bearer ${parts.credential}`;
    else headers["x-api-key"] = parts.credential;
  }
  if (step.origin === "foreign") headers.origin = FOREIGN_ORIGIN;
  else if (step.origin === "null") headers.origin = "null";
  else if (step.origin === "listed") {
    // Without a caller there is no allowlist; any origin of a browser will do.
    const origin = "of" in step.credential ? parts.listedOrigin : FOREIGN_ORIGIN;
    if (origin === undefined) return null;
    headers.origin = origin;
  }
  if (step.headers === undefined) return headers;
  for (const [name, value] of Object.entries(step.headers)) headers[name.toLowerCase()] = value;
  return headers;
};

/** Tiles are pictures on many deployments; what stands at a path that is no route is nobody's promise. */
export const mayHaveAnyBody = ({ route, method }: Pick<Step, "route" | "method">): boolean =>
  route === "-" || route === "maps.tiles" || method === "OPTIONS" || method === "HEAD";

/** `<prefix>-<call>`, with the step and the attempt where there is more than one. */
export const callId = (prefix: string, i: number, step: number, attempt: number): string =>
  `${prefix}-${i}${step === 0 ? "" : `_${step}`}${attempt === 0 ? "" : `r${attempt}`}`;
