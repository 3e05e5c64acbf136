/**
 * Masks secrets in all text that is captured from a child, written to a run folder or printed. Credentials are
 * recognized by their shape (contract/credentials.ts), other secrets are registered when they are read. Each part that
 * is secret by itself is masked too (of `Bearer x` also `x`), in every form that a text may contain.
 */
import { maskCredential, maskSecrets } from "../contract/credentials.ts";
import { clean } from "../contract/foreign-text.ts";
import { parseJson } from "../contract/refusals.ts";
import { cutLines } from "./lines.ts";

const MASK = "[masked]";

/** Words in names of secret values, as alternatives of a regular expression. */
export const SECRET_WORDS = "token|secret|key|pass|auth|cred|cookie|session|jwt";
const SECRET_NAME = new RegExp(`${SECRET_WORDS}|sid$|sig$`, "i");
/** Names of values that describe a secret without being one, such as `token_type` and `session_ttl`. */
const ABOUT_ONE = /(?:type|kind|ttl|expiry|expires_in|scope|name|url)$/i;
const SCHEME = /^[A-Za-z][A-Za-z0-9-]{2,19}[ \t]+(\S.*)$/s;
const BASIC = /^basic[ \t]+([A-Za-z0-9+/=_-]+)$/i;
/** `name=value`, also in quotes, between blanks, `,`, `;` and `&`: in cookies, parameters of `Digest`, OTLP headers. */
const PAIRS = /(?:^|[;,&\s])\s*([\w.$-]{1,64})=("?)([^\s;,&"=][^\s;,&"]*)\2/g;
const JSON_START = /^\s*[[{]/;
const JSON_DEPTH = 6;
const PARTS_MOST = 200;

/** Reports an ordinary word or number, which is not masked because it occurs in every text. */
const isPlainWord = (text: string): boolean => /^[a-z]{1,12}$/i.test(text) || /^\d{1,9}$/.test(text);

const isSecretOf = (name: string, value: string): boolean =>
  (SECRET_NAME.test(name) && !ABOUT_ONE.test(name)) || !isPlainWord(value);

/** Decodes a percent-encoded text; returns it unchanged if it is malformed. */
export const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

/** User, password, `user:password` as `Basic` encodes it, and secret values of query and fragment. */
const partsOfUrl = (text: string): string[] => {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text) || !URL.canParse(text)) return [];
  const { username, password, searchParams, hash } = new URL(text);
  const [user, pass] = [decoded(username), decoded(password)];
  const values = [...searchParams, ...new URLSearchParams(hash.slice(1))];
  const both = pass === "" ? [] : [`${user}:${pass}`];
  const ofQuery = values.filter(([name, value]) => isSecretOf(name, value)).map(([, value]) => value);
  return [user, pass, username, password, ...both, ...ofQuery];
};

const ofJson = (value: unknown, name: string, depth: number): string[] => {
  if (typeof value === "string")
    return isSecretOf(name, value) ? [value, ...partsOfUrl(value), ...ofScheme(value)] : [];
  if (typeof value !== "object" || value === null || depth >= JSON_DEPTH) return [];
  return Object.entries(value).flatMap(([inner, one]) => ofJson(one, Array.isArray(value) ? name : inner, depth + 1));
};

const ofScheme = (text: string): string[] => {
  const rest = SCHEME.exec(text)?.[1] ?? "";
  const pair = Buffer.from(BASIC.exec(text)?.[1] ?? "", "base64").toString("utf8");
  const at = pair.indexOf(":");
  return at < 0 ? [rest] : [rest, pair, pair.slice(0, at), pair.slice(at + 1)];
};

const ofLines = (text: string): string[] => {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  return lines.length > 1 ? lines.filter((line) => line.length >= 16 && !line.startsWith("-----")) : [];
};

const ofPairs = (text: string): string[] =>
  [...text.matchAll(PAIRS)]
    .filter(([, name = "", , value = ""]) => isSecretOf(name, value))
    .map((found) => found[3] ?? "");

/** The secret and its parts that are secret by themselves, each once. */
const partsOf = (secret: string): string[] => {
  const inside = JSON_START.test(secret) ? ofJson(parseJson(secret), "", 0) : [...ofScheme(secret), ...ofPairs(secret)];
  const parts = [secret, secret.trim(), ...ofLines(secret), ...partsOfUrl(secret), ...inside];
  return [...new Set(parts)].filter((part) => part.trim() !== "").slice(0, PARTS_MOST);
};

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const html = (text: string, apostrophe: string): string => text.replace(/[&<>"']/g, (c) => ENTITIES[c] ?? apostrophe);
const hexOf = (unit: number, digits: number): string => unit.toString(16).padStart(digits, "0");

/** The secret in base64 after 0, 1 or 2 bytes of another text, without characters that depend on that text. */
const base64Of = (bytes: Buffer): string[] =>
  [0, 1, 2].flatMap((before) => {
    const whole = Buffer.concat([Buffer.alloc(before), bytes]);
    const from = Math.ceil((before * 8) / 6);
    const to = Math.floor((whole.length * 8) / 6);
    return [whole.toString("base64").slice(from, to), whole.toString("base64url").slice(from, to)];
  });

const quotedForms = (text: string): string[] => [
  text,
  JSON.stringify(text).slice(1, -1),
  encodeURIComponent(text),
  encodeURI(text),
  encodeURIComponent(text).replaceAll("%20", "+"),
  ...["&#39;", "&#x27;", "&apos;", "'"].map((apostrophe) => html(text, apostrophe)),
  text.replaceAll("'", `'\\''`),
  text.replaceAll("'", `'"'"'`),
  text.replace(/["\\`$]/g, "\\$&"),
];

const CODED_MOST = 1024;

/** The text as somebody could encode it to evade a search. */
const codedForms = (text: string): string[] => {
  if (text.length > CODED_MOST) return [];
  const bytes = Buffer.from(text);
  const octets = [...bytes];
  const hex = octets.map((byte) => hexOf(byte, 2));
  const units = Array.from({ length: text.length }, (_, at) => text.charCodeAt(at));
  return [
    ...base64Of(bytes),
    ...["%", "\\x"].map((mark) => hex.map((byte) => mark + byte).join("")),
    ...[
      (unit: number) => `\\u${hexOf(unit, 4)}`,
      (unit: number) => `&#${unit};`,
      (unit: number) => `&#x${hexOf(unit, 1)};`,
    ].map((code) => units.map(code).join("")),
    [...text].reverse().join(""),
    [...text].join(" "),
    // Separators too, because contract/foreign-text.ts shows ids, which may contain `-` and `_`.
    ...["", " ", ":", "-", "_"].map((between) => hex.join(between)),
    ...[".", "-"].map((between) => octets.join(between)),
  ];
};

const formsOf = (part: string): string[] => {
  try {
    return [...new Set([...quotedForms(part), ...codedForms(part)])];
  } catch {
    // `encodeURIComponent` throws for half a surrogate pair.
    return [part];
  }
};

export const FORM_MIN_CHARS = 6;

const BLOCK = 3;
const FARTHEST = FORM_MIN_CHARS - BLOCK + 1;
const BITS = 6;
const LOW_BITS = (1 << BITS) - 1;

const small = (text: string): string => {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
};

const blockAt = (text: string, at: number): number =>
  ((text.charCodeAt(at) & LOW_BITS) << (2 * BITS)) |
  ((text.charCodeAt(at + 1) & LOW_BITS) << BITS) |
  (text.charCodeAt(at + 2) & LOW_BITS);

/**
 * Searches a text for all forms at once, ignoring case, because every line of a history is searched. The cost does not
 * grow with the number of forms (Wu and Manber, "A fast algorithm for multi-pattern searching", 1994).
 */
const formSearch = () => {
  const formsBy = new Map<string, string[]>();
  const moves = new Uint8Array(1 << (BLOCK * BITS)).fill(FARTHEST);
  const masks = new Map<string, string>();
  return {
    add: (form: string, mask: string): void => {
      const known = small(form);
      if (form.length < FORM_MIN_CHARS || masks.has(known)) return;
      masks.set(known, mask);
      const begin = known.slice(0, FORM_MIN_CHARS);
      const forms = [...(formsBy.get(begin) ?? []), known].sort((a, b) => b.length - a.length);
      formsBy.set(begin, forms);
      for (let at = 0; at < FARTHEST; at++) {
        const block = blockAt(begin, at);
        moves[block] = Math.min(moves[block] as number, FARTHEST - 1 - at);
      }
    },
    /** The places of forms, in order. Overlapping places are merged and get the mask of the first form. */
    in: (text: string) => {
      const found: { from: number; to: number; mask: string }[] = [];
      if (formsBy.size === 0 || text.length < FORM_MIN_CHARS) return found;
      const searched = small(text);
      for (let at = 0; at <= searched.length - FORM_MIN_CHARS; ) {
        const move = moves[blockAt(searched, at + FORM_MIN_CHARS - BLOCK)] as number;
        const forms = move > 0 ? undefined : formsBy.get(searched.slice(at, at + FORM_MIN_CHARS));
        const form = forms?.find((one) => searched.startsWith(one, at));
        if (form !== undefined) {
          const before = found.at(-1);
          if (before !== undefined && at < before.to) before.to = Math.max(before.to, at + form.length);
          else found.push({ from: at, to: at + form.length, mask: masks.get(form) ?? MASK });
        }
        at += Math.max(move, 1);
      }
      return found;
    },
  };
};

/** A longer line of a child is cut, so that a line without an end cannot fill the memory. */
const LINE_MAX_CHARS = 256 * 1024;

/** Values below `FORM_MIN_CHARS` occur in ordinary text too often to be masked everywhere. */
const isShort = (part: string): boolean => part.trim().length < FORM_MIN_CHARS;

export class Redactor {
  readonly #search = formSearch();
  readonly #registered = new Set<string>();
  readonly #unmaskable = new Set<string>();
  #onUnmaskable: (what: string) => void = () => undefined;

  /** Returns false if a part is too short to be masked; the listener then gets `what`, the field of the secret. */
  register(secret: string, what?: string): boolean {
    return this.#takeAll(partsOf(secret), what);
  }

  /** Registers user, password and secret query values of an address that reports may show. */
  registerUrl(url: string, what?: string): boolean {
    const parts = partsOfUrl(url).filter((part) => part !== "");
    return parts.length === 0 || this.#takeAll(parts, what);
  }

  #takeAll(parts: readonly string[], what?: string): boolean {
    for (const part of parts) {
      if (isShort(part) || this.#registered.has(part)) continue;
      this.#registered.add(part);
      const isOfKnownShape = /^(?:svc_(?:pk|sk|sess)_|eyJ)/.test(part);
      for (const form of formsOf(part)) {
        this.#search.add(form, isOfKnownShape && form === part ? maskCredential(part) : MASK);
      }
    }
    const isWhole = parts.length > 0 && !parts.some(isShort);
    if (!isWhole && what !== undefined && !this.#unmaskable.has(what)) {
      this.#unmaskable.add(what);
      this.#onUnmaskable(what);
    }
    return isWhole;
  }

  /** Sets the listener, which gets the field of each value that is too short to be masked, earlier ones too. */
  listenForUnmaskable(onUnmaskable: (what: string) => void): void {
    this.#onUnmaskable = onUnmaskable;
    for (const what of this.#unmaskable) onUnmaskable(what);
  }

  redact(text: string): string {
    let known = "";
    let from = 0;
    for (const found of this.#search.in(text)) {
      known += text.slice(from, found.from) + found.mask;
      from = found.to;
    }
    return maskSecrets(from === 0 ? text : known + text.slice(from));
  }

  redactValue(value: unknown): unknown {
    if (typeof value === "string") return this.redact(value);
    if (Array.isArray(value)) return value.map((one) => this.redactValue(one));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [this.redact(name), this.redactValue(one)]));
  }

  /** Cuts a stream into masked lines. A line over the limit is cut at a blank, so that no part of a secret passes. */
  lines(onLine: (line: string) => void, maxChars: number = LINE_MAX_CHARS) {
    const give = (line: string): void => onLine(clean(this.redact(line.endsWith("\r") ? line.slice(0, -1) : line)));
    const shorten = (line: string): string => {
      const blank = line.lastIndexOf(" ", maxChars);
      return `${blank > 0 ? line.slice(0, blank) : ""} [line over ${maxChars} characters, cut]`.trimStart();
    };
    return cutLines(give, maxChars, shorten);
  }
}

export const redactor: Redactor = new Redactor();
