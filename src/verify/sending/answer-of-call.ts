/**
 * What came of one call, named for the rules and for the other judges. Apart from sending, because what counts as an answer
 * at all is decided here: half of one is none, unless we left it ourselves.
 */
import { type CallContext, lineOf } from "../../client/call-line.ts";
import type { Received } from "../../client/send-request.ts";
import { isObject, parseJson } from "../../contract/envelopes.ts";
import { outcomeOfStream } from "../../contract/refusals.ts";
import type { CallLine } from "../../history/line.ts";
import { mayHaveAnyBody } from "../../workload/request.ts";
import type { Step } from "../../workload/step.ts";
import { type Answer, type Chunk, isForeign, isTransient, type Named, nameAnswer } from "./answer.ts";
import { isDecoded } from "./decoding.ts";
import type { TestCall } from "./test-call.ts";

const headersOf = (received: Received): Record<string, string> =>
  Object.fromEntries(
    Object.entries(received.headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), (Array.isArray(value) ? value.join(", ") : value).trim()]],
    ),
  );

const UNANSWERED: Named = { outcome: "indeterminate", subcode: null, envelope: "none", legacy: false };

/**
 * A stream that we left ourselves was answered; half of any other answer is none. Rules ask whether a call was admitted, so a
 * stream without an event is one here.
 */
const nameOf = (received: Received, anyBody: boolean): Named => {
  const { status, ended, seen, aborted, text } = received;
  if (status === null) return UNANSWERED;
  if (seen !== null) {
    return { ...UNANSWERED, outcome: outcomeOfStream(status, { ended }) };
  }
  if (!aborted && ended !== "eof" && ended !== "refused") return UNANSWERED;
  return nameAnswer(status, text, anyBody);
};

/** What other judges may hold against the call. Item 189: a 401 or 503 without `detail` is one, whatever else it says. */
const lineFor = (testCall: TestCall, named: Named, line: CallLine): CallLine => {
  const { facts, ...bare } = line;
  const plain = named.outcome === "401" || named.outcome === "503";
  const failed = plain && named.envelope === "flat" ? { outcome: named.outcome, envelope: "none" as const } : {};
  return testCall.open === true || facts === undefined ? { ...bare, ...failed } : { ...bare, ...failed, facts };
};

/** A body that was decoded is one that was sent as it is, for every judge but the rule about codings. */
const plainOf = (received: Received): Received => {
  if (!isDecoded(received.headers)) return received;
  const { "content-encoding": _coding, ...headers } = received.headers;
  return { ...received, headers };
};

type Called = {
  testCall: TestCall;
  step: Parameters<typeof lineOf>[0];
  request: Answer["request"];
  received: Received;
  chunks: readonly Chunk[];
  context: CallContext;
  /** How far the clock may be off, us. */
  errorUs: Parameters<typeof lineOf>[3];
};

export const answerOfCall = ({ testCall, step, request, received, chunks, context, errorUs }: Called): Answer => {
  const { status, text } = received;
  const named = nameOf(received, mayHaveAnyBody({ route: testCall.route, method: request.method as Step["method"] }));
  const body = parseJson(text);
  return {
    ...named,
    id: context.id,
    testCall,
    request,
    line: lineFor(testCall, named, lineOf(step, plainOf(received), context, errorUs)),
    received,
    status,
    headers: headersOf(received),
    text,
    body,
    fields: isObject(body) ? body : {},
    chunks,
    foreign: isForeign(named.outcome, text),
    transient: isTransient(named.outcome),
  };
};
