/**
 * What of a secret is a secret by itself, and how it may stand in a text. `Bearer x` is one, and so is `x`; a server that sends
 * `x` back, a log that quotes a URL or a shell that shows a command each write it in their own way.
 */

const SECRET_NAME = /token|secret|key|pass|auth|cred|cookie|session|jwt|sid$|sig$/i;
/** `token_type`, `session_ttl`: says something about a secret. */
const ABOUT_ONE = /(?:type|kind|ttl|expiry|expires_in|scope|name|url)$/i;
const SCHEME = /^[A-Za-z][A-Za-z0-9-]{2,19}[ \t]+(\S.*)$/s;
const BASIC = /^basic[ \t]+([A-Za-z0-9+/=_-]+)$/i;
/** `name=value`, also in quotes, between blanks, `,`, `;` and `&`: cookies, parameters of `Digest`, headers of OTLP. */
const PAIRS = /(?:^|[;,&\s])\s*([\w.$-]{1,64})=("?)([^\s;,&"=][^\s;,&"]*)\2/g;
const JSON_DEPTH = 6;
const PARTS_MOST = 200;

/** A word of a language would be masked wherever anybody uses it. */
const isPlainWord = (text: string): boolean => /^[a-z]{1,12}$/i.test(text) || /^\d{1,9}$/.test(text);

const isSecretOf = (name: string, value: string): boolean =>
  (SECRET_NAME.test(name) && !ABOUT_ONE.test(name)) || !isPlainWord(value);

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

/** User, password, both as `Basic` sends them, and the values of the query. */
export const partsOfUrl = (text: string): string[] => {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text) || !URL.canParse(text)) return [];
  const { username, password, searchParams, hash } = new URL(text);
  const [user, pass] = [decoded(username), decoded(password)];
  const values = [...searchParams, ...new URLSearchParams(hash.slice(1))];
  return [
    user,
    pass,
    username,
    password,
    ...(pass === "" ? [] : [`${user}:${pass}`]),
    ...values.filter(([name, value]) => isSecretOf(name, value)).map(([, value]) => value),
  ];
};

const ofJson = (value: unknown, name: string, depth: number): string[] => {
  if (typeof value === "string")
    return isSecretOf(name, value) ? [value, ...partsOfUrl(value), ...ofScheme(value)] : [];
  if (typeof value !== "object" || value === null || depth >= JSON_DEPTH) return [];
  return Object.entries(value).flatMap(([inner, one]) => ofJson(one, Array.isArray(value) ? name : inner, depth + 1));
};

const ofJsonText = (text: string): string[] => {
  if (!/^\s*[[{]/.test(text)) return [];
  try {
    return ofJson(JSON.parse(text), "", 0);
  } catch {
    return [];
  }
};

const ofScheme = (text: string): string[] => {
  const rest = SCHEME.exec(text)?.[1];
  const coded = BASIC.exec(text)?.[1];
  const pair = coded === undefined ? "" : Buffer.from(coded, "base64").toString("utf8");
  const at = pair.indexOf(":");
  return [...(rest === undefined ? [] : [rest]), ...(at < 0 ? [] : [pair, pair.slice(0, at), pair.slice(at + 1)])];
};

const ofLines = (text: string): string[] => {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  return lines.length > 1 ? lines.filter((line) => line.length >= 16 && !line.startsWith("-----")) : [];
};

const ofPairs = (text: string): string[] =>
  [...text.matchAll(PAIRS)]
    .filter(([, name = "", , value = ""]) => isSecretOf(name, value))
    .map((found) => found[3] ?? "");

/** The secret and its parts, each once; of a text without parts itself alone. */
export const partsOf = (secret: string): string[] => {
  const isJson = /^\s*[[{]/.test(secret);
  const parts = [
    secret,
    secret.trim(),
    ...ofLines(secret),
    ...partsOfUrl(secret),
    ...(isJson ? ofJsonText(secret) : [...ofScheme(secret), ...ofPairs(secret)]),
  ];
  return [...new Set(parts)].filter((part) => part.trim() !== "").slice(0, PARTS_MOST);
};

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const html = (text: string, apostrophe: string): string =>
  text.replace(/[&<>"']/g, (c) => (c === "'" ? apostrophe : (ENTITIES[c] as string)));

const each = (text: string, code: (unit: number) => string): string =>
  Array.from({ length: text.length }, (_, at) => code(text.charCodeAt(at))).join("");
const hexOf = (unit: number, digits: number): string => unit.toString(16).padStart(digits, "0");

/** In base64 behind 0, 1 or 2 bytes of another text: the characters that the secret alone decides. */
const base64Of = (bytes: Buffer): string[] =>
  [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]);
    const from = Math.ceil((before * 8) / 6);
    const to = Math.floor((whole.length * 8) / 6);
    return [whole.toString("base64").slice(from, to), whole.toString("base64url").slice(from, to)];
  });

const CODED_MOST = 1024;

/** As a program writes it in its own notation: JSON, a URL, a page, a shell. */
const quotedForms = (text: string): string[] => [
  text,
  JSON.stringify(text).slice(1, -1),
  encodeURIComponent(text),
  encodeURI(text),
  encodeURIComponent(text).replaceAll("%20", "+"),
  html(text, "&#39;"),
  html(text, "&#x27;"),
  html(text, "&apos;"),
  html(text, "'"),
  text.replaceAll("'", `'\\''`),
  text.replaceAll("'", `'"'"'`),
  text.replace(/["\\`$]/g, "\\$&"),
];

/** As somebody writes it who wants it to pass a search. */
const codedForms = (text: string): string[] => {
  if (text.length > CODED_MOST) return [];
  const bytes = Buffer.from(text);
  const octets = [...bytes];
  return [
    ...base64Of(bytes),
    bytes.toString("hex"),
    octets.map((byte) => `%${hexOf(byte, 2)}`).join(""),
    octets.map((byte) => `\\x${hexOf(byte, 2)}`).join(""),
    each(text, (unit) => `\\u${hexOf(unit, 4)}`),
    each(text, (unit) => `&#${unit};`),
    each(text, (unit) => `&#x${hexOf(unit, 1)};`),
    [...text].reverse().join(""),
    [...text].join(" "),
    octets.map((byte) => hexOf(byte, 2)).join(" "),
    octets.map((byte) => hexOf(byte, 2)).join(":"),
    // An id may hold these, and the boundary for foreign text shows ids.
    octets.map((byte) => hexOf(byte, 2)).join("-"),
    octets.map((byte) => hexOf(byte, 2)).join("_"),
    octets.join("."),
    octets.join("-"),
  ];
};

/** Every way in which a part may stand in a text; in small letters, for a search that does not tell the case. */
export const formsOf = (part: string): string[] => {
  let forms: string[];
  try {
    forms = [...quotedForms(part), ...codedForms(part)];
  } catch {
    // Half a surrogate pair has no URL.
    forms = [part];
  }
  return [...new Set(forms)];
};
