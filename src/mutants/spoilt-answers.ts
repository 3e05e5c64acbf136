/** Mutants of what leaves the API: bodies, statuses, headers, streams, and when a refusal is written. */
import { type AnyRefusalName, refusalOf } from "../contract/refusals.ts";
import { ERROR_EVENT, writeEvent } from "../contract/streams.ts";
import type { Refuse } from "../core/call.ts";
import { type Answer, jsonHeaders } from "../platform/api/answer.ts";
import { members, renaming, type Spoil, scripting, sheddingAfter, spoilt, writing } from "./mutant.ts";

type Body = Record<string, unknown>;

/** Replaces the headers whose names match. */
const withHeaders = (answer: Answer, names: RegExp, added: readonly string[]): Answer => {
  const others = answer.headers.filter((_, at) => !names.test(answer.headers[at - (at % 2)] as string));
  return { ...answer, headers: [...added, ...others] };
};

/** The same answer with another body; headers that describe the body follow it. */
const withBody = (answer: Answer, content: Body): Answer => {
  const body = JSON.stringify(content);
  return { ...withHeaders(answer, /^content-/i, jsonHeaders(body)), body };
};

/** `spoil` is given the healthy answer and its body. */
const refusals =
  (spoil: (answer: Answer, refuse: Refuse, body: Body) => Answer): Spoil =>
  (healthy) => ({
    writeRefusal: (refuse) => {
      const answer = healthy.writeRefusal(refuse);
      return spoil(answer, refuse, JSON.parse(answer.body) as Body);
    },
  });

const isFlat = ({ refuse }: { refuse: AnyRefusalName }): boolean => refusalOf(refuse).envelope === "flat";

const SLOW_MS = 400;

const EACH = 8;
const PAGE = "<html><body><h1>502 Bad Gateway</h1></body></html>";

export const SPOILT_ANSWERS = spoilt(
  // biome-ignore format: a row is a line
  [
    ["wraps-the-flat-body", "answers", ["envelope-fits-subcode"], "clients that look for `error` in an overload answer find nothing and retry at full speed"],
    ["flattens-the-detail", "answers", ["envelope-fits-subcode"], "clients that read `detail` see an unexplained 403 and log their user out"],
    ["invents-a-subcode", "answers", ["envelope-fits-subcode"], "clients decide on the subcode; one that is in no list is a bug report at every customer's"],
    ["explains-the-401", "answers", ["envelope-fits-subcode"], "who guesses keys learns which of them exist"],
    ["quota-numbers-as-strings", "answers", ["envelope-fits-subcode"], "a client that compares `used` with `limit` compares words, and shows that 9 of 10 is more than 10"],
    ["answers-500-on-malformed", "answers", ["first-failing-check-decides", "envelope-fits-subcode"], "a typing error in a request looks like an outage and pages somebody at night"],
    ["fails-routes-with-400", "answers", ["first-failing-check-decides", "envelope-fits-subcode"], "clients read the body of a 200; here they show their own error page instead of the message"],
    ["hides-retry-after", "answers", ["tells-when-to-retry"], "clients that would have waited come back at once, all together"],
    ["retry-after-too-early", "patient-client", ["tells-when-to-retry"], "the client that obeys is refused again, and learns not to obey"],
    ["reports-the-wrong-limit", "edge-of-quota", ["admits-at-most-the-allowance"], "the customer's own gauge shows that there is plenty left, and the map says no"],
    ["swaps-the-two-overloads", "overload", ["sheds-only-over-the-cap"], "a customer is asked to slow down because somebody else was loud"],
    ["calls-a-rush-a-rate-limit", "gate", ["gate/answers"], "a customer buys a higher rate and is refused as before"],
    ["sheds-slowly", "overload", ["refusals-are-cheap"], "saying no costs as much as saying yes, so that shedding saves nothing"],
    ["sheds-with-a-503", "overload", ["counts-agree"], "clients and dashboards look for a fault where there is only a rush"],
    ["leaks-acao", "verify", ["verify/server-key-is-blocked-by-cors"], "a page on any site may read what a leaked server key gets"],
    ["sends-a-null-style", "verify", ["verify/session-basemap-style-absent"], "embeds that test for the key's presence load the style `null`"],
    ["answers-with-a-page", "answers", ["answered"], "a part of the calls never reaches the API, and what is judged is the rest alone"],
  ],
  {
    // An error handler uses one envelope for every error and does not know the four exceptions.
    "wraps-the-flat-body": refusals((answer, refuse, { error, ...fields }) =>
      isFlat(refuse) ? withBody(answer, { detail: error, ...fields }) : answer,
    ),
    "flattens-the-detail": refusals((answer, _, { detail, ...fields }) =>
      detail === undefined ? answer : withBody(answer, { error: detail, ...fields }),
    ),
    "invents-a-subcode": refusals((answer, { refuse }) =>
      refuse === "insufficient_scope" ? withBody(answer, { detail: "missing_scope" }) : answer,
    ),
    "explains-the-401": refusals((answer, { refuse }) =>
      refuse === "unauthenticated" ? withBody(answer, { detail: "invalid_api_key" }) : answer,
    ),
    "quota-numbers-as-strings": refusals((answer, { quota }, body) =>
      quota === undefined ? answer : withBody(answer, { ...body, limit: `${quota.limit}`, used: `${quota.used}` }),
    ),
    // A parser's exception is not caught.
    "answers-500-on-malformed": refusals((answer, { refuse }) =>
      refuse === "malformed_body" ? { ...withBody(answer, { detail: "Internal Server Error" }), status: 500 } : answer,
    ),
    "fails-routes-with-400": writing((write, status, headers, body) =>
      write(status === 200 && body.startsWith('{"error"') ? 400 : status, headers, body),
    ),
    "hides-retry-after": refusals((answer) => withHeaders(answer, /^retry-after$/i, [])),
    // The wait is computed from the rate alone, not from the bucket.
    "retry-after-too-early": refusals((answer, { retryAfterS }) =>
      retryAfterS === undefined
        ? answer
        : withHeaders(answer, /^retry-after$/i, ["Retry-After", `${Math.max(1, Math.floor(retryAfterS / 2))}`]),
    ),
    // The limit is taken from the tier's default, not from the organization's record.
    "reports-the-wrong-limit": refusals((answer, { quota }, body) =>
      quota === undefined ? answer : withBody(answer, { ...body, limit: 1_000 }),
    ),
    "swaps-the-two-overloads": renaming({ b2b_overloaded: "org_overloaded", org_overloaded: "b2b_overloaded" }),
    "sheds-slowly": sheddingAfter(SLOW_MS),
    "calls-a-rush-a-rate-limit": renaming({ b2b_overloaded: "rate_limited" }),
    "sheds-with-a-503": renaming({ b2b_overloaded: "key_service_unavailable" }),
    "leaks-acao": () => ({ cors: (call) => call.caller.origin }),
    "sends-a-null-style": writing((write, status, headers, body) => {
      const isUnstyledSession = body.startsWith('{"session_token"') && !body.includes("basemap_style_id");
      if (!isUnstyledSession) return write(status, headers, body);
      const padded = `${body.slice(0, -1)},"basemap_style_id":null}`;
      const at = headers.indexOf("Content-Length");
      write(status, headers.with(at + 1, String(Buffer.byteLength(padded))), padded);
    }),
    // A server is down now and then, and the load balancer answers in its place with a page of its own.
    "answers-with-a-page": (healthy) => {
      let n = 0;
      return writing((write, status, headers, body) => {
        n += 1;
        // Minted sessions pass, because a stage cannot make calls without them.
        const isPage = n % EACH === 0 && !body.includes("session_token");
        if (isPage) write(502, ["content-type", "text/html", "content-length", `${PAGE.length}`], PAGE);
        else write(status, headers, body);
      })(healthy);
    },
  },
);

const EVERY = 50;

export const SPOILT_STREAMS = spoilt(
  // biome-ignore format: a row is a line
  [
    ["drops-the-last-event", "streams", ["streams-end-once", "streams-cut"], "the person reads half an answer, and the client does not notice"],
    ["answers-empty-streams", "streams", ["streams-end-once"], "every person who asks is answered with nothing, and each status says that all is well"],
    ["cuts-one-stream-in-fifty", "many-streams", ["streams-cut", "streams-end-once"], "one reader in fifty has half of an answer, on a connection that closed in order"],
    ["ends-without-done", "streams", ["streams-end-once", "streams-cut"], "on a bad line nobody can distinguish an answer that is complete from one that was cut"],
    ["talks-after-error", "streams", ["streams-end-once"], "a client shows the error and goes on typing"],
    ["speaks-control-everywhere", "streams", ["stream-vocabularies-differ", "streams-end-once"], "summaries and popups stay empty: their clients ignore names that they do not know, as the contract asks"],
    ["buffers-the-stream", "streams", ["events-are-not-buffered"], "the person stares at nothing for as long as the whole answer takes"],
    ["drops-streams-on-deploy", "deploy", ["streams-end-once"], "each release cuts every conversation that was going on"],
    ["forgets-the-partial-text", "verify", ["verify/stream-error-event"], "the client has thrown away what it showed and has nothing to put back"],
  ],
  {
    // The connection is closed before the last write is flushed.
    "drops-the-last-event": scripting((frames) => frames.slice(0, -1)),
    // A renderer without its template answers with the right status and type, and nothing else.
    "answers-empty-streams": scripting(() => []),
    // A connection's buffer is sometimes released before all of it is written.
    "cuts-one-stream-in-fifty": scripting((frames, n) =>
      n % EVERY === 0 ? frames.slice(0, Math.max(1, frames.length >> 1)) : frames,
    ),
    "ends-without-done": scripting((frames, _, kind) => (kind === "summary" ? frames.slice(0, -1) : frames)),
    // The loop that writes events does not notice that the stream has failed.
    "talks-after-error": members("voice", (healthy) => ({
      failure: (error) => healthy.failure(error) + writeEvent("token", { type: "token", text: "and " }),
    })),
    "speaks-control-everywhere": members("voice", (healthy) => ({
      script: (request) => healthy.script({ ...request, kind: "control" }),
    })),
    // A proxy collects the answer and delivers it in one piece.
    "buffers-the-stream": members("voice", () => ({ dueMs: (_i, _n, serviceMs) => serviceMs })),
    "drops-streams-on-deploy": () => ({ streamsFinishOnStop: false }),
    "forgets-the-partial-text": members("voice", () => ({
      failure: ({ code, message }) => writeEvent(ERROR_EVENT, { type: "error", code, message }),
    })),
  },
);
