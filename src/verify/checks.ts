/** Makes one verdict of a rule's findings: a breach fails; without one, an unclear answer is inconclusive. */
import { maskSecrets } from "../contract/credentials.ts";
import { counted } from "../contract/lists.ts";
import { outcomeOf, REFUSALS, type RefusalName } from "../contract/refusals.ts";
import { BROKEN, HELD, type OpenCode, openBy, type Ruling, skippedBy } from "../history/reason-codes.ts";
import { type Answer, cacheInWords, inWords, isAdmitted, successInWords } from "./sending/answer.ts";
import { describe } from "./sending/test-call.ts";

export type Failure = {
  expected: string;
  got: string;
  /** The calls that show the breach, the decisive one last. */
  steps: readonly Answer[];
  /** Outcomes that pass for the last call; `null` if one call alone does not decide. */
  accepts: readonly string[] | null;
};

export type Verdict = Ruling &
  Record<"reason" | "expected" | "got", string> & {
    evidence: string[];
    failures?: readonly Failure[];
    /** A sentence that names the spent budget, if that budget made the rule inconclusive. */
    spent?: string;
    /** What the rule judges did not happen, and no call can cause it. */
    idle?: true;
  };

export const OPEN = "recorded, not judged: the specification leaves it open";

export const RECORDED = { verdict: "pass", code: "recorded" } as const;

export const recorded = (got: string, answers: readonly Answer[], reason = OPEN): Verdict => ({
  ...(answers.some(({ transient }) => transient) ? openBy("refused-for-load") : RECORDED),
  ...{ reason, expected: "anything", got: maskSecrets(got), evidence: answers.map(({ id }) => id) },
});

/** Why a rule was not judged. `inconclusive` leaves the run open; `skipped` does not. */
export type Open = Exclude<Ruling, { verdict: "pass" | "fail" }> & { readonly reason: string; readonly spent?: string };

/** Thrown to end a rule without a verdict on its findings so far. */
export class CannotJudge extends Error {
  override name = "CannotJudge";
  readonly open: Open;
  /** The refusal that left the rule open, if it was one. */
  readonly steps: readonly Answer[];
  constructor(open: Open, steps: readonly Answer[] = []) {
    super(open.reason);
    this.open = open;
    this.steps = steps;
  }
}

export const inconclusive = (code: OpenCode, reason: string, steps?: readonly Answer[]): CannotJudge =>
  new CannotJudge({ ...openBy(code), reason }, steps);
export const skipped = (code: OpenCode, reason: string): CannotJudge => new CannotJudge({ ...skippedBy(code), reason });

/** Why an answer decides nothing. */
export const codeOf = ({ foreign, status }: Pick<Answer, "foreign" | "status">): OpenCode => {
  if (foreign) return "edge-answered";
  // A 503 says that the limiter or the key service was not there.
  if (status === null || status >= 500) return "not-answered";
  return status === 429 ? "refused-for-load" : "unclear-answer";
};

/** The accepted outcome that stands for any 2xx without an `error` key. */
export const ANY_SUCCESS = "2xx";

/** What an answer is expected to be: a refusal's name, `2xx`, or an outcome itself, such as `200 error`. */
export type Fit = RefusalName | typeof ANY_SUCCESS | (string & {});
export type Fits = Fit | readonly Fit[];

export const outcomesOf = (wanted: Fits): string[] =>
  [wanted].flat().map((fit) => (Object.hasOwn(REFUSALS, fit) ? outcomeOf(fit as RefusalName) : (fit as string)));

const EVIDENCE_MAX = 10;
const STEPS_MAX = 6;
export const SESSIONS_OFF = [outcomeOf("sessions_disabled"), outcomeOf("sessions_not_configured")];

/** Whether the operator has switched sessions off (items 161-162). The exchange is then not judged. */
export const isSessionsOff = (answer: Answer): boolean =>
  answer.testCall.route === "sdk.sessions" && SESSIONS_OFF.includes(answer.outcome);

export const fits = ({ outcome }: Pick<Answer, "outcome">, wanted: Fits): boolean =>
  outcomesOf(wanted).some((one) => one === outcome || (one === ANY_SUCCESS && /^2\d\d$/.test(outcome)));

export const callInWords = (answer: Answer): string => `${describe(answer)}: ${inWords(answer)}`;

const ofAGateway = (answer: Answer): string =>
  `${callInWords(answer)} (not in the API's envelope: a gateway's answer says nothing about the API, so try an address behind it; if there is no gateway, the API itself answers so)`;

/** The first of the judged answers that came out of a cache, which may have made it for another call. */
const copyIn = (failures: readonly Failure[]): string => {
  const [how] = failures.flatMap(({ steps }) => steps.map(cacheInWords).findLast((words) => words !== null) ?? []);
  const todo = "compare with an address behind the cache: if the rule holds there, let the cache pass such calls on";
  return how === undefined ? "" : `; an answer came ${how}: ${todo}`;
};

/** `fault` says what is wrong with `one`: `null` if nothing is, `undefined` if that cannot be told. */
export type Judgement<T> = {
  expected: string | ((one: T) => string);
  fault(one: T, checks: Checks): string | null | undefined;
};

export type Checks = ReturnType<typeof createChecks>;

export const createChecks = (expected: string) => {
  let [seen, off, isIdle] = [0, "", false];
  let nothingBy: OpenCode = "not-seen";
  let spent: string | undefined;
  const unclear: { why: string; code: OpenCode }[] = [];
  const [notes, failures] = [[] as string[], [] as Failure[]];

  const checks = {
    get failed(): boolean {
      return failures.length > 0;
    },
    /**
     * Judges an answer by its outcome. Returns whether it fits. `wanted`: what the specification says, as the reference
     * reads it. `steps`: the calls before it, for the crash file. `or`: outcomes of other readings, which pass with a note.
     */
    expect: (answer: Answer, wanted: Fits, steps: readonly Answer[] = [], or: Fits = []): boolean => {
      if (fits(answer, wanted)) {
        checks.fine();
        if (answer.legacy) checks.note("uses the older name origin_not_allowed");
        return true;
      }
      if (answer.foreign) checks.unclear(ofAGateway(answer), answer);
      else if (answer.transient)
        checks.unclear(
          `${callInWords(answer)} (overload, a rate limit or a missing answer does not decide this)`,
          answer,
        );
      else if (isSessionsOff(answer)) off = answer.outcome;
      else {
        const accepts = outcomesOf(wanted);
        // A11: on one route a deployment may report every failure under status 200.
        const isToldUnder200 = answer.testCall.route === "chat.route" && answer.outcome === "200 error";
        const refusalWanted = !accepts.some((outcome) => outcome.startsWith("2"));
        if (fits(answer, or) || (refusalWanted && isToldUnder200)) {
          checks.fine();
          checks.note(`${answer.outcome} where ${accepts.join(" or ")} is the reference's reading`);
          return true;
        }
        const served = refusalWanted && isAdmitted(answer) ? successInWords(answer) : "";
        const passing = [...accepts, ...outcomesOf(or)];
        checks.breach(accepts.join(" or "), callInWords(answer) + served, [...steps, answer], passing);
      }
      return false;
    },
    admits: (answer: Answer, steps?: readonly Answer[]): boolean => checks.expect(answer, ANY_SUCCESS, steps),
    require: (holds: boolean, answer: Answer, wanted: string, got: string): boolean => {
      if (holds) checks.fine();
      else checks.breach(wanted, `${callInWords(answer)}: ${got}`, [answer]);
      return holds;
    },
    judge: <T>(one: T, answer: Answer, { expected: wanted, fault }: Judgement<T>): void => {
      const wrong = fault(one, checks);
      const text = typeof wanted === "string" ? wanted : wanted(one);
      if (wrong !== undefined) checks.require(wrong === null, answer, text, wrong ?? "");
    },
    breach: (wanted: string, got: string, steps: readonly Answer[], accepts: Failure["accepts"] = null): void => {
      const foreign = steps.find((answer) => answer.foreign);
      if (foreign !== undefined) checks.unclear(ofAGateway(foreign), foreign);
      else failures.push({ expected: wanted, got, steps: steps.slice(-STEPS_MAX), accepts });
    },
    /** `by`: the answer that decides nothing, or another cause. */
    unclear: (why: string, by: Answer | OpenCode = "unclear-answer"): void =>
      void unclear.push({ why, code: typeof by === "string" ? by : codeOf(by) }),
    isUnclear: (answer: Answer): boolean => {
      if (answer.transient) checks.unclear(inWords(answer), answer);
      return answer.transient;
    },
    /** Counts the answers that cannot be judged as unclear, and returns the others. */
    setAsideUnclear: (answers: readonly Answer[]): Answer[] => answers.filter((answer) => !checks.isUnclear(answer)),
    /** Records that a part was not tried for lack of budget. A budget that never allowed it is only noted. */
    short: (shortage: Open | null, what: string): void => {
      if (shortage?.verdict === "skipped") checks.note(`${what}: not tried, ${shortage.reason}`);
      else if (shortage !== null) {
        checks.unclear(shortage.reason, shortage.code);
        spent = shortage.spent ?? shortage.reason;
      }
    },
    note: (text: string): void => void notes.push(text),
    fine: (): void => {
      seen += 1;
    },
    /** Marks the rule as idle if nothing is seen, because no caller can cause what it judges. Returns the reason. */
    idle: <T extends string>(reason: T): T => {
      isIdle = true;
      return reason;
    },
    /** States why nothing could be judged, where the cause is not that nothing was seen. Returns the reason. */
    because: (code: OpenCode, reason: string): string => {
      nothingBy = code;
      return reason;
    },
    result: (nothing = "nothing could be tried"): Verdict => {
      const told = [...Map.groupBy(notes, (text) => text)].map(([text, { length: n }]) =>
        n > 1 ? `${text} (${n} times)` : text,
      );
      const evidence = failures.flatMap(({ steps }) => steps.at(-1)?.id ?? []).slice(0, EVIDENCE_MAX);
      const made = (ruling: Ruling, why: string, got: string): Verdict => {
        const reason = maskSecrets([why, ...told].join("; "));
        return { ...ruling, reason, expected, got: maskSecrets(got), evidence };
      };
      const [failure] = failures;
      if (failure !== undefined) {
        // The sentence names the outcome if that is what was judged; `got` has the rest.
        const came = failure.accepts === null ? "" : `, got ${failure.steps.at(-1)?.outcome}`;
        const count = counted(failures.length, "call");
        const reason = `expected ${failure.expected}${came}; ${count} did not match${copyIn(failures)}`;
        return { ...made(BROKEN, reason, failure.got), failures };
      }
      if (off !== "" && seen === 0) return made(skippedBy("not-provided"), `skipped: ${off}`, "not judged");
      const [first] = unclear;
      const reason = `${counted(unclear.length, "call")} could not be judged: ${first?.why}`;
      if (first !== undefined) return { ...made(openBy(first.code), reason, "not enough to judge by"), spent };
      if (seen > 0) return made(HELD, `${seen} checked`, "as expected");
      return { ...made(skippedBy(nothingBy), `skipped: ${nothing}`, "not judged"), ...(isIdle ? { idle: true } : {}) };
    },
  };
  return checks;
};
