/** One cheap call with a key: a chat session for a publishable key, the style catalog for a server key. */
import { CredentialMissingError } from "../../client/credential-book.ts";
import { networkAdvice } from "../../client/network-errors.ts";
import { BudgetSpentError } from "../../target/budget.ts";
import { SecretError } from "../../target/secrets.ts";
import type { CallerName } from "../../workload/callers/target-view.ts";
import { type CredentialRef, type Step, stepOf } from "../../workload/step.ts";
import { type Finding, finding } from "./finding.ts";
import { isPassing, refusalAdvice } from "./refusal-advice.ts";
import { ADMITTED, type Expectation } from "./role-expectations.ts";
import { type Answered, CallsSpentError, isAdmitted, type SingleCalls } from "./single-calls.ts";

export type KeyTrial = {
  /** In the report. */
  readonly name: string;
  readonly of: CallerName;
  /** Where it stands in the file. */
  readonly where: string;
  readonly origin: string | undefined;
  readonly expected: Pick<Expectation, "via" | "accepts" | "means">;
};

const stepFor = ({ of, expected }: KeyTrial, calls: SingleCalls, via: Step["via"]): Step => {
  if (expected.via === "catalog") {
    const credential: CredentialRef = { as: "server", of };
    return stepOf(calls.view, 0, { route: "design.styles", credential, via });
  }
  const credential: CredentialRef = { as: "publishable", of };
  return stepOf(calls.view, 0, { route: "sdk.sessions", credential, origin: "listed", product: "chat", via });
};

const fits = (outcome: string, accepts: readonly string[]): boolean =>
  accepts.some((one) => (one === ADMITTED ? isAdmitted(outcome) : one === outcome));

const inWords = (accepts: readonly string[], via: Expectation["via"]): string =>
  accepts
    .map((one) =>
      one !== ADMITTED ? one : via === "exchange" ? "200 and a chat session" : "200 and the style catalog",
    )
    .join(" or ");

const tookMs = ({ tookMs: ms }: Answered): string => `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;

/** What an answer that does not fit means. */
export const misfit = (trial: KeyTrial, sent: Answered): Finding => {
  const { name, where, origin, expected } = trial;
  const { outcome, error } = sent.line;
  if (sent.answer.status === null) {
    const { means, todo } = networkAdvice(error ?? sent.answer.ended);
    return finding("silent", name, `no answer (${error ?? sent.answer.ended}): ${means}`, todo);
  }
  if (isPassing(outcome)) {
    return finding("warn", name, `${outcome}: not to be seen now, the deployment is busy`, "run doctor again later");
  }
  const text = `expected ${inWords(expected.accepts, expected.via)}; got ${outcome}`;
  const todo = expected.accepts.includes(ADMITTED)
    ? refusalAdvice(outcome, where, origin)
    : `is this ${expected.means}? Name one at ${where}, or leave the role out`;
  return finding("wrong", name, text, todo);
};

/** Errors that belong to one role: its reference, its origin, or no call left for it. */
export const failedTrial = (name: string, where: string, error: unknown): Finding => {
  if (error instanceof SecretError) return finding("wrong", name, error.message);
  if (error instanceof CredentialMissingError) {
    return finding(
      "wrong",
      name,
      `expected an origin at ${where}.origin, got none`,
      "write one that is in the key's allowlist",
    );
  }
  if (error instanceof BudgetSpentError || error instanceof CallsSpentError) {
    return finding("skipped", name, `not tried: ${error.message}`);
  }
  throw error;
};

type KeyTried = { readonly finding: Finding; readonly sent?: Answered };

/** Two calls at the most: a deployment may look into one header alone (items 22, 143). */
export const tryKey = async (trial: KeyTrial, calls: SingleCalls): Promise<KeyTried> => {
  const { name, where, expected } = trial;
  try {
    let sent = await calls.call(stepFor(trial, calls, "authorization"));
    let remark = "";
    if (sent.line.outcome === "401" && !fits("401", expected.accepts) && calls.left() > 0) {
      const again = await calls.call(stepFor(trial, calls, "x-api-key"));
      if (again.line.outcome !== "401") {
        sent = again;
        remark = "; in X-Api-Key alone, as Authorization: Bearer it is 401";
      }
    }
    const { outcome } = sent.line;
    if (!fits(outcome, expected.accepts)) return { finding: misfit(trial, sent), sent };
    const good = expected.via === "exchange" ? "mints a chat session" : "reads the style catalog";
    const text = isAdmitted(outcome)
      ? `${good} (${outcome}, ${tookMs(sent)})${remark}`
      : `${outcome}, as expected of this role (${tookMs(sent)})`;
    return { finding: finding(remark === "" ? "ok" : "warn", name, text), sent };
  } catch (error) {
    return { finding: failedTrial(name, where, error) };
  }
};
