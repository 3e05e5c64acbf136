/**
 * What holds for every answer of the run, whoever asked (section 7.1; items 182-191, 223): envelopes, subcodes and their
 * statuses. Nothing is sent for these.
 */
import { foreignHeader, shapeOf, shapeOfBody } from "../../../contract/foreign-text.ts";
import { REFUSALS } from "../../../contract/refusals.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";

type Look = (checks: Checks, answer: Answer) => void;

export const everyAnswer = (
  rule: Omit<Rule, "run" | "phase" | "needs" | "cost">,
  concerns: (answer: Answer) => boolean,
  look: Look,
  nothing: string,
): Rule => ({
  ...rule,
  phase: "every-answer",
  needs: {},
  cost: { calls: 0 },
  run: async (context: Context) => {
    const checks = new Checks(rule.title);
    // Half an answer says nothing of the other half, and a gateway's nothing of the API's.
    const whole = context.answers.filter(({ outcome, foreign }) => outcome !== "indeterminate" && !foreign);
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
/** Paths that nobody has stated (items 18, 128): what a gateway says there is not the API's word. */
const UNSTATED: ReadonlySet<string> = new Set(["-", "maps.loads"]);
const isStated = (answer: Answer): boolean => !UNSTATED.has(answer.testCall.route);
const isManagement = (answer: Answer): boolean => answer.testCall.route.startsWith("keys.");

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
  (answer) => (answer.status === 403 || answer.status === 429) && !isManagement(answer) && isStated(answer),
  (checks, answer) => {
    // A firewall or a balancer in front does not speak the API's language, and is not the API.
    if (answer.subcode === null && answer.envelope === "other") return checks.note(`${answer.outcome} from in between`);
    const known = bySubcode.has(answer.subcode ?? "");
    checks.require(known, answer, "a subcode of section 7.2", `it was ${shapeOf(answer.subcode ?? "none")}`);
  },
  "no 403 or 429 came",
);

/** Item 164: it is stated of keys; the answer to a session that is over is a gap. */
const isEndedSession = ({ testCall }: Answer): boolean =>
  testCall.credential.as === "session" && testCall.facts?.state !== undefined && testCall.facts.state !== "valid";

const plain401 = everyAnswer(
  {
    id: "unauthenticated-has-no-detail",
    level: "must",
    spec: [153, 189, 190],
    title: "a 401 has no detail, but for publishable_requires_session",
  },
  (answer) =>
    answer.status === 401 &&
    isStated(answer) &&
    !isManagement(answer) &&
    !isEndedSession(answer) &&
    answer.subcode !== "publishable_requires_session",
  (checks, answer) => {
    checks.require(
      !("detail" in answer.fields),
      answer,
      "a body without `detail`",
      `the detail was ${shapeOf(answer.fields.detail)}`,
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
    checks.require(/json/i.test(type), answer, "a JSON content type", `it was ${foreignHeader(type)}`);
  },
  "no refusal with a subcode came",
);

const successHasNoError = everyAnswer(
  {
    id: "success-has-no-error-key",
    level: "should",
    spec: [98, 106, 186],
    title: "an answer under 200 with an error key is a failure, and comes for failures only",
  },
  (answer) => isAdmitted(answer) && answer.testCall.route !== "chat.route" && answer.received.seen === null,
  (checks, answer) => {
    checks.require(
      !answer.outcome.endsWith(" error"),
      answer,
      "no error key on a correct call",
      shapeOfBody(answer.text, answer.body),
    );
  },
  "nothing was served",
);

export const EVERY_ANSWER_RULES: readonly Rule[] = [
  envelopeFits,
  statusFits,
  knownSubcode,
  plain401,
  plain503,
  noServerError,
  refusalsAreJson,
  successHasNoError,
];
