/** What the caller knew about its own call, from which judges derive the legal answers. An absent fact is unknown. */
import type { Product, Scope } from "./routes.ts";

export type CallFacts = {
  credential: "none" | "garbage" | "unknown" | "publishable" | "server" | "session" | "admin";
  state?: "valid" | "revoked" | "expired";
  origin: "none" | "listed" | "foreign" | "null";
  ip?: "allowed" | "foreign";
  tier?: "Free" | "Pro" | null;
  scopes?: readonly Scope[];
  /** The product restrictions of the key; an empty list restricts nothing but `viewer` (item 57, A7). */
  products?: readonly Product[];
  /** The product asked for (exchange) or minted for (session token). */
  product?: Product;
  /** `unknown`: the specification does not decide whether it is malformed; the reference platform refuses it. */
  body: "ok" | "malformed" | "unknown" | "none";
};
