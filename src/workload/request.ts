/**
 * Turns a step into a request: URL, headers, and the name of its credential. Our driver and k6 send the same requests.
 */
import { isStreamed } from "../contract/routes.ts";
import type { CredentialRef, Step } from "./step.ts";

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
