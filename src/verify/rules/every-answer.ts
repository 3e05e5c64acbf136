/**
 * What holds for every answer of the run, whoever asked (section 7.1; items 182-191, 208, 214, 223): envelopes, subcodes and
 * their statuses, headers that clients need. Nothing is sent for these.
 */
import { REFUSALS } from "../../contract/subcodes.ts";
import { type Answer, isAdmitted, told } from "../answer.ts";
import { Checks } from "../checks.ts";
import type { Context } from "../context.ts";
import { retryAfterMs } from "../retry-after.ts";
import type { Rule } from "../rule.ts";

type Look = (checks: Checks, answer: Answer) => void;

export const everyAnswer = (
  rule: Omit<Rule, "run" | "phase" | "needs">,
  concerns: (answer: Answer) => boolean,
  look: Look,
  nothing: string,
): Rule => ({
  ...rule,
  phase: "every-answer",
  needs: {},
  run: async (context: Context) => {
    const checks = new Checks(rule.title);
    // Half an answer says nothing of the other half.
    const whole = context.answers.filter(({ outcome }) => outcome !== "indeterminate");
    for (const answer of whole) if (concerns(answer)) look(checks, answer);
    const result = checks.result(nothing);
    return result.verdict === "skipped" ? { ...result, idle: true } : result;
  },
});

const bySubcode = new Map(
  Object.values(REFUSALS).flatMap((refusal) => (refusal.subcode === null ? [] : [[refusal.subcode, refusal] as const])),
);

/** A13: their envelope is not stated; the flat one passes with a note. */
const EITHER_ENVELOPE = new Set(["limiter_unavailable", "rate_limited"]);

const isRefusal = (answer: Answer): boolean => answer.status !== null && answer.status >= 400;
const isManagement = (answer: Answer): boolean => answer.probe.route.startsWith("keys.");

const envelopeFits = everyAnswer(
  {
    id: "envelope-fits-subcode",
    level: "must",
    spec: [59, 182, 183, 185, 188, 215],
    title: "a subcode stands in its own envelope: {detail}, or flat {error} for the four structured 429",
  },
  (answer) => isRefusal(answer) && bySubcode.has(answer.subcode ?? ""),
  (checks, answer) => {
    const refusal = bySubcode.get(answer.subcode as string);
    const wanted = answer.status === 422 ? "detail" : refusal?.envelope;
    if (answer.envelope === wanted) return checks.fine();
    if (EITHER_ENVELOPE.has(answer.subcode as string) && answer.envelope === "flat") {
      checks.fine();
      return checks.note(`${answer.subcode} in a flat body (A13)`);
    }
    const shape =
      wanted === "flat" ? `{"error": "${answer.subcode}"} without detail` : `{"detail": "${answer.subcode}"}`;
    checks.require(false, answer, shape, `the envelope was ${answer.envelope}`);
  },
  "no refusal with a subcode came",
);

const statusFits = everyAnswer(
  {
    id: "status-fits-subcode",
    level: "must",
    spec: [188, 191, 192, 202, 204, 208, 210, 216],
    title: "a subcode comes with its own status",
  },
  (answer) => isRefusal(answer) && bySubcode.has(answer.subcode ?? ""),
  (checks, answer) => {
    const { subcode, status } = answer;
    const wanted = bySubcode.get(subcode as string)?.status;
    checks.require(status === wanted, answer, `status ${wanted} for ${subcode}`, `it was ${status}`);
  },
  "no refusal with a subcode came",
);

const knownSubcode = everyAnswer(
  {
    id: "subcode-is-in-the-catalogue",
    level: "must",
    spec: [182, 183, 188],
    title: "a 403 or 429 of the platform carries a subcode of the specification",
  },
  (answer) => (answer.status === 403 || answer.status === 429) && !isManagement(answer) && answer.probe.route !== "-",
  (checks, answer) => {
    // A firewall or a balancer in front does not speak the API's language, and is not the API.
    if (answer.subcode === null && answer.envelope === "other") return checks.note(`${answer.outcome} from in between`);
    const known = bySubcode.has(answer.subcode ?? "");
    checks.require(known, answer, "a subcode of section 7.2", `it was ${answer.subcode ?? "none"}`);
  },
  "no 403 or 429 came",
);

/** Item 164: it is stated of keys; what a session that is over is told is a gap. */
const isEndedSession = ({ probe }: Answer): boolean =>
  probe.credential.as === "session" && probe.facts?.state !== undefined && probe.facts.state !== "valid";

const plain401 = everyAnswer(
  {
    id: "unauthenticated-has-no-detail",
    level: "must",
    spec: [153, 189, 190],
    title: "a 401 has no detail, but for publishable_requires_session",
  },
  (answer) =>
    answer.status === 401 &&
    !isManagement(answer) &&
    !isEndedSession(answer) &&
    answer.subcode !== "publishable_requires_session",
  (checks, answer) => {
    checks.require(
      !("detail" in answer.fields),
      answer,
      "a body without `detail`",
      `the detail was ${JSON.stringify(answer.fields.detail)?.slice(0, 100)}`,
    );
  },
  "no 401 came",
);

const plain503 = everyAnswer(
  {
    id: "key-service-down-has-no-detail",
    level: "must",
    spec: [189, 216],
    title: "a 503 has no detail",
  },
  (answer) => answer.status === 503,
  (checks, answer) => {
    checks.require(!("detail" in answer.fields), answer, "a body without `detail`", "there was one");
  },
  "no 503 came",
);

/** 502 and 504 are a balancer's words, 503 is the key service's. */
const BETWEEN = new Set([502, 503, 504]);

const noServerError = everyAnswer(
  {
    id: "no-server-errors",
    level: "must",
    spec: [223],
    title: "nothing is answered with a server error",
  },
  (answer) => answer.status !== null,
  (checks, answer) => {
    const { status } = answer;
    const broke = status !== null && status >= 500 && !BETWEEN.has(status);
    checks.require(!broke, answer, "no 5xx but 503", `it was ${status}`);
  },
  "nothing was answered",
);

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
    const readable = text !== undefined && retryAfterMs(text, Date.now()) !== undefined;
    checks.require(readable, answer, "Retry-After in seconds or as a date", `it was ${text ?? "absent"}`);
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
    checks.require(text?.trim() === "3600", answer, "Retry-After: 3600", `it was ${text ?? "absent"}`);
  },
  "no tile was restricted",
);

const retryAfterReads = everyAnswer(
  {
    id: "retry-after-is-readable",
    level: "should",
    spec: [217, 218],
    title: "Retry-After is a number of seconds or a date wherever it stands",
  },
  (answer) => answer.headers["retry-after"] !== undefined,
  (checks, answer) => {
    const text = answer.headers["retry-after"] as string;
    checks.require(retryAfterMs(text, Date.now()) !== undefined, answer, "seconds or a date", `it was ${text}`);
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
    const came = JSON.stringify({ meter, limit, used });
    checks.require(fits, answer, "meter map_loads, whole numbers limit and used", `they were ${came}`);
  },
  "no allowance was used up",
);

const refusalsAreJson = everyAnswer(
  {
    id: "refusals-are-json",
    level: "must",
    spec: [182, 183],
    title: "a refusal with a subcode is sent as JSON",
  },
  (answer) => isRefusal(answer) && answer.body !== undefined && answer.subcode !== null,
  (checks, answer) => {
    const type = answer.headers["content-type"];
    if (type === undefined) return checks.note("a refusal without a content type");
    checks.require(/json/i.test(type), answer, "a JSON content type", `it was ${type}`);
  },
  "no refusal with a subcode came",
);

const secretsStay = everyAnswer(
  {
    id: "credentials-are-not-echoed",
    level: "info",
    spec: [50],
    title: "whether a refusal repeats the credential that was sent",
  },
  (answer) => isRefusal(answer) && answer.probe.secret?.value.startsWith("svc_") === true,
  (checks, answer) => {
    checks.require(
      !answer.text.includes(answer.probe.secret?.value ?? "-"),
      answer,
      "no credential in the body",
      "it stands in it",
    );
  },
  "no refusal of a key came",
);

const successHasNoError = everyAnswer(
  {
    id: "success-has-no-error-key",
    level: "should",
    spec: [98, 106, 186],
    title: "an answer under 200 with an error key is a failure, and comes for failures only",
  },
  (answer) => isAdmitted(answer) && answer.probe.route !== "chat.route" && answer.exchanged.seen === null,
  (checks, answer) => {
    checks.require(
      !answer.outcome.endsWith(" error"),
      answer,
      "no error key on a correct call",
      answer.text.slice(0, 120),
    );
  },
  "nothing was served",
);

/** Refusals of the exchange that come after the Origin was found listed (item 69). */
const PAST_THE_ORIGIN = new Set<string>([
  ...["insufficient_scope", "product_not_allowed", "tier_capability_not_allowed"],
  ...["map_load_quota_exceeded", "map_load_hard_stop"],
]);

/** What a page on an allowlisted Origin is answered, once its Origin has surely been looked at. */
const isForListed = ({ probe, subcode, transient, outcome }: Answer): boolean => {
  const { origin, credential, route, originValue } = probe;
  const ofBrowser = credential.as === "session" || credential.as === "publishable";
  if (origin !== "listed" || originValue !== undefined || !ofBrowser || transient) return false;
  if (route.startsWith("maps.") || route === "-") return false;
  return /^2/.test(outcome) || (route === "sdk.sessions" && PAST_THE_ORIGIN.has(subcode ?? ""));
};

/**
 * Item 159: a CORS block means that the Origin is not in the allowlist. Where no answer at all has the header, it may be put on
 * further in front; where some have it, the others are blocked although their Origin is listed.
 */
const corsIsWhole: Rule = {
  id: "cors-for-every-answer-to-a-listed-origin",
  level: "must",
  spec: [159],
  title:
    "where CORS is done here, every answer to an allowlisted Origin may be read there: streams and refusals as well",
  phase: "every-answer",
  needs: {},
  run: async (context) => {
    const checks = new Checks("Access-Control-Allow-Origin with the Origin or * on each such answer");
    const concerned = context.answers.filter(isForListed);
    const allowedIn = (answer: Answer): string | undefined => answer.headers["access-control-allow-origin"];
    if (concerned.every((answer) => allowedIn(answer) === undefined)) {
      return { ...checks.result("no answer to an allowlisted Origin carries the header"), idle: true };
    }
    for (const answer of concerned) {
      const [allowed, sent] = [allowedIn(answer), answer.request.headers.origin];
      const fits = allowed === "*" || allowed === sent;
      checks.require(fits, answer, `${sent} or *`, `it was ${allowed ?? "absent"}`);
    }
    return checks.result();
  },
};

/** Sessions of the roles, minted again long before their end: each way of sending one that was good stays good. */
const sessionLasts: Rule = {
  id: "session-lasts",
  level: "must",
  spec: [23, 32],
  title: "a session is taken for as long as expires_in says",
  phase: "every-answer",
  needs: {},
  run: async (context) => {
    const checks = new Checks("no 401 for a session within its expires_in that was taken before");
    const taken = new Set<string>();
    for (const answer of context.answers) {
      const { credential, secret, form = "bearer", route, path, method } = answer.probe;
      if (credential.as !== "session" || secret !== undefined || route === "sdk.sessions" || answer.transient) continue;
      // What comes to an address or a method that does not exist says nothing of the session.
      if (path !== undefined || method !== undefined) continue;
      const way = `${credential.of} ${credential.product} ${form}`;
      if (answer.status !== 401) taken.add(way);
      else if (!taken.has(way)) continue;
      checks.require(answer.status !== 401, answer, "no 401 before expires_in has passed", told(answer));
    }
    const result = checks.result("no session was used");
    return result.verdict === "skipped" ? { ...result, idle: true } : result;
  },
};

export const EVERY_ANSWER_RULES: readonly Rule[] = [
  envelopeFits,
  statusFits,
  knownSubcode,
  plain401,
  plain503,
  noServerError,
  rateLimited,
  restrictedSays3600,
  retryAfterReads,
  quotaFields,
  refusalsAreJson,
  secretsStay,
  successHasNoError,
  corsIsWhole,
  sessionLasts,
];
