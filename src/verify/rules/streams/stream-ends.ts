/**
 * How a stream ends (section 6; items 168, 170, 173, 187). Which event ends a good one is not stated, so that is written down
 * and not judged. But a failure inside a stream is reported by an `error` event (item 187), and HTTP itself says of a message whose
 * end never comes that it is incomplete (RFC 9112 section 8): cut every time, it is neither a success nor a reported failure.
 */

import { ANSWER_TOO_LARGE } from "../../../client/send-request.ts";
import { foreignError, foreignName } from "../../../contract/foreign-text.ts";
import { ERROR_EVENT, VOCABULARIES } from "../../../contract/streams.ts";
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import type { Answer } from "../../sending/answer.ts";
import {
  ALL_STREAMS,
  isStream,
  SPECIMENS_COST,
  type Specimen,
  specimenOf,
  specimens,
  streamRule,
} from "./stream-specimens.ts";

const quotaGoesOn = streamRule(
  {
    id: "stream-goes-on-after-quota",
    level: "should",
    spec: [170],
    title: "a quota event is not the end of a stream",
  },
  ["control"],
  (checks, { answer, sse }) => {
    const at = sse.frames.findIndex(({ event }) => event === "quota");
    if (at < 0) return checks.note("no quota event came");
    checks.require(at < sse.frames.length - 1, answer, "more events after quota", "it was the last event");
  },
);

const endOf = ({ received: { ended, error } }: Answer): string =>
  `${ended}${error === undefined ? "" : ` (${foreignError(error)})`}`;

const endsCleanly = streamRule(
  {
    id: "stream-ends-cleanly",
    level: "should",
    spec: [168, 173],
    title: "a stream ends with its connection whole: not cut, not reset, not silent",
  },
  ALL_STREAMS,
  (checks, { answer }) => {
    const { ended, error } = answer.received;
    if (error === ANSWER_TOO_LARGE) return checks.unclear("a stream was longer than `verify` reads one");
    const whole = ended === "done" || ended === "error_event" || ended === "eof";
    checks.require(whole, answer, "a whole stream", `it ended ${endOf(answer)}`);
  },
);

/** An event that came once, as the last: it may be what ends a stream here, and what is cut after it is missed by nobody. */
const mayBeOver = ({ sse: { frames } }: Specimen): boolean => {
  const last = frames.at(-1);
  return last !== undefined && frames.filter(({ event }) => event === last.event).length === 1;
};

const isCut = (specimen: Specimen): boolean => {
  const { ended, aborted } = specimen.answer.received;
  return isStream(specimen) && !aborted && (ended === "truncated" || ended === "reset") && !mayBeOver(specimen);
};

/** Once is an accident on the way, and three times in a row hardly. */
const TRIES = 4;

const isWhole: Rule = {
  id: "stream-is-not-cut-every-time",
  level: "must",
  spec: [8, 168, 187],
  title: "a stream comes to its end, or to an error event: its HTTP message is not cut off in the middle every time",
  phase: "streams",
  needs: { anyOf: ["publishable", "server"] },
  cost: SPECIMENS_COST,
  run: async (context) => {
    const checks = new Checks("the end of the message, or an error event");
    const all = await specimens(context);
    for (const first of all.filter(isStream)) {
      let last: Specimen | null = first;
      let tries = 1;
      for (; tries < TRIES && last !== null && isCut(last); tries++) last = await specimenOf(context, first.stream);
      if (last === null || !isCut(last)) {
        checks.fine();
        if (tries > 1) checks.note(`${first.stream}: cut off at first`);
        continue;
      }
      const got = `cut off after ${last.sse.frames.length} events, ${tries} times out of ${tries}: ${endOf(last.answer)}`;
      checks.require(false, last.answer, "a whole stream", got);
    }
    return checks.result("no stream showed it");
  },
};

/** What a client has to know to distinguish a whole stream from half of one, and the specification does not say. */
const lastEvents: Rule = {
  id: "stream-last-event",
  level: "info",
  spec: [173],
  title:
    "by which event a stream ends, and whether anything comes after the event that ends it at the reference platform",
  phase: "streams",
  needs: { anyOf: ["publishable", "server"] },
  cost: SPECIMENS_COST,
  run: async (context) => {
    const all = (await specimens(context)).filter(isStream);
    const seen = all.map(({ stream, sse: { frames } }) => {
      const { done } = VOCABULARIES[stream];
      const names = frames.map(({ event }) => (event === null ? "an event without a name" : foreignName(event)));
      const at = names.findIndex((name) => name === done || name === ERROR_EVENT);
      const late = at < 0 ? [] : names.slice(at + 1);
      const last = names.at(-1) ?? "no event";
      if (at < 0) return `${stream}: the last event is ${last}, and there is no ${done}`;
      if (late.length > 0) return `${stream}: ${[...new Set(late)].slice(0, 8).join(", ")} came after ${names[at]}`;
      return `${stream}: ${last}`;
    });
    const evidence = all.map(({ answer }) => answer.id);
    const rest = { expected: "anything", got: seen.join("; "), evidence };
    if (all.length === 0) return { ...new Checks(lastEvents.title).result("no stream was opened"), idle: true };
    return { verdict: "pass", reason: `recorded, not judged: ${seen.join("; ")}`, ...rest };
  },
};

export const STREAM_END_RULES: readonly Rule[] = [quotaGoesOn, endsCleanly, isWhole, lastEvents];
