/** The shapes of credentials, by prefix (sections 2.1, 2.3; items 20-26, 40-41, 51, 58), and their masking. */

export type CredentialKind = "publishable" | "server" | "session" | "unknown";

/** Keys longer than this, or with other than visible ASCII, are refused without a look-up (item 58). */
const CREDENTIAL_MAX_CHARS = 4096;
const KEY_MIN_CHARS = 8;
const KEY_MAX_CHARS = 256;

export const credentialKind = (credential: string): CredentialKind => {
  if (!/^[\x21-\x7e]+$/.test(credential)) return "unknown";
  if (credential.startsWith("svc_sess_")) return credential.length <= CREDENTIAL_MAX_CHARS ? "session" : "unknown";
  if (credential.length < KEY_MIN_CHARS || credential.length > KEY_MAX_CHARS) return "unknown";
  if (credential.startsWith("svc_pk_")) return "publishable";
  if (credential.startsWith("svc_sk_")) return "server";
  return "unknown";
};

/** Splits `svc_sess_{env}_{jwt}` at the first `_` after the prefix (item 26); `null` for other texts. */
export const splitSessionToken = (token: string): { env: string; jwt: string } | null => {
  const match = /^svc_sess_([a-z]+)_([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)$/.exec(token);
  return match === null ? null : { env: match[1] as string, jwt: match[2] as string };
};

const JWT = "eyJ[A-Za-z0-9_-]{5,}\\.[A-Za-z0-9_-]{3,}\\.[A-Za-z0-9_-]{3,}";
// All characters that tokens may have on some deployment, base64 and percent-encoding included, so that no tail remains
// unmasked. Three dots after the prefix mark a text that is masked already. The same in native/sse/foreign.go.
const SECRET = new RegExp(`svc_(?:pk|sk|sess)_(?!(?:[a-z]+_)?\\.\\.\\.)[A-Za-z0-9_.~+/=%-]{6,}|${JWT}`, "g");

/** The prefix and the last four characters, which identify a credential to its owner. */
export const maskCredential = (secret: string): string => {
  const prefix = /^svc_(?:pk|sk|sess)_(?:(?:live|test)_)?/.exec(secret)?.[0] ?? secret.slice(0, 3);
  return `${prefix}...${secret.slice(-4)}`;
};

/** Replaces every credential in a text by its mask; a masked text stays as it is. */
export const maskSecrets = (text: string): string => text.replace(SECRET, (found) => maskCredential(found));

export const findSecrets = (text: string) => [...text.matchAll(SECRET)].map(([found]) => maskCredential(found));
