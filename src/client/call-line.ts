/** Makes a history line of a request and its answer. */
import { codingOf, isObject, readAnswer } from "../contract/envelopes.ts";
import { CODES_MOST, distinctNames, foreignMoment, foreignValue, OTHER_CODES } from "../contract/foreign-text.ts";
import { countedAs, ERROR_IN_BODY, emptyOutcome, isListed, outcomeOfStream } from "../contract/refusals.ts";
import { isStreamed } from "../contract/routes.ts";
import { transportCode } from "../contract/transport-codes.ts";
import type { CallLine } from "../history/line.ts";
import { mayHaveAnyBody, type Step } from "../workload/step.ts";
import type { Received } from "./send-request.ts";

export type CallContext = {
  id: string;
  stage: string;
  driver: string;
  intendedUs: number;
  attempt?: number;
  unscheduled?: "mint" | "step";
};

/** A truncated answer counts as no answer, because the missing part is unknown. */
const isWhole = ({ ended }: Received): boolean => ended === "eof" || ended === "refused";

const headerText = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value.join(", ") : value;

const codeOf = distinctNames(CODES_MOST, OTHER_CODES);

/** Bounds the number of unlisted codes, because a hostile server may send a new one each time. */
export const countedOutcome = (outcome: string): string =>
  outcome.charAt(3) !== " " || isListed(outcome) ? outcome : `${outcome.slice(0, 4)}${codeOf(outcome.slice(4))}`;

const answerFields = (step: Step, seen: Received): Partial<CallLine> & { outcome: string } => {
  const error = seen.error === undefined ? {} : { error: transportCode(seen.error) };
  if (seen.status === null) return { outcome: "indeterminate", ...error };
  if (seen.seen !== null) {
    const ending = { ended: seen.ended, events: seen.seen.events, aborted: seen.aborted };
    return { outcome: countedAs(outcomeOfStream(seen.status, ending)), ...error };
  }
  if (!isWhole(seen)) return { outcome: "indeterminate", error: seen.ended, ...error };
  const coding = codingOf(headerText(seen.headers["content-encoding"]));
  const answer = readAnswer(seen.status, seen.text, { coding, anyBody: mayHaveAnyBody(step) });
  const fields: Partial<CallLine> & { outcome: string } = { outcome: countedOutcome(answer.outcome) };
  if (coding !== null) fields.error = `coded-${coding}`;
  // A success without the expected event stream counts as empty, because the caller got no event.
  if (isStreamed(step) && answer.outcome === `${seen.status}` && seen.status < 300) {
    fields.outcome = emptyOutcome(seen.status);
  }
  if (answer.outcome === ERROR_IN_BODY || seen.status >= 300) fields.envelope = answer.envelope;
  if (answer.quota !== undefined) {
    const { meter, limit, used } = answer.quota;
    fields.quota = { meter: foreignValue(meter), limit: foreignValue(limit), used: foreignValue(used) };
  }
  const retryAfter = headerText(seen.headers["retry-after"]);
  if (retryAfter !== undefined) fields.retry_after = foreignMoment(retryAfter);
  if (step.route === "sdk.sessions" && seen.status < 300) {
    const { expires_in, product } = isObject(answer.body) ? answer.body : {};
    fields.expires_in = foreignValue(expires_in);
    fields.product = foreignValue(product);
  }
  return fields;
};

const streamFields = (step: Step, seen: Received): Partial<CallLine> => {
  if (!isStreamed(step)) return {};
  if (seen.seen === null) return { ended: seen.ended };
  const { events, late, names, gapsUs, firstUs, lastUs } = seen.seen;
  return {
    ended: seen.ended,
    events,
    late: late > 0 ? late : undefined,
    event_names: events > 0 ? [...names] : undefined,
    first_event_us: firstUs ?? undefined,
    last_event_us: lastUs ?? undefined,
    gaps_us: gapsUs.length > 0 ? gapsUs : undefined,
  };
};

export const lineOf = (step: Step, seen: Received, context: CallContext, clockErrorUs: number): CallLine => ({
  type: "call",
  id: context.id,
  stage: context.stage,
  driver: context.driver,
  org: step.org,
  bucket: step.bucket,
  route: step.route,
  intended_us: Math.min(context.intendedUs, seen.startedUs),
  started_us: seen.startedUs,
  connect_us: seen.connectUs,
  sent_us: seen.sentUs,
  first_us: seen.firstUs,
  done_us: Math.max(seen.doneUs, seen.sentUs),
  attempt: context.attempt ?? 0,
  unscheduled: context.unscheduled,
  clock_error_us: clockErrorUs,
  ...answerFields(step, seen),
  ...streamFields(step, seen),
  meter: step.meter,
  slow_reader: step.slowReadMs === undefined ? undefined : true,
  aborted: seen.aborted ? true : undefined,
  facts: step.facts,
});
