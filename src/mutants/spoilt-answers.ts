/** Mutants of what leaves the API: bodies, statuses, headers, and when a refusal is written. */
import { type AnyRefusalName, refusalOf } from "../contract/refusals.ts";
import type { Refuse } from "../core/call.ts";
import { type Answer, jsonHeaders } from "../platform/api/answer.ts";
import type { Parts } from "../platform/parts.ts";
import type { Spoilt } from "./mutant.ts";

type Body = Record<string, unknown>;

/** The same answer with another body; headers that describe the body follow it. */
const withBody = ({ status, headers }: Answer, body: Body): Answer => {
  const text = JSON.stringify(body);
  const others = headers.filter((_, at) => !/^content-/i.test(headers[at - (at % 2)] as string));
  return { status, headers: [...jsonHeaders(text), ...others], body: text };
};

const withoutHeader = (answer: Answer, name: string): Answer => ({
  ...answer,
  headers: answer.headers.filter(
    (_, at) => (answer.headers[at - (at % 2)] as string).toLowerCase() !== name.toLowerCase(),
  ),
});

const withHeader = (answer: Answer, name: string, value: string): Answer => {
  const cleared = withoutHeader(answer, name);
  return { ...cleared, headers: [...cleared.headers, name, value] };
};

/** `spoil` is given the healthy answer and its body. */
const refusals =
  (spoil: (answer: Answer, refuse: Refuse, body: Body) => Answer) =>
  (healthy: Parts): Pick<Parts, "writeRefusal"> => ({
    writeRefusal: (refuse) => {
      const answer = healthy.writeRefusal(refuse);
      return spoil(answer, refuse, JSON.parse(answer.body) as Body);
    },
  });

const isFlat = ({ refuse }: { refuse: AnyRefusalName }): boolean => refusalOf(refuse).envelope === "flat";

const SLOW_MS = 400;

const EACH = 8;
const PAGE = "<html><body><h1>502 Bad Gateway</h1></body></html>";

export const SPOILT_ANSWERS: readonly Spoilt[] = [
  // One envelope for every error, as an error handler does that does not know the four exceptions.
  {
    name: "wraps-the-flat-body",
    harm: "clients that look for `error` in an overload answer find nothing and retry at full speed",
    kills: ["envelope-fits-subcode"],
    stage: "answers",
    spoil: refusals((answer, refuse, { error, ...fields }) =>
      isFlat(refuse) ? withBody(answer, { detail: error, ...fields }) : answer,
    ),
  },
  // The flat envelope used for every refusal.
  {
    name: "flattens-the-detail",
    harm: "clients that read `detail` see an unexplained 403 and log their user out",
    kills: ["envelope-fits-subcode"],
    stage: "answers",
    spoil: refusals((answer, _, { detail, ...fields }) =>
      detail === undefined ? answer : withBody(answer, { error: detail, ...fields }),
    ),
  },
  // A subcode renamed in passing.
  {
    name: "invents-a-subcode",
    harm: "clients decide on the subcode; one that is in no list is a bug report at every customer's",
    kills: ["envelope-fits-subcode"],
    stage: "answers",
    spoil: refusals((answer, { refuse }) =>
      refuse === "insufficient_scope" ? withBody(answer, { detail: "missing_scope" }) : answer,
    ),
  },
  // A 401 with a helpful sentence in `detail`.
  {
    name: "explains-the-401",
    harm: "who guesses keys learns which of them exist",
    kills: ["envelope-fits-subcode"],
    stage: "answers",
    spoil: refusals((answer, { refuse }) =>
      refuse === "unauthenticated" ? withBody(answer, { detail: "invalid_api_key" }) : answer,
    ),
  },
  // Numbers that came as text from a store and left as text.
  {
    name: "quota-numbers-as-strings",
    harm: "a client that compares `used` with `limit` compares words, and shows that 9 of 10 is more than 10",
    kills: ["envelope-fits-subcode"],
    stage: "answers",
    spoil: refusals((answer, { quota }, body) =>
      quota === undefined ? answer : withBody(answer, { ...body, limit: `${quota.limit}`, used: `${quota.used}` }),
    ),
  },
  // A parser's exception that nobody catches.
  {
    name: "answers-500-on-malformed",
    harm: "a typing error in a request looks like an outage and pages somebody at night",
    kills: ["first-failing-check-decides", "envelope-fits-subcode"],
    stage: "answers",
    spoil: refusals((answer, { refuse }) =>
      refuse === "malformed_body" ? { ...withBody(answer, { detail: "Internal Server Error" }), status: 500 } : answer,
    ),
  },
  // A route that cannot be planned reported by the status, as everywhere else.
  {
    name: "fails-routes-with-400",
    harm: "clients read the body of a 200; here they show their own error page instead of the message",
    kills: ["first-failing-check-decides", "envelope-fits-subcode"],
    stage: "answers",
    spoil: (healthy) => ({
      writeAnswer: (response, status, headers, body) =>
        healthy.writeAnswer(response, status === 200 && body.startsWith('{"error"') ? 400 : status, headers, body),
    }),
  },
  // `Retry-After` lost in a proxy, or never written.
  {
    name: "hides-retry-after",
    harm: "clients that would have waited come back at once, all together",
    kills: ["tells-when-to-retry"],
    stage: "answers",
    spoil: refusals((answer) => withoutHeader(answer, "Retry-After")),
  },
  // The wait computed from the rate alone, not from the bucket.
  {
    name: "retry-after-too-early",
    harm: "the client that obeys is refused again, and learns not to obey",
    kills: ["tells-when-to-retry"],
    stage: "patient-client",
    spoil: refusals((answer, { retryAfterS }) =>
      retryAfterS === undefined
        ? answer
        : withHeader(answer, "Retry-After", `${Math.max(1, Math.floor(retryAfterS / 2))}`),
    ),
  },
  // The limit taken from the tier's default, not from the organization's record.
  {
    name: "reports-the-wrong-limit",
    harm: "the customer's own gauge shows that there is plenty left, and the map says no",
    kills: ["admits-at-most-the-allowance"],
    stage: "edge-of-quota",
    spoil: refusals((answer, { quota }, body) =>
      quota === undefined ? answer : withBody(answer, { ...body, limit: 1_000 }),
    ),
  },
  // The name of the one overload for the other.
  {
    name: "swaps-the-two-overloads",
    harm: "a customer is asked to slow down because somebody else was loud",
    kills: ["sheds-only-over-the-cap"],
    stage: "overload",
    spoil: (healthy) => ({
      writeRefusal: (refuse) => {
        if (refuse.refuse === "b2b_overloaded") return healthy.writeRefusal({ ...refuse, refuse: "org_overloaded" });
        if (refuse.refuse === "org_overloaded") return healthy.writeRefusal({ ...refuse, refuse: "b2b_overloaded" });
        return healthy.writeRefusal(refuse);
      },
    }),
  },
  // A refusal that goes the whole way before it is one.
  {
    name: "sheds-slowly",
    harm: "saying no costs as much as saying yes, so that shedding saves nothing",
    kills: ["refusals-are-cheap"],
    stage: "overload",
    spoil: (healthy) => ({
      writeAnswer: (response, status, headers, body) => {
        if (!body.includes("_overloaded")) return healthy.writeAnswer(response, status, headers, body);
        setTimeout(() => healthy.writeAnswer(response, status, headers, body), SLOW_MS);
      },
    }),
  },
  // Overload reported as an outage of the key service.
  {
    name: "sheds-with-a-503",
    harm: "clients and dashboards look for a fault where there is only a rush",
    kills: ["counts-agree"],
    stage: "overload",
    spoil: (healthy) => ({
      writeRefusal: (refuse) =>
        healthy.writeRefusal(refuse.refuse === "b2b_overloaded" ? { refuse: "key_service_unavailable" } : refuse),
    }),
  },
  // `Access-Control-Allow-Origin` echoed to whoever asks.
  {
    name: "leaks-acao",
    harm: "a page on any site may read what a leaked server key gets",
    kills: ["verify/server-key-is-blocked-by-cors"],
    stage: "verify",
    spoil: () => ({
      cors: (call) => call.origin,
    }),
  },
  // An absent style written as null.
  {
    name: "sends-a-null-style",
    harm: "embeds that test for the key's presence load the style `null`",
    kills: ["verify/session-basemap-style-absent"],
    stage: "verify",
    spoil: (healthy) => ({
      writeAnswer: (response, status, headers, body) => {
        if (!body.startsWith('{"session_token"') || body.includes("basemap_style_id")) {
          return healthy.writeAnswer(response, status, headers, body);
        }
        const padded = `${body.slice(0, -1)},"basemap_style_id":null}`;
        const at = headers.indexOf("Content-Length");
        healthy.writeAnswer(response, status, headers.with(at + 1, String(Buffer.byteLength(padded))), padded);
      },
    }),
  },
  // A server behind a balancer that is gone now and then: the balancer answers in its place, in words of its own.
  {
    name: "answers-with-a-page",
    harm: "a part of the calls never reaches the API, and what is judged is the rest alone",
    kills: ["answered"],
    stage: "answers",
    spoil: (healthy) => {
      let n = 0;
      return {
        writeAnswer: (response, status, headers, body) => {
          n += 1;
          if (n % EACH !== 0) return healthy.writeAnswer(response, status, headers, body);
          const own = ["content-type", "text/html", "content-length", `${PAGE.length}`];
          healthy.writeAnswer(response, 502, own, PAGE);
        },
      };
    },
  },
];
