/** From a request and its answer to a line of the history: the outcome by its name, and what a judge may want of the answer. */
import { readAnswer } from "../contract/envelopes.ts";
import { countedAs, ERROR_IN_BODY, outcomeOfStream } from "../contract/refusals.ts";
import { routeOf } from "../contract/routes.ts";
import type { Step } from "../workload/step.ts";
import type { ObservedLine } from "./observed-line.ts";
import type { Received } from "./send-request.ts";

export type CallContext = {
  /** Sent as `X-Request-Id`. */
  id: string;
  stage: string;
  driver: string;
  intendedUs: number;
};

/** Half an answer is no answer: nobody can say what the other half was. */
const isWhole = ({ ended }: Received): boolean => ended === "eof" || ended === "refused";

const fieldsOf = (body: unknown): Record<string, unknown> =>
  typeof body === "object" && body !== null && !Array.isArray(body) ? (body as Record<string, unknown>) : {};

const headerText = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value.join(", ") : value;

const answerFields = (step: Step, seen: Received): Partial<ObservedLine> & { outcome: string } => {
  const error = seen.error === undefined ? {} : { error: seen.error };
  if (seen.status === null) return { outcome: "indeterminate", ...error };
  if (seen.seen !== null) {
    return { outcome: countedAs(outcomeOfStream(seen.status, seen.ended)), ...error };
  }
  if (!isWhole(seen)) return { outcome: "indeterminate", error: seen.error ?? seen.ended };
  const answer = readAnswer(seen.status, seen.text);
  const fields: Partial<ObservedLine> & { outcome: string } = { outcome: answer.outcome };
  if (answer.outcome === ERROR_IN_BODY || seen.status >= 300) fields.envelope = answer.envelope;
  if (answer.quota !== undefined) fields.quota = answer.quota;
  const retryAfter = headerText(seen.headers["retry-after"]);
  if (retryAfter !== undefined) fields.retry_after = retryAfter;
  if (step.route === "sdk.sessions" && seen.status < 300) {
    const body = fieldsOf(answer.body);
    fields.expires_in = body.expires_in;
    fields.product = body.product;
  }
  return fields;
};

type StreamFields = Pick<ObservedLine, "ended" | "events" | "late" | "event_names" | "last_event_us" | "gaps_us">;

const streamFields = (step: Step, seen: Received): StreamFields => {
  if (step.route === "-" || routeOf(step.route).stream === undefined) return {};
  if (seen.seen === null) return { ended: seen.ended };
  const { events, late, names, gapsUs, lastUs } = seen.seen;
  const fields: StreamFields = { ended: seen.ended, events };
  if (late > 0) fields.late = late;
  if (events > 0) fields.event_names = [...names];
  if (lastUs !== null) fields.last_event_us = lastUs;
  if (gapsUs.length > 0) fields.gaps_us = gapsUs;
  return fields;
};

export const lineOf = (step: Step, seen: Received, context: CallContext, clockErrorUs: number): ObservedLine => ({
  type: "call",
  id: context.id,
  stage: context.stage,
  driver: context.driver,
  org: step.org,
  ...(step.bucket === undefined ? {} : { bucket: step.bucket }),
  route: step.route,
  intended_us: Math.min(context.intendedUs, seen.sentUs),
  sent_us: seen.sentUs,
  first_us: seen.firstUs,
  done_us: Math.max(seen.doneUs, seen.sentUs),
  clock_error_us: clockErrorUs,
  ...answerFields(step, seen),
  ...streamFields(step, seen),
  ...(step.meter === undefined ? {} : { meter: step.meter }),
  ...(step.slowReadMs === undefined ? {} : { slow_reader: true as const }),
  ...(seen.aborted ? { aborted: true as const } : {}),
  facts: step.facts,
});
