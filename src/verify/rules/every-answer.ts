/** Rules over every answer of the run, whichever rule caused it (sections 7.1 and 7.2). They send no calls. */
import { foreignError, foreignHeader, foreignName, shapeOf, shapeOfBody } from "../../contract/foreign-text.ts";
import { someOf } from "../../contract/lists.ts";
import { REFUSALS } from "../../contract/refusals.ts";
import { readRetryAfter } from "../../contract/retry-after.ts";
import { openBy } from "../../history/reason-codes.ts";
import type { Level } from "../../history/run-document.ts";
import { byFrequency, exactInterval, known } from "../../history/statistics/statistics.ts";
import { KEY_ROLES } from "../../target/roles.ts";
import type { Checks, Judgement, Verdict } from "../checks.ts";
import type { Context } from "../context.ts";
import { type Rule, roleOf, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { codingOf } from "../sending/answer-bytes.ts";
import { adviceOn } from "../sending/attempts.ts";

const every = rulesOf("every-answer");

type Row = Judgement<Answer> & { title: string; concerns(answer: Answer): boolean; nothing: string };

const each = (level: Level, id: string, spec: readonly number[], row: Row): Rule =>
  every[level](id, spec, {
    title: row.title,
    step: async (context, checks) => {
      // A cut answer cannot be judged, and a gateway's or another server's says nothing about the API.
      const judged = context.answers.filter(
        (answer) => answer.outcome !== "indeterminate" && !answer.foreign && !context.isStrange(answer),
      );
      for (const answer of judged.filter(row.concerns)) checks.judge(answer, answer, row);
      return checks.idle(row.nothing);
    },
  });
const [must, should] = [each.bind(null, "must"), each.bind(null, "should")];

const unless = (fits: boolean, fault: string): string | null => (fits ? null : fault);

const bySubcode = new Map(
  Object.values(REFUSALS).flatMap((refusal) => (refusal.subcode === null ? [] : [[refusal.subcode, refusal] as const])),
);
/** A13: the envelope of these two is not specified; a flat one passes with a note. */
const EITHER_ENVELOPE = new Set(["limiter_unavailable", "rate_limited"]);
/** Unspecified paths (items 18, 128), where a gateway may answer. */
const UNSTATED: ReadonlySet<string> = new Set(["-", "maps.loads"]);

const isRefusal = ({ status }: Answer): boolean => status !== null && status >= 400;
const isKnownRefusal = (answer: Answer): boolean => isRefusal(answer) && bySubcode.has(answer.subcode ?? "");
const isPlatform = ({ testCall: { route } }: Answer): boolean => !UNSTATED.has(route) && !route.startsWith("keys.");
const envelopeOf = ({ status, subcode }: Answer) =>
  status === 422 ? "detail" : bySubcode.get(subcode as string)?.envelope;
/** Whether the caller's session has ended; how it is then answered is not specified (item 164 is about keys). */
const isEndedSession = ({ testCall: { credential, facts } }: Answer): boolean =>
  credential.as === "session" && (facts?.state ?? "valid") !== "valid";
const retryAfter = ({ headers }: Answer): string | undefined => headers["retry-after"];
const header = (answer: Answer, name: string): string =>
  `it was ${foreignHeader(answer.headers[name], answer.request.headers.origin)}`;

/** Tolerances: dates have whole seconds; without a `Date` header, two clocks are compared. */
const PAST_MS = 2_000;
const CLOCKS_DIFFER_MS = 300_000;

/** An allowance may be a month away, and nothing is further. */
const MONTHS_S = 62 * 86_400;

/** Whether a stated date has passed: RFC 9110 allows that, but then a client does not wait at all. */
const isPast = (stated: NonNullable<ReturnType<typeof readRetryAfter>>, { headers }: Answer): boolean => {
  if (!("atMs" in stated)) return false;
  if (headers.date === undefined) return stated.atMs < Date.now() - CLOCKS_DIFFER_MS;
  return stated.atMs < Date.parse(headers.date) - PAST_MS;
};

// biome-ignore format: a table, a rule in a few lines
const ANSWERS: readonly Rule[] = [
  must("envelope-fits-subcode", [59, 182, 183, 185, 188, 215], {
    title: "a subcode stands in its own envelope: {detail}, or flat {error} for the four structured 429",
    concerns: isKnownRefusal, nothing: "no refusal with a subcode came",
    expected: (answer) => envelopeOf(answer) === "flat" ? `{"error": "${answer.subcode}"} without detail` : `{"detail": "${answer.subcode}"}`,
    fault: (answer, checks) => {
      const isEither = EITHER_ENVELOPE.has(answer.subcode as string) && answer.envelope === "flat";
      if (isEither && envelopeOf(answer) !== "flat") checks.note(`${answer.subcode} in a flat body (A13)`);
      return unless(isEither || answer.envelope === envelopeOf(answer), `the envelope was ${answer.envelope}`);
    } }),
  must("status-fits-subcode", [188, 191, 192, 202, 204, 208, 210, 216], {
    title: "a subcode comes with its own status",
    concerns: isKnownRefusal, nothing: "no refusal with a subcode came",
    expected: ({ subcode }) => `status ${bySubcode.get(subcode as string)?.status} for ${subcode}`,
    fault: ({ subcode, status }) => unless(status === bySubcode.get(subcode as string)?.status, `it was ${status}`) }),
  must("subcode-is-in-the-catalogue", [182, 183, 188], {
    title: "a 403 or 429 of the platform carries a subcode of the specification",
    concerns: (answer) => (answer.status === 403 || answer.status === 429) && isPlatform(answer), nothing: "no 403 or 429 came",
    expected: "a subcode of section 7.2",
    fault: ({ subcode, envelope, outcome }, checks) => {
      // A firewall or balancer does not know the API's subcodes.
      if (subcode === null && envelope === "other") return void checks.note(`${outcome} from in between`);
      return unless(bySubcode.has(subcode ?? ""), `it was ${shapeOf(subcode ?? "none")}`);
    } }),
  must("unauthenticated-has-no-detail", [153, 189, 190], {
    title: "a 401 has no detail, but for publishable_requires_session",
    concerns: (answer) => answer.status === 401 && isPlatform(answer) && !isEndedSession(answer) && answer.subcode !== "publishable_requires_session",
    nothing: "no 401 came", expected: "a body without `detail`",
    fault: ({ fields }) => unless(!("detail" in fields), `the detail was ${shapeOf(fields.detail)}`) }),
  must("key-service-down-has-no-detail", [189, 216], {
    title: "a 503 has no detail",
    concerns: ({ status }) => status === 503, nothing: "no 503 came", expected: "a body without `detail`",
    fault: ({ fields }) => unless(!("detail" in fields), "there was one") }),
  // 502 and 504 come from a balancer, 503 from the key service.
  must("no-server-errors", [223], {
    title: "nothing is answered with a server error",
    concerns: ({ status }) => status !== null, nothing: "nothing was answered", expected: "no 5xx but 503",
    fault: ({ status, text }) => {
      const instead = status === 500 && text === "" ? " without a body: does something in front of the API put it in place of refusals (KrakenD without no-op)?" : "";
      return unless((status ?? 0) < 500 || /^50[234]$/.test(`${status}`), `it was ${status}${instead}`);
    } }),
  must("refusals-are-json", [182, 183], {
    title: "a refusal with a subcode is sent as JSON",
    concerns: (answer) => isRefusal(answer) && answer.body !== undefined && answer.subcode !== null,
    nothing: "no refusal with a subcode came", expected: "a JSON content type",
    fault: (answer, checks) => {
      const type = answer.headers["content-type"];
      return type === undefined ? void checks.note("a refusal without a content type") : unless(/json/i.test(type), header(answer, "content-type"));
    } }),
  should("success-has-no-error-key", [98, 106, 186], {
    title: "an answer under 200 with an error key is a failure, and comes for failures only",
    concerns: (answer) => isAdmitted(answer) && answer.testCall.route !== "chat.route" && answer.received.seen === null,
    nothing: "nothing was served", expected: "no error key on a correct call",
    fault: ({ outcome, text, body }) => unless(!outcome.endsWith(" error"), shapeOfBody(text, body)) }),
  // A should: item 214 has a client honour the header, and which answers carry it is a gap (218).
  should("rate-limited-says-when", [214, 217, 218], {
    title: "429 rate_limited carries a Retry-After that can be read",
    concerns: ({ subcode }) => subcode === "rate_limited", nothing: "nothing was rate limited",
    expected: "Retry-After in seconds or as a date",
    fault: (answer) => unless(readRetryAfter(retryAfter(answer) ?? "", Date.now()) !== null, header(answer, "retry-after")) }),
  must("tile-restriction-says-3600", [208, 226], {
    title: "429 tile_access_restricted carries Retry-After: 3600",
    concerns: ({ subcode }) => subcode === "tile_access_restricted", nothing: "no tile was restricted", expected: "Retry-After: 3600",
    fault: (answer) => unless(retryAfter(answer)?.trim() === "3600", header(answer, "retry-after")) }),
  should("retry-after-is-readable", [214, 217, 218], {
    title: "Retry-After is a number of seconds, or a date that has not passed, wherever it stands",
    concerns: (answer) => retryAfter(answer) !== undefined, nothing: "no answer carried Retry-After", expected: "seconds, or a date to come",
    fault: (answer) => {
      const text = retryAfter(answer) as string;
      const stated = readRetryAfter(text, Date.now());
      const isDate = stated !== null && "atMs" in stated;
      const came = isDate ? `${text}, with the Date ${answer.headers.date ?? "absent"}` : text;
      if (Number(text) > MONTHS_S) return `it was ${came}, which is years: is it a time since 1970?`;
      return unless(stated !== null && !isPast(stated, answer), `it was ${came}`);
    } }),
  must("quota-body-fields", [184, 227], {
    title: "map_load_quota_exceeded carries meter map_loads and the whole numbers limit and used, at its top level",
    concerns: ({ subcode }) => subcode === "map_load_quota_exceeded", nothing: "no allowance was used up",
    expected: "meter map_loads, whole numbers limit and used",
    fault: ({ fields: { meter, limit, used } }) => unless(meter === "map_loads" && Number.isInteger(limit) && Number.isInteger(used),
      `they were ${shapeOf({ meter, limit, used })}`) }),
  // RFC 9110 section 12.5.3; the specification is silent.
  should("answers-have-no-unasked-coding", [178], {
    title: "an answer that was asked for without a content coding has none",
    concerns: ({ status, request }) => status !== null && request.headers["accept-encoding"] === "identity",
    nothing: "no answer was asked for without a coding", expected: "no content-encoding, as asked for",
    fault: ({ headers }) => unless(codingOf(headers) === "", `it came as ${foreignName(codingOf(headers))}`) }),
];

/** Refusals of the exchange after the Origin was accepted (item 69). */
const PAST_THE_ORIGIN = new Set<string>([
  ...["insufficient_scope", "product_not_allowed", "tier_capability_not_allowed"],
  ...["map_load_quota_exceeded", "map_load_hard_stop"],
]);

const isForListed = ({ testCall, subcode, transient, outcome }: Answer): boolean => {
  const { origin, credential, route, originValue } = testCall;
  const ofBrowser = credential.as === "session" || credential.as === "publishable";
  if (origin !== "listed" || originValue !== undefined || !ofBrowser || transient) return false;
  if (route.startsWith("maps.") || route === "-") return false;
  return /^2/.test(outcome) || (route === "sdk.sessions" && PAST_THE_ORIGIN.has(subcode ?? ""));
};
const allowedIn = ({ headers }: Answer): string | undefined => headers["access-control-allow-origin"];

/** Credentials shorter than this may occur in an answer by chance. */
const SECRET_MIN = 20;
const LOOKS_SECRET = /svc_|eyJ/;
/** A server key or session that nobody here sent. Samples show placeholders, which rarely have digits. */
const ANOTHERS = /svc_(?:sk|sess)_(?=\w*\d)\w{20,}/;

const sentSecrets = async (context: Context): Promise<string[]> => {
  const secrets = new Set<string>();
  const used = new Set(context.answers.map(({ testCall }) => roleOf(testCall)));
  for (const name of KEY_ROLES) if (context.has(name) && used.has(name)) secrets.add(await context.secretOf(name));
  for (const { fields, testCall } of context.answers) {
    if (typeof fields.session_token === "string") secrets.add(fields.session_token);
    if (testCall.secret !== undefined) secrets.add(testCall.secret.value);
  }
  return [...secrets].filter((secret) => secret.length >= SECRET_MIN && LOOKS_SECRET.test(secret));
};

const textsOf = (answer: Answer): { where: string; text: string }[] => {
  const { route } = answer.testCall;
  const handsOut = route.startsWith("keys.") || (route === "sdk.sessions" && isAdmitted(answer));
  const headers = Object.entries(answer.headers).map(([name, text]) => ({ where: `the header ${name}`, text }));
  const body = answer.received.seen === null ? answer.text : answer.chunks.map(({ text }) => text).join("");
  return handsOut ? headers : [...headers, { where: "the body", text: body }];
};

const ROUNDED_S = 2;

/** Share of calls left without the API's own answer that goes without a word, unless `limits.unanswered_share` is stated. */
const UNANSWERED_SHARE = 0.01;

/** A correct or wrong call in the usual form, outside of bursts; firewalls stop odd ones. */
const isPlain = ({ testCall: { route, what, path, headers, secret, originValue, atOnce, anyway } }: Answer): boolean =>
  !UNSTATED.has(route) &&
  [what, path, headers, secret, originValue, atOnce, anyway].every((special) => special === undefined);

/** Some gateways put a page of their own in place of each error that passes them. Fewer statuses may be a firewall's. */
const REPLACED_STATUSES_LEAST = 3;
const REPLACED =
  "each refusal came as a page: does something in front of the API replace the bodies of its errors (Apache's ProxyErrorOverride, nginx's proxy_intercept_errors)?";
const areRefusalsReplaced = (answers: readonly Answer[]): boolean => {
  const refused = answers.filter(({ status }) => status !== null && status >= 400);
  const statuses = new Set(refused.map(({ status }) => status));
  return statuses.size >= REPLACED_STATUSES_LEAST && refused.every(({ foreign }) => foreign);
};

/** Says how many calls had another answer than the API's own, or one that passes. Availability is not specified. */
const judgeAway = (context: Context, checks: Checks): Verdict | string => {
  const plain = context.answers.filter(isPlain);
  const isAway = (answer: Answer): boolean =>
    answer.foreign || context.isStrange(answer) || (answer.transient && answer.subcode !== "rate_limited");
  const away = plain.filter(isAway);
  for (let k = away.length; k < plain.length; k++) checks.fine();
  const kinds = byFrequency(away, ({ outcome, received }) =>
    outcome === "indeterminate" ? `no answer (${foreignError(received.error ?? received.ended)})` : outcome,
  );
  const named = kinds.map(([kind, { length: n }]) => `${n} x ${kind}`);
  const what = "were refused for overload or an outage, or answered by an edge";
  const got = `${away.length} of ${plain.length} calls ${what}: ${someOf(named, 6)}`;
  const low = exactInterval(away.length, plain.length)?.low ?? 0;
  if (low <= (context.target.limits?.unanswered_share ?? UNANSWERED_SHARE)) {
    if (away.length > 0) checks.note(got);
    return "no call in the usual form was sent";
  }
  const advice = areRefusalsReplaced(context.answers) ? REPLACED : adviceOn(kinds[0]?.[0] ?? "");
  const reason = `${got}; ${advice}; availability is not specified, and what verify says is about the other calls`;
  const expected = "the API's own answer to almost every call";
  return { ...openBy("not-answered"), reason, expected, got, evidence: away.slice(0, 10).map(({ id }) => id) };
};

export const EVERY_ANSWER_RULES: readonly Rule[] = [
  ...ANSWERS,
  every.should("calls-are-answered", [210, 211, 213, 216, 223], {
    title: "almost every call has the API's own answer: none of an edge, no overload and no outage",
    step: async (context, checks) => judgeAway(context, checks),
  }),
  // If no answer has the header, a proxy may add it; if only some have it, browsers block the others.
  every.must("cors-for-every-answer-to-a-listed-origin", [159], {
    title:
      "where CORS is done here, every answer to an allowlisted Origin may be read there: streams and refusals as well",
    expected: "Access-Control-Allow-Origin with the Origin or * on each such answer",
    step: async (context, checks) => {
      const concerned = context.answers.filter((answer) => isForListed(answer) && !context.isStrange(answer));
      if (concerned.every((answer) => allowedIn(answer) === undefined))
        return checks.idle("no answer to an allowlisted Origin carries the header");
      for (const answer of concerned) {
        const sent = answer.request.headers.origin;
        const isAllowed = allowedIn(answer) === "*" || allowedIn(answer) === sent;
        checks.require(isAllowed, answer, `${sent} or *`, header(answer, "access-control-allow-origin"));
      }
    },
  }),
  // Sessions are renewed long before they expire, so one that was accepted once in a header must stay accepted in it.
  every.must("session-lasts", [23, 32], {
    title: "a session is taken for as long as expires_in says",
    step: async (context, checks) => {
      const taken = new Set<string>();
      for (const answer of context.answers) {
        const { credential, secret, form = "bearer", route, path, method } = answer.testCall;
        if (credential.as !== "session" || secret !== undefined || route === "sdk.sessions") continue;
        // An unknown path or method says nothing about the session.
        if (answer.transient || context.isStrange(answer) || path !== undefined || method !== undefined) continue;
        const way = `${credential.of} ${credential.product} ${form}`;
        if (answer.status !== 401) taken.add(way);
        const got = inWords(answer);
        if (taken.has(way)) checks.require(answer.status !== 401, answer, "no 401 before expires_in has passed", got);
      }
      return checks.idle("no session was used");
    },
  }),
  // A19: a session may be returned again, with the rest of its life as `expires_in`.
  every.must("session-expires-in-remains", [32], {
    title: "a session that is given out again is returned with the lifetime that remains",
    step: async (context, checks) => {
      const first = new Map<string, { atS: number; leftS: number }>();
      for (const answer of context.answers) {
        const { session_token: token, expires_in: leftS } = answer.fields;
        if (answer.testCall.route !== "sdk.sessions" || typeof token !== "string" || typeof leftS !== "number")
          continue;
        const now = { atS: answer.received.sentUs / 1e6, leftS };
        const before = known(first, token, () => now);
        if (before === now) continue;
        const passedS = now.atS - before.atS;
        const mostS = before.leftS - passedS + ROUNDED_S;
        const got = `it was ${before.leftS}, and ${leftS} for the same session ${Math.round(passedS)} s later`;
        checks.require(leftS <= mostS, answer, `at most ${Math.ceil(mostS)}`, got);
      }
      return checks.idle("no session was given out twice");
    },
  }),
  // A should, because the specification is silent; an echoed credential would reach logs and caches.
  every.should("credentials-are-not-echoed", [50], {
    title: "no answer repeats a credential or shows another one, in its headers or in its body",
    stands_alone: true,
    step: async (context, checks) => {
      const secrets = await sentSecrets(context);
      for (const answer of context.answers) {
        const { method, url } = answer.request;
        const texts = textsOf(answer).filter(({ text }) => LOOKS_SECRET.test(text));
        const found = texts.find(({ text }) => ANOTHERS.test(text) || secrets.some((secret) => text.includes(secret)));
        const got = `one stands in ${found?.where} of the answer to ${method} ${new URL(url).pathname}`;
        if (found === undefined) checks.fine();
        else checks.breach("no credential in an answer", got, [answer]);
      }
    },
  }),
];
