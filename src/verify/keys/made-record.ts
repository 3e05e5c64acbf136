/** Finds id and secret in the answer to a creation, whose shape is not specified (items 50, 126, 141), under any usual name and depth. */
import { isObject } from "../../contract/envelopes.ts";
import type { Answer } from "../sending/answer.ts";

const everyText = (value: unknown): string[] => {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(everyText);
  return isObject(value) ? Object.values(value).flatMap(everyText) : [];
};

/** A secret by its member's name; it may lack the prefix, which another rule judges. */
const secretByName = (value: unknown, id: unknown): string | undefined => {
  if (Array.isArray(value)) return value.map((inner) => secretByName(inner, id)).find((found) => found !== undefined);
  if (!isObject(value)) return undefined;
  for (const [name, inner] of Object.entries(value)) {
    const named = /^(key|secret|api_?key|token|value)$/i.test(name) && inner !== id;
    if (named && typeof inner === "string" && /^[\w-]{16,}$/.test(inner)) return inner;
    const found = secretByName(inner, id);
    if (found !== undefined) return found;
  }
  return undefined;
};

/** The id in an address such as `/shared-api/api-keys/7023`. */
const idInAddress = (text: string): string | undefined => {
  const segment = /(?:^|\/)api-?_?keys\/([^/?#\s]+)\/?$/i.exec(text)?.[1];
  try {
    return segment === undefined ? undefined : decodeURIComponent(segment);
  } catch {
    return undefined;
  }
};

const ID_NAMES = [/^(id|_id)$/i, /^(api)?[_-]?key[_-]?id$/i, /^(uid|uuid|identifier|kid)$/i];
/** Members whose ids belong to something else. */
const OTHERS = /org|owner|user|account|creat|request|tenant|project|plan|meta/i;

const idsOf = (record: Readonly<Record<string, unknown>>, secret: string | null): string[] =>
  ID_NAMES.flatMap((wanted) =>
    Object.entries(record)
      .filter(([name, value]) => wanted.test(name) && value !== secret && /^(string|number)$/.test(typeof value))
      .map(([, value]) => String(value)),
  ).filter((id) => id !== "");

/** All objects, outermost first, except those under a member of `OTHERS`. */
const recordsIn = (value: unknown): Readonly<Record<string, unknown>>[] => {
  if (Array.isArray(value)) return value.flatMap(recordsIn);
  if (!isObject(value)) return [];
  const inner = Object.entries(value).filter(([name]) => !OTHERS.test(name));
  return [value, ...inner.flatMap(([, one]) => recordsIn(one))];
};

type Made = {
  /** Candidates, likeliest first. */
  ids: readonly string[];
  secret: string | null;
};

export const madeIn = (answer: Answer): Made => {
  const texts = everyText(answer.body);
  const whole = texts.find((text) => /^svc_(pk|sk)_\S{8,}$/.test(text) && !text.includes("..."));
  const records = recordsIn(answer.body);
  const named = records.flatMap((record) => idsOf(record, whole ?? null));
  const secret = whole ?? secretByName(answer.body, named[0]) ?? null;
  // A record with the secret or with scopes is the key's. An envelope may have an id of its own.
  const isKeys = (record: Readonly<Record<string, unknown>>): boolean =>
    (secret !== null && Object.values(record).includes(secret)) || "scopes" in record;
  const own = records.filter(isKeys).flatMap((record) => idsOf(record, secret));
  const addressed = [answer.headers.location ?? "", ...texts].map(idInAddress);
  const ids = [...new Set([...own, addressed[0], ...named, ...addressed])].filter((id) => id !== undefined);
  return { ids: ids.filter((id) => id !== secret), secret };
};

/** Whether the value contains a list, or a separated text, of exactly these texts. */
export const tellsList = (value: unknown, wanted: readonly string[]): boolean => {
  const isSame = (found: readonly unknown[]): boolean =>
    found.length === wanted.length && wanted.every((text) => found.includes(text));
  if (typeof value === "string") return wanted.length > 0 && isSame(value.split(/[\s,]+/));
  if (Array.isArray(value)) return isSame(value) || value.some((inner) => tellsList(inner, wanted));
  return isObject(value) && Object.values(value).some((inner) => tellsList(inner, wanted));
};

/** Whether the text occurs anywhere in the answer. */
export const tellsText = (answer: Answer, wanted: string): boolean =>
  everyText(answer.body).some((text) => text.split(/[\s,]+/).includes(wanted));
