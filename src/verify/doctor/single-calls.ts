/** The few calls that `doctor` makes: counted, and kept for what they show by the way (clock, echo, redirect). */
import { openApiClient, type Sent } from "../../client/api-client.ts";
import { createRunClock } from "../../client/clock.ts";
import { createSecrets, type Secrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { type Step, type StepWish, stepOf } from "../../workload/step.ts";
import { type Budget, createBudget } from "../planning/needs.ts";

/** Nobody calls as many calls load; `doctor` makes no more, whatever the file names. */
export const CALLS_MAX = 60;

const PATIENCE = { callMs: 15_000, firstEventMs: 10_000, idleMs: 10_000 };

export class CallsSpentError extends Error {
  override name = "CallsSpentError";
}

/** `id`: the `X-Request-Id` that was sent. `tookMs`: from the first byte out to the end of the answer. */
export type Answered = Sent & { id: string; tookMs: number };

export type SingleCalls = Awaited<ReturnType<typeof openSingleCalls>>;

export const headerOf = ({ answer }: Sent, name: string): string | undefined => {
  const value = answer.headers[name];
  return Array.isArray(value) ? value.join(", ") : value;
};

export const isAdmitted = (outcome: string): boolean => /^2\d\d$/.test(outcome);

/** Throws `SecretError` when what the file says about connecting cannot be read. */
export const openSingleCalls = async (parts: { target: Target; secrets: Secrets; budget: Budget }) => {
  const { target, secrets, budget } = parts;
  const view = viewOf(target);
  const answers: Answered[] = [];
  let made = 0;
  const idPrefix = `doctor.${Math.floor(Math.random() * 2 ** 32).toString(36)}`;
  // Counted from 1970, so that an answer's `Date` can be held against it.
  const clock = createRunClock(0);
  const by = { stage: "doctor", driver: "doctor" };
  const onLine = (): void => {};
  const client = await openApiClient({ target, secrets, view, clock, timeouts: PATIENCE, idPrefix, ...by, onLine });
  const take = (calls: number): void => {
    if (made + calls > CALLS_MAX) throw new CallsSpentError(`doctor makes at most ${CALLS_MAX} calls`);
    budget.take("requests", calls);
    made += calls;
  };
  const send = async (step: Step, keepEvents: boolean): Promise<Answered> => {
    // Read first: what cannot be read is not sent, so it is not counted.
    await client.book.fetch(step.credential);
    take(1);
    const id = `${idPrefix}.${made}`;
    const sent = await client.send(step, { id, ...by, intendedUs: clock.nowUs() }, { keepEvents });
    const answered = { ...sent, id, tookMs: (sent.answer.doneUs - sent.answer.sentUs) / 1000 };
    answers.push(answered);
    return answered;
  };
  return {
    ...{ view, book: client.book, answers: answers as readonly Answered[], close: client.close },
    left: (): number => Math.min(CALLS_MAX - made, budget.left("requests")),
    /** Counts calls that go elsewhere, to a control plane for instance. Throws as `ask` does. */
    take,
    /** Throws `CallsSpentError`, `BudgetSpentError`, or what reading the credential throws. `change` has the last word. */
    ask: (wish: StepWish, change: Partial<Step> = {}) => send({ ...stepOf(view, 0, wish), ...change }, false),
    /** The same for a stream: its events are kept, and `n` chooses among the route's bodies. */
    stream: (wish: StepWish, n: number) => send(stepOf(view, n, wish), true),
  };
};

/** Calls to an address that stands in no target file yet. `folder`: where `file:` references of the transport start. */
export const withSingleCalls = async <T>(
  target: Target,
  folder: string,
  use: (calls: SingleCalls) => Promise<T>,
): Promise<T> => {
  const calls = await openSingleCalls({ target, secrets: createSecrets(folder), budget: createBudget(target, false) });
  try {
    return await use(calls);
  } finally {
    await calls.close();
  }
};
