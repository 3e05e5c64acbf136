/** The words of a refusal, to compare two: the same word as for broken JSON means that it is called malformed (202-203). */
import type { Answer } from "./sending/answer.ts";

/** Refused as something that is not what a body or a query should be; 422 is the stated status. */
export const isMalformed = ({ status }: Answer): boolean => status === 422 || status === 400;

export const wordingOf = ({ status, fields, subcode }: Answer): string => {
  if (Array.isArray(fields.detail)) return `${status} a list of errors`;
  if (subcode === null) return `${status} no word`;
  return /^[\w.-]+$/.test(subcode) ? `${status} ${subcode}` : `${status} a sentence`;
};

/** All that is said about the reason, without what may differ from call to call. */
export const reasonIn = ({ fields }: Answer, ...without: readonly string[]): string =>
  without.reduce(
    (text, word) => text.replaceAll(word, "..."),
    JSON.stringify([fields.detail, fields.error, fields.errors]),
  );
