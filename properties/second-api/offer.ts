/**
 * What the second deployment offers: scopes, products, routes and caps, copied from the specification and not imported, so
 * that an error in `contract` shows.
 */
import type { Names } from "./names.ts";

export const ORIGIN = "https://shop.example";
export const OTHER_ORIGIN = "https://elsewhere.example";
export const SCOPES = ["ai", "design", "maps"];
export const KNOWN_SCOPES = [...SCOPES, "vendor"];
/** Product -> the scope that it needs. */
export const SCOPE_OF: Record<string, string | null> = { chat: "ai", editor: "design", viewer: null, tile: "maps" };
export const FREE_PRODUCTS = ["tile"];
export const FREE_SCOPES = ["maps"];

/** Runtime route -> the scope that it needs. */
export const NEEDS: Record<string, string> = {
  "POST /chat/control/stream": "ai",
  "POST /chat/summary/stream": "ai",
  "POST /chat/button/stream": "ai",
  "POST /chat/control/route": "ai",
  "GET /retrieval/poi/enrich": "ai",
  "POST /design/analyze": "design",
  "POST /design/apply-direct": "design",
  "GET /design/styles": "design",
  "GET /design/samples": "design",
  "GET /design/themes": "design",
};

/** Caps on calls in flight: of one organization, and of all. */
export const capsOf = ({ is }: Names): { own: number; all: number } => {
  if (is("has-small-caps")) return { own: 4, all: 10 };
  if (is("has-large-caps")) return { own: 16, all: 64 };
  return is("has-middling-caps") ? { own: 6, all: 12 } : { own: 12, all: 40 };
};

export const rateOf = ({ is }: Names) => (is("strict-rate") ? { perS: 8, burst: 4 } : { perS: 60, burst: 90 });
