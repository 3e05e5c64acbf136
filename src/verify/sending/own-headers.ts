/** Tells a 503 that another server gave: it lacks a header that all refusals of the API's own have. */
import type { Answer } from "./answer.ts";

/** Headers about the body, the connection or one call, which two answers of one server may not share. */
const PASSING = /^(?:content-|transfer-encoding$|connection$|keep-alive$|date$|retry-after$|vary$|access-control-)/;
/** A header that so many refusals, of so many statuses, all have is no accident. */
const ENOUGH = 4;
const STATUSES = 2;

export const createOwnHeaders = () => {
  const statuses = new Set<number | null>();
  let [own, seen]: [ReadonlySet<string>, number] = [new Set(), 0];

  /** Only the API knows its subcodes, so a refusal with one is its own. */
  const learn = ({ subcode, foreign, status, headers }: Answer): void => {
    if (subcode === null || foreign || status === null || status < 400 || status > 499) return;
    const names = new Set(Object.keys(headers).filter((name) => !PASSING.test(name)));
    own = seen === 0 ? names : own.intersection(names);
    statuses.add(status);
    seen += 1;
  };

  /** The answer, marked as a gateway's if it is a 503 without such a header. */
  const marked = (answer: Answer): Answer => {
    const { status, subcode, headers, line, foreign } = answer;
    if (status !== 503 || subcode !== null || foreign || seen < ENOUGH || statuses.size < STATUSES) return answer;
    const lacks = own.values().find((name) => headers[name] === undefined);
    if (lacks === undefined) return answer;
    const outcome = "edge 503";
    return { ...answer, outcome, foreign: true, lacks, line: { ...line, outcome, envelope: "other" } };
  };

  return { learn, marked };
};
