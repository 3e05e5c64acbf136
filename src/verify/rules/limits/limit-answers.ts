/** What a limit says of itself, in every answer of the run (items 184, 208, 214, 217-218, 226-227). Nothing is sent for these. */

import { foreignHeader, shapeOf } from "../../../contract/foreign-text.ts";
import { type RetryAfter, readRetryAfter } from "../../../contract/retry-after.ts";
import type { Rule } from "../../rule.ts";
import type { Answer } from "../../sending/answer.ts";
import { everyAnswer } from "../every-answer/every-answer.ts";

const rateLimited = everyAnswer(
  {
    id: "rate-limited-says-when",
    level: "must",
    spec: [214, 217, 218],
    title: "429 rate_limited carries a Retry-After that can be read",
  },
  (answer) => answer.subcode === "rate_limited",
  (checks, answer) => {
    const text = answer.headers["retry-after"];
    const readable = text !== undefined && readRetryAfter(text, Date.now()) !== null;
    checks.require(readable, answer, "Retry-After in seconds or as a date", `it was ${foreignHeader(text)}`);
  },
  "nothing was rate limited",
);

const restrictedSays3600 = everyAnswer(
  {
    id: "tile-restriction-says-3600",
    level: "must",
    spec: [208, 226],
    title: "429 tile_access_restricted carries Retry-After: 3600",
  },
  (answer) => answer.subcode === "tile_access_restricted",
  (checks, answer) => {
    const text = answer.headers["retry-after"];
    checks.require(text?.trim() === "3600", answer, "Retry-After: 3600", `it was ${foreignHeader(text)}`);
  },
  "no tile was restricted",
);

/** A date counts whole seconds; without a `Date` beside it, two clocks are compared. */
const PAST_MS = 2_000;
const CLOCKS_DIFFER_MS = 300_000;

/** A date that lies behind the clock of the answer itself, or behind ours where it has none. */
const isPast = (stated: RetryAfter, { headers }: Answer): boolean => {
  if (!("atMs" in stated)) return false;
  const [ownMs, slackMs] =
    headers.date === undefined ? [Date.now(), CLOCKS_DIFFER_MS] : [Date.parse(headers.date), PAST_MS];
  return stated.atMs < ownMs - slackMs;
};

/** RFC 9110 allows a date that has passed, so it breaks nothing; but whoever honours it does not wait at all. */
const retryAfterReads = everyAnswer(
  {
    id: "retry-after-is-readable",
    level: "should",
    spec: [214, 217, 218],
    title: "Retry-After is a number of seconds, or a date that has not passed, wherever it stands",
  },
  (answer) => answer.headers["retry-after"] !== undefined,
  (checks, answer) => {
    const text = answer.headers["retry-after"] as string;
    const stated = readRetryAfter(text, Date.now());
    const isDate = stated !== null && "atMs" in stated;
    const came = isDate ? `${text}, with the Date ${answer.headers.date ?? "absent"}` : text;
    const fits = stated !== null && !isPast(stated, answer);
    checks.require(fits, answer, "seconds, or a date to come", `it was ${came}`);
  },
  "no answer carried Retry-After",
);

const quotaFields = everyAnswer(
  {
    id: "quota-body-fields",
    level: "must",
    spec: [184, 227],
    title: "map_load_quota_exceeded carries meter map_loads and the whole numbers limit and used, at its top level",
  },
  (answer) => answer.subcode === "map_load_quota_exceeded",
  (checks, answer) => {
    const { meter, limit, used } = answer.fields;
    const fits = meter === "map_loads" && Number.isInteger(limit) && Number.isInteger(used);
    const came = shapeOf({ meter, limit, used });
    checks.require(fits, answer, "meter map_loads, whole numbers limit and used", `they were ${came}`);
  },
  "no allowance was used up",
);

export const LIMIT_ANSWER_RULES: readonly Rule[] = [rateLimited, restrictedSays3600, retryAfterReads, quotaFields];
