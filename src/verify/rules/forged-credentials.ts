/** Credentials that were never issued, and valid ones with one change. They are masked like secrets. */
import { GARBAGE_KEY, UNKNOWN_KEYS } from "../../workload/request.ts";

export const segment = (text: string): string => Buffer.from(text).toString("base64url");
const jsonSegment = (value: unknown): string => segment(JSON.stringify(value));

export const HEAD = jsonSegment({ alg: "HS256", typ: "JWT" });
export const CLAIMS = jsonSegment({ sub: "nobody", exp: 4_102_444_800 });
export const SIGNATURE = segment("signature-of-nobody");

export type UnknownCredential = {
  what: string;
  kind: "garbage" | "publishable" | "server" | "session";
  secret: { value: string; variable: string };
};

const unknown = (
  kind: UnknownCredential["kind"],
  what: string,
  value: string,
  variable: string,
): UnknownCredential => ({
  ...{ what, kind },
  secret: { value, variable },
});

export const UNKNOWN_CREDENTIALS: readonly UnknownCredential[] = [
  unknown("garbage", "a text that is no key", GARBAGE_KEY, "$GARBAGE"),
  unknown("server", "a server key that nobody issued", UNKNOWN_KEYS.server, "$UNKNOWN_SERVER"),
  unknown("publishable", "a publishable key that nobody issued", UNKNOWN_KEYS.publishable, "$UNKNOWN_PUBLISHABLE"),
  unknown(
    "session",
    "a session token that nobody issued",
    `svc_sess_live_${HEAD}.${CLAIMS}.${SIGNATURE}`,
    "$UNKNOWN_SESSION",
  ),
];

/** `once`: one of several for the same weakness, tried on one route only. */
type Forgery = { what: string; value: string; once: boolean };

const changedAt = (text: string, at: number): string =>
  `${text.slice(0, at)}${text[at] === "A" ? "B" : "A"}${text.slice(at + 1)}`;

/** The last base64url character may hold only padding bits, so changes are made before it. */
const BEFORE_END = 10;

/** Variants of a valid token, each with one change. Empty if it is not a JWT. */
export const forgeries = (token: string): Forgery[] => {
  const prefix = /^svc_sess_[^_]*_/.exec(token)?.[0];
  const [head, payload, signature] = prefix === undefined ? [] : token.slice(prefix.length).split(".");
  if (head === undefined || payload === undefined || signature === undefined || signature.length < 8) return [];
  const signed = (what: string, other: string): Forgery => ({
    ...{ what: `a session token ${what}`, once: true },
    value: `${prefix}${head}.${payload}.${other}`,
  });
  const middle = Math.floor(signature.length / 2);
  const unsigned = `${prefix}${jsonSegment({ alg: "none", typ: "JWT" })}.${payload}.`;
  const made: Forgery[] = [
    signed("with another signature", changedAt(signature, 0)),
    signed("whose signature differs in the middle", changedAt(signature, middle)),
    signed(
      "whose signature differs near its end",
      changedAt(signature, Math.max(middle + 1, signature.length - BEFORE_END)),
    ),
    signed("with half a signature", signature.slice(0, middle)),
    { what: "a session token without a signature (alg none)", value: unsigned, once: false },
  ];
  try {
    const claims = JSON.parse(Buffer.from(payload, "base64url").toString("utf8")) as Record<string, unknown>;
    const later = `${prefix}${head}.${jsonSegment({ ...claims, exp: 4_102_444_800 })}.${signature}`;
    made.push({ what: "a session token whose end was moved", value: later, once: false });
  } catch {
    // Claims that cannot be decoded cannot be changed.
  }
  return made;
};
