/**
 * The few calls that `doctor` makes: one after the other, each counted against `budget.requests` and against a bound of
 * our own, and each read for what it says by the way (clock, echo, redirect).
 */
import { type ApiClient, openApiClient, type Sent } from "../../client/api-client.ts";
import { createRunClock } from "../../client/clock.ts";
import type { Budget } from "../../target/budget.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import type { Step } from "../../workload/step.ts";

/** Nobody calls as many calls load; `doctor` makes no more, whatever the file names. */
export const CALLS_MAX = 60;

const PATIENCE = { callMs: 15_000, firstEventMs: 10_000, idleMs: 10_000 };

/** The bound of `doctor` itself: what is left over is not tried, and said so. */
export class CallsSpentError extends Error {
  override name = "CallsSpentError";
}

export type Answered = Sent & {
  /** The `X-Request-Id` that was sent. */
  id: string;
  /** Milliseconds from the first byte out to the end of the answer. */
  tookMs: number;
};

export type SingleCalls = {
  readonly view: TargetView;
  readonly book: ApiClient["book"];
  readonly answers: readonly Answered[];
  /** How many calls may still be made. */
  left(): number;
  /** Counts calls that go elsewhere, to a control plane for instance. Throws as `call` does. */
  take(calls: number): void;
  /** Throws `CallsSpentError`, `BudgetSpentError`, or what reading the credential throws. */
  call(step: Step, keepEvents?: boolean): Promise<Answered>;
  close(): Promise<void>;
};

/** The value of a header that may come several times. */
export const headerOf = ({ answer }: Sent, name: string): string | undefined => {
  const value = answer.headers[name];
  return Array.isArray(value) ? value.join(", ") : value;
};

export const isAdmitted = (outcome: string): boolean => /^2\d\d$/.test(outcome);

/** Throws `SecretError` when what the file says about connecting cannot be read. */
export const openSingleCalls = async (parts: {
  target: Target;
  secrets: Secrets;
  budget: Budget;
  callsMax?: number;
}): Promise<SingleCalls> => {
  const { target, secrets, budget, callsMax = CALLS_MAX } = parts;
  const view = viewOf(target);
  const answers: Answered[] = [];
  let made = 0;
  const prefix = `doctor.${Math.floor(Math.random() * 2 ** 32).toString(36)}`;
  // Counted from 1970, so that an answer's `Date` can be held against it.
  const clock = createRunClock(0);
  const client = await openApiClient({
    target,
    secrets,
    view,
    clock,
    timeouts: PATIENCE,
    idPrefix: prefix,
    stage: "doctor",
    driver: "doctor",
    onLine: () => undefined,
  });
  const left = (): number => Math.min(callsMax - made, budget.left("requests"));
  const take = (calls: number): void => {
    if (made + calls > callsMax) throw new CallsSpentError(`doctor makes at most ${callsMax} calls`);
    budget.take("requests", calls);
    made += calls;
  };
  return {
    view,
    book: client.book,
    answers,
    left,
    take,
    call: async (step, keepEvents = false) => {
      // Read first: what cannot be read is not sent, so it is not counted.
      await client.book.fetch(step.credential);
      take(1);
      const id = `${prefix}.${made}`;
      const context = { id, stage: "doctor", driver: "doctor", intendedUs: clock.nowUs() };
      const sent = await client.send(step, context, { keepEvents });
      const answered = { ...sent, id, tookMs: (sent.answer.doneUs - sent.answer.sentUs) / 1000 };
      answers.push(answered);
      return answered;
    },
    close: client.close,
  };
};
