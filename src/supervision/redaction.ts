/**
 * The choke point of redaction: whatever is captured from a child, written to a run folder or printed goes through
 * here once. Credentials are known by their shape (contract/credentials.ts); what has no shape (a session secret, a
 * password of the target file) is masked because it was registered when it was read.
 */
import { StringDecoder } from "node:string_decoder";
import { maskCredential, maskSecrets } from "../contract/credentials.ts";
import { clean } from "../contract/foreign-text.ts";

/** Shorter values occur in ordinary text too often to be masked everywhere. */
export const SECRET_MIN_CHARS = 6;
/** A longer line of a child is cut, so that one without an end cannot fill the memory. */
const LINE_MAX_CHARS = 256 * 1024;

const MASK = "[masked]";
const escapeForRegExp = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

/** The ways in which a value may stand in a text: as it is, in JSON, in a URL, or (a PEM key) line by line. */
const formsOf = (secret: string): string[] => {
  const lines = secret.split(/\r?\n/).map((line) => line.trim());
  const parts = lines.length > 1 ? lines.filter((line) => line.length >= 16 && !line.startsWith("-----")) : [];
  return [secret, ...parts].flatMap((one) => [one, JSON.stringify(one).slice(1, -1), encodeURIComponent(one)]);
};

export class Redactor {
  readonly #known = new Map<string, string>();
  #pattern: RegExp | null = null;

  /** Masks this value from now on. False when it is too short to be masked; the caller should warn. */
  register(secret: string): boolean {
    if (secret.trim().length < SECRET_MIN_CHARS) return false;
    const mask = /^(?:svc_(?:pk|sk|sess)_|eyJ)/.test(secret) ? maskCredential(secret) : MASK;
    // What its shape gives away needs no place in the list, which is searched at every position.
    if (maskSecrets(secret) === mask) return true;
    for (const form of formsOf(secret)) if (form.length >= SECRET_MIN_CHARS) this.#known.set(form, mask);
    // The longest first: a secret that begins like another must not leave its tail behind.
    const forms = [...this.#known.keys()].sort((a, b) => b.length - a.length);
    this.#pattern = new RegExp(forms.map(escapeForRegExp).join("|"), "g");
    return true;
  }

  /** The text with every secret masked. */
  redact(text: string): string {
    const known =
      this.#pattern === null ? text : text.replace(this.#pattern, (found) => this.#known.get(found) ?? MASK);
    return maskSecrets(known);
  }

  /** A JSON value with every text in it masked, names of fields included. */
  redactValue(value: unknown): unknown {
    if (typeof value === "string") return this.redact(value);
    if (Array.isArray(value)) return value.map((one) => this.redactValue(one));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [this.redact(name), this.redactValue(one)]));
  }

  /**
   * Turns chunks of a stream into masked and clean lines. A secret that is split over two chunks is whole again in its line. A line
   * over the limit is cut at a blank, so that no part of a secret is let through.
   */
  lines(
    onLine: (line: string) => void,
    maxChars: number = LINE_MAX_CHARS,
  ): { push: (chunk: Buffer) => void; end: () => void } {
    const decoder = new StringDecoder("utf8");
    let held = "";
    let skipping = false;
    const give = (line: string): void => onLine(clean(this.redact(line.endsWith("\r") ? line.slice(0, -1) : line)));
    const take = (text: string): void => {
      const parts = (held + text).split("\n");
      held = parts.pop() as string;
      for (const part of parts) {
        if (!skipping) give(part);
        skipping = false;
      }
      if (skipping) held = "";
      else if (held.length > maxChars) {
        const blank = held.lastIndexOf(" ", maxChars);
        give(`${blank > 0 ? held.slice(0, blank) : ""} [line over ${maxChars} characters, cut]`.trimStart());
        held = "";
        skipping = true;
      }
    };
    return {
      push: (chunk) => take(decoder.write(chunk)),
      end: () => {
        take(decoder.end());
        if (held !== "" && !skipping) give(held);
        held = "";
      },
    };
  }
}

/** The one of this process. */
export const redactor: Redactor = new Redactor();
export const redact = (text: string): string => redactor.redact(text);
