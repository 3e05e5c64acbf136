/**
 * Redaction: whatever is captured from a child, written to a run folder or printed goes through here once. Credentials
 * are known by their shape (contract/credentials.ts), other secrets because they were registered when they were read.
 */
import { maskCredential, maskSecrets } from "../contract/credentials.ts";
import { clean } from "../contract/foreign-text.ts";
import { cutLines, type LineCutter } from "./lines.ts";
import { FORM_MIN_CHARS, FormSearch, formsOf, partsOf, partsOfUrl } from "./secret-forms.ts";

/** A longer line of a child is cut, so that one without an end cannot fill the memory. */
const LINE_MAX_CHARS = 256 * 1024;

const MASK = "[masked]";

/** Shorter values occur in ordinary text too often to be masked everywhere. */
const isShort = (part: string): boolean => part.trim().length < FORM_MIN_CHARS;

export class Redactor {
  readonly #masks = new Map<string, string>();
  readonly #search = new FormSearch();
  readonly #registered = new Set<string>();
  readonly #unmaskable = new Set<string>();
  #onUnmaskable: (what: string) => void = () => undefined;

  /**
   * Masks this value and its parts from now on, in every form of `secret-forms.ts`. False when one is too short to be
   * masked; the listener then gets `what`, the field that it stands in.
   */
  register(secret: string, what?: string): boolean {
    return this.#takeAll(partsOf(secret), what);
  }

  /** Of an address that reports may name: user, password and the values of its query. */
  registerUrl(url: string, what?: string): boolean {
    const parts = partsOfUrl(url).filter((part) => part !== "");
    return parts.length === 0 || this.#takeAll(parts, what);
  }

  #takeAll(parts: readonly string[], what?: string): boolean {
    for (const part of parts) if (!isShort(part) && !this.#registered.has(part)) this.#take(part);
    const isWhole = parts.length > 0 && !parts.some(isShort);
    if (!isWhole && what !== undefined && !this.#unmaskable.has(what)) {
      this.#unmaskable.add(what);
      this.#onUnmaskable(what);
    }
    return isWhole;
  }

  /** Receives the field of each value that is too short to be masked, also of those before. */
  listenForUnmaskable(onUnmaskable: (what: string) => void): void {
    this.#onUnmaskable = onUnmaskable;
    for (const what of this.#unmaskable) onUnmaskable(what);
  }

  #take(part: string): void {
    this.#registered.add(part);
    const isOfKnownShape = /^(?:svc_(?:pk|sk|sess)_|eyJ)/.test(part);
    for (const form of formsOf(part)) {
      if (form.length < FORM_MIN_CHARS) continue;
      const known = this.#search.add(form);
      const mask = isOfKnownShape && form === part ? maskCredential(part) : MASK;
      if (!this.#masks.has(known)) this.#masks.set(known, mask);
    }
  }

  redact(text: string): string {
    let known = "";
    let from = 0;
    for (const found of this.#search.in(text)) {
      known += text.slice(from, found.from) + (this.#masks.get(found.form) ?? MASK);
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

  /**
   * Turns chunks of a stream into masked, clean lines. A line over the limit is cut at a blank, so that no part of a
   * secret passes.
   */
  lines(onLine: (line: string) => void, maxChars: number = LINE_MAX_CHARS): LineCutter {
    const give = (line: string): void => onLine(clean(this.redact(line.endsWith("\r") ? line.slice(0, -1) : line)));
    const shorten = (line: string): string => {
      const blank = line.lastIndexOf(" ", maxChars);
      return `${blank > 0 ? line.slice(0, blank) : ""} [line over ${maxChars} characters, cut]`.trimStart();
    };
    return cutLines(give, maxChars, shorten);
  }
}

export const redactor: Redactor = new Redactor();
export const redact = (text: string): string => redactor.redact(text);
