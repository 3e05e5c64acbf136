/**
 * One attempt at a call: paced, budgeted, sent, recorded. A target that has stopped answering is waited for here, by all calls
 * together; what to make of overload is the sender's (`sender.ts`).
 */
import type { Dispatcher } from "undici";
import type { RunClock } from "../../client/clock.ts";
import { sendRequest } from "../../client/send-request.ts";
import { inFlightMax } from "../../client/transport.ts";
import { routeOf } from "../../contract/routes.ts";
import { lastEventOf } from "../../contract/streams.ts";
import type { CallLine } from "../../history/line.ts";
import type { Budget } from "../../target/budget.ts";
import type { Target } from "../../target/target.ts";
import { type BudgetGuard, NOTHING_SPENT, type Taken } from "../../workload/budget.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { Timeouts } from "../../workload/timeouts.ts";
import { CannotJudge, inconclusive } from "../verdict.ts";
import { type Answer, type Chunk, isAdmitted } from "./answer.ts";
import { answerOfCall } from "./answer-of-call.ts";
import { tapped } from "./chunk-tap.ts";
import { decoding } from "./decoding.ts";
import { createLanes } from "./lanes.ts";
import { buildRequest, stepOfTestCall, type TestCall } from "./test-call.ts";
import { type Throttle, wait } from "./throttle.ts";

const VERIFY_TIMEOUTS: Timeouts = { callMs: 45_000, firstEventMs: 15_000, idleMs: 15_000 };

/**
 * Every answer is kept for the rules about all of them, so what one may take depends on what all have taken: a deployment that
 * answers with megabytes, or with events without end, must not end the run.
 */
const ANSWER_MOST_BYTES = 2 << 20;
const ANSWERS_MOST_BYTES = 128 << 20;
const LATER_ANSWER_MOST_BYTES = 16 << 10;

/** So many calls one after the other without any answer: nobody is there any more. */
const SILENCE_MAX = 12;
const RESTART_MAX_MS = 30_000;

export type AttemptParts = {
  target: Target;
  view: TargetView;
  dispatcher: Dispatcher;
  sharedHeaders: Readonly<Record<string, string>>;
  clock: RunClock;
  stage: string;
  idPrefix: string;
  throttle: Throttle;
  budget: Budget;
  /** Of the whole run: budget, highest rate and stop condition; not bounded where absent. */
  runBudget?: BudgetGuard;
  timeouts?: Timeouts;
  signal?: AbortSignal;
  /** `null` for a testCall without a credential. */
  secretOf(testCall: TestCall): Promise<string | null>;
  originOf(testCall: TestCall): string | undefined;
  onLine(line: CallLine): void;
  /** Given each answer as it came, for a user who wants to see them. */
  onAnswer?(answer: Answer): void;
};

type Attempts = {
  /** `looking`: sent also where nobody answers, to see whether somebody does again. */
  attempt(testCall: TestCall, looking?: boolean): Promise<Answer>;
  /** Everything that came, in order. */
  readonly answers: readonly Answer[];
};

const isMint = (testCall: TestCall): boolean => testCall.route === "sdk.sessions" && testCall.product === "tile";

/** What the call uses up where it is admitted. */
const chargeOf = (testCall: TestCall): "map_loads" | "analyses" | null => {
  if (isMint(testCall)) return "map_loads";
  return testCall.route === "design.analyze" ? "analyses" : null;
};

/** Whoever counts calls knows a run by how their ids begin, also where a testCall has an id of its own. */
const withRunId = (testCall: TestCall, idPrefix: string): TestCall => {
  const id = testCall.headers?.["x-request-id"];
  return id === undefined
    ? testCall
    : { ...testCall, headers: { ...testCall.headers, "x-request-id": `${idPrefix}-${id}` } };
};

/** When a stream is left: after a while, after its first event, or not at all. */
const leaveOf = ({
  leaveAfterMs,
  wholeStream,
}: TestCall): { abort?: { afterMs: number } | { afterEvents: number } } => {
  if (leaveAfterMs !== undefined) return { abort: { afterMs: leaveAfterMs } };
  return wholeStream === true ? {} : { abort: { afterEvents: 1 } };
};

/** A stream may go on for a long time; after a stop nobody waits for it. */
const unlessStopped = <T>(running: Promise<T>, signal: AbortSignal | undefined): Promise<T> => {
  if (signal === undefined) return running;
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", stop, { once: true });
    void running.then((value) => {
      signal.removeEventListener("abort", stop);
      resolve(value);
    });
  });
};

/** `onAdmitted` hears of every admitted call. */
export const createAttempts = (parts: AttemptParts, onAdmitted: (testCall: TestCall) => void): Attempts => {
  const { target, view, clock, throttle, budget, signal } = parts;
  const dispatcher = decoding(parts.dispatcher);
  const answers: Answer[] = [];
  let heldBytes = 0;
  let sent = 0;
  let silent = 0;
  const lanes = createLanes(inFlightMax(target));

  let returning: Promise<boolean> | null = null;
  /** A restart takes seconds: it is waited for by all at once. Whoever did not come back then is not waited for again. */
  const answersAgain = (): Promise<boolean> => {
    returning ??= (async () => {
      // By the clock: where nothing is refused and nothing answered, each look takes its own time.
      const endMs = performance.now() + RESTART_MAX_MS;
      while (performance.now() < endMs) {
        await wait(1_000, signal);
        await attempt({ route: "design.styles", credential: { as: "none" }, origin: "none" }, true);
        if (silent > 0) continue;
        returning = null;
        return true;
      }
      return false;
    })();
    return returning;
  };

  /** Waits until the run's runBudget lets it leave; what takes back what was made is only counted. */
  const leave = async (testCall: TestCall): Promise<Taken | null> => {
    const { runBudget } = parts;
    if (runBudget === undefined) return null;
    if (testCall.anyway === true) {
      runBudget.absorb({ ...NOTHING_SPENT, requests: 1 }, null);
      return null;
    }
    const stream = testCall.route !== "-" && routeOf(testCall.route).stream !== undefined;
    // Most calls to metered routes here must be refused: taken beforehand, a budget of none would end the run with the first.
    const taken = runBudget.take(clock.nowUs(), { stream });
    // Nothing is reserved here, so there is nothing to wait for. It let calls leave before: what ends them ends them for every rule that is left.
    if (taken === null)
      throw new CannotJudge({
        verdict: "inconclusive",
        reason: runBudget.stopped ?? "nothing more may be sent",
        spent: true,
      });
    if (taken.waitUs > 0) await wait(taken.waitUs / 1000, signal);
    return taken;
  };

  /** Waits for its turn and pays for it; what takes back what was made is sent at once, whatever is left. */
  const admit = async (testCall: TestCall, looking: boolean): Promise<string | null> => {
    if (silent >= SILENCE_MAX && !looking && !(await answersAgain())) {
      throw inconclusive("the target has stopped answering");
    }
    await parts.secretOf(testCall);
    if (testCall.anyway === true) budget.spent.requests += 1;
    else {
      if (testCall.atOnce !== true) await throttle.turn();
      signal?.throwIfAborted();
      budget.take("requests");
    }
    // Asked for again: what was minted before a long wait may have ended meanwhile.
    return parts.secretOf(testCall);
  };

  const record = (answer: Answer): Answer => {
    const { testCall, line } = answer;
    // In a burst it may be refused so, one call after the other, while the rest is served.
    if (answer.status !== null) silent = 0;
    else if (testCall.atOnce !== true) silent += 1;
    // What was admitted unasked is spent all the same.
    if (isAdmitted(answer)) onAdmitted(testCall);
    const charge = chargeOf(testCall);
    if (isAdmitted(answer) && charge !== null) budget.spent[charge] += 1;
    heldBytes += answer.text.length + answer.chunks.reduce((sum, { text }) => sum + text.length, 0);
    answers.push(answer);
    parts.onLine(line);
    parts.onAnswer?.(answer);
    return answer;
  };

  const attempt = async (testCall: TestCall, looking = false): Promise<Answer> => {
    const secret = await admit(testCall, looking);
    const n = sent++;
    const id = `${parts.idPrefix}-${n}`;
    const step = stepOfTestCall(view, n, testCall);
    const origin = parts.originOf(testCall);
    const built = buildRequest(target, withRunId(testCall, parts.idPrefix), {
      step,
      id,
      secret,
      origin,
      shared: parts.sharedHeaders,
    });
    const kind = testCall.route === "-" ? undefined : routeOf(testCall.route).stream;
    const chunks: Chunk[] = [];
    if (testCall.anyway !== true) signal?.throwIfAborted();
    const giveBack = await lanes.take();
    if (testCall.anyway !== true && signal?.aborted === true) {
      giveBack();
      signal.throwIfAborted();
    }
    const taken = await leave(testCall).catch((error: unknown) => {
      giveBack();
      throw error;
    });
    testCall.beforeSent?.();
    const mostBytes = heldBytes > ANSWERS_MOST_BYTES ? LATER_ANSWER_MOST_BYTES : ANSWER_MOST_BYTES;
    const running = sendRequest(
      testCall.wholeStream === true ? tapped(dispatcher, clock, chunks, mostBytes) : dispatcher,
      {
        ...built.request,
        mostBytes,
        decoded: true,
        ...(kind === undefined
          ? {}
          : { stream: lastEventOf(kind, target.stream_end), keepEvents: true, ...leaveOf(testCall) }),
      },
      clock,
      parts.timeouts ?? VERIFY_TIMEOUTS,
    );
    void running.then(giveBack);
    const received = await (testCall.anyway === true || testCall.toTheEnd === true
      ? running
      : unlessStopped(running, signal));
    const context = { id, stage: parts.stage, driver: "verify" as const, intendedUs: received.sentUs };
    const request = built.sent;
    const answer = answerOfCall({ testCall, step, request, received, chunks, context, errorUs: clock.errorUs });
    taken?.settle(clock.nowUs(), { ...received, outcome: answer.outcome, ending: answer.line });
    const charge = chargeOf(testCall);
    const mayBeCharged = isAdmitted(answer) || (answer.status === null && received.sent);
    if (charge !== null && mayBeCharged) parts.runBudget?.absorb({ ...NOTHING_SPENT, [charge]: 1 }, null);
    return record(answer);
  };

  return { attempt, answers };
};
