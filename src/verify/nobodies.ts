/** Credentials that nobody issued, each well-formed in its own way. No secrets, but masked as if they were. */
import { GARBAGE_KEY, UNKNOWN_KEYS } from "../workload/request.ts";

const segment = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

const SESSION = [
  segment({ alg: "HS256", typ: "JWT" }),
  segment({ sub: "nobody", exp: 4_102_444_800 }),
  "c2lnbmF0dXJlLW9mLW5vYm9keQ",
].join(".");

export type Nobody = {
  what: string;
  kind: "garbage" | "publishable" | "server" | "session";
  secret: { value: string; variable: string };
};

export const NOBODIES: readonly Nobody[] = [
  { what: "a text that is no key", kind: "garbage", secret: { value: GARBAGE_KEY, variable: "$GARBAGE" } },
  {
    what: "a server key that nobody issued",
    kind: "server",
    secret: { value: UNKNOWN_KEYS.server, variable: "$UNKNOWN_SERVER" },
  },
  {
    what: "a publishable key that nobody issued",
    kind: "publishable",
    secret: { value: UNKNOWN_KEYS.publishable, variable: "$UNKNOWN_PUBLISHABLE" },
  },
  {
    what: "a session token that nobody issued",
    kind: "session",
    secret: { value: `svc_sess_live_${SESSION}`, variable: "$UNKNOWN_SESSION" },
  },
];

type Forgery = {
  what: string;
  value: string;
  /** One of several for the same weakness: one route is enough for each. */
  once?: true;
};

/** Another character at a place of a text. */
const changedAt = (text: string, at: number): string =>
  `${text.slice(0, at)}${text[at] === "A" ? "B" : "A"}${text.slice(at + 1)}`;

/** The very last character of base64url may hold padding bits alone, so what is changed at the end stands before it. */
const BEFORE_END = 10;

/** A good token with one thing changed: what a forger would try. Empty for a token of another shape. */
export const forgeries = (token: string): Forgery[] => {
  const prefix = /^svc_sess_[^_]*_/.exec(token)?.[0];
  const [head, payload, signature] = prefix === undefined ? [] : token.slice(prefix.length).split(".");
  if (head === undefined || payload === undefined || signature === undefined || signature.length < 8) return [];
  const signed = (other: string): string => `${prefix}${head}.${payload}.${other}`;
  const middle = Math.floor(signature.length / 2);
  const made: Forgery[] = [
    { what: "a session token with another signature", value: signed(changedAt(signature, 0)), once: true },
    {
      what: "a session token whose signature differs in the middle",
      value: signed(changedAt(signature, middle)),
      once: true,
    },
    {
      what: "a session token whose signature differs near its end",
      value: signed(changedAt(signature, Math.max(middle + 1, signature.length - BEFORE_END))),
      once: true,
    },
    { what: "a session token with half a signature", value: signed(signature.slice(0, middle)), once: true },
    {
      what: "a session token without a signature (alg none)",
      value: `${prefix}${segment({ alg: "none", typ: "JWT" })}.${payload}.`,
    },
  ];
  try {
    const claims = JSON.parse(Buffer.from(payload, "base64url").toString("utf8")) as Record<string, unknown>;
    const later = segment({ ...claims, exp: 4_102_444_800 });
    made.push({ what: "a session token whose end was moved", value: `${prefix}${head}.${later}.${signature}` });
  } catch {
    // Its claims are not to be read from outside; the others remain.
  }
  return made;
};
