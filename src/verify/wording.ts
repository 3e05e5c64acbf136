/** Compares the words of refusals: a refusal worded like that of broken JSON calls the body malformed (items 202-203). */
import type { Answer } from "./sending/answer.ts";

/** 422 is specified; 400 is the usual other status. */
export const isMalformed = ({ status }: Answer): boolean => status === 422 || status === 400;

export const wordingOf = ({ status, fields, subcode }: Answer): string => {
  if (Array.isArray(fields.detail)) return `${status} a list of errors`;
  if (subcode === null) return `${status} no word`;
  return /^[\w.-]+$/.test(subcode) ? `${status} ${subcode}` : `${status} a sentence`;
};

/** The refusal's reason without the given words, which differ from call to call. */
export const reasonIn = ({ fields }: Answer, ...without: readonly string[]): string =>
  without.reduce(
    (text, word) => text.replaceAll(word, "..."),
    JSON.stringify([fields.detail, fields.error, fields.errors]),
  );
