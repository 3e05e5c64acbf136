/** One attempt at a call: waits for the target, its turn, budgets and a connection, then sends and records. */
import type { Dispatcher } from "undici";
import { sendRequest } from "../../client/send-request.ts";
import { inFlightMax } from "../../client/transport.ts";
import { routeOf } from "../../contract/routes.ts";
import { lastEventOf } from "../../contract/streams.ts";
import type { CallLine } from "../../history/line.ts";
import type { RunClock } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import { type BudgetGuard, NOTHING_SPENT, type Taken } from "../../workload/budget.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { CannotJudge, inconclusive } from "../checks.ts";
import type { Budget } from "../planning/needs.ts";
import { type Answer, answerOfCall, isAdmitted } from "./answer.ts";
import { type Chunk, decoding, keepPieces } from "./answer-bytes.ts";
import { createAnswerWaits } from "./answer-waits.ts";
import { createOwnHeaders } from "./own-headers.ts";
import { asNobody, buildRequest, describe, stepOfTestCall, type TestCall } from "./test-call.ts";
import { lookEverySecond, type Throttle, wait } from "./throttle.ts";

/** Bounds of an answer, of all together, and of an answer after those: all are kept for the rules over every answer. */
const ANSWER_MOST_BYTES = 2 << 20;
const ANSWERS_MOST_BYTES = 128 << 20;
const LATER_ANSWER_MOST_BYTES = 16 << 10;

/** From this many unanswered calls in a row on, the target counts as away. */
const SILENCE_MAX = 12;
const RESTART_MAX_MS = 30_000;

/** A FIFO semaphore over calls in flight: a call that waits in our HTTP client would look slow on the target's side. */
export const createLanes = (count: number) => {
  let free = Math.max(1, count);
  const waiting: (() => void)[] = [];
  return {
    take: async (): Promise<void> => {
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
    },
    giveBack: (): void => {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    },
  };
};

export type AttemptParts = {
  target: Target;
  view: TargetView;
  clock: RunClock;
  dispatcher: Dispatcher;
  sharedHeaders: Readonly<Record<string, string>>;
  throttle: Throttle;
  budget: Budget;
  /** Budget, rate and stop condition of the whole run; unbounded if absent. */
  runBudget?: BudgetGuard;
  signal?: AbortSignal;
  /** Waiting time for a target that takes no connection to come back; default: `RESTART_MAX_MS`. */
  restartMs?: number;
  stage: string;
  idPrefix: string;
  secretOf(call: TestCall): Promise<string | null>;
  /** Whether a session that this run minted for its calls has ended by now. */
  hasEnded(token: string | null): boolean;
  originOf(call: TestCall): string | undefined;
  onLine(line: CallLine): void;
  onAnswer?(answer: Answer): void;
};

const chargeOf = ({ route, product }: TestCall): "map_loads" | "analyses" | null => {
  if (route === "sdk.sessions" && product === "tile") return "map_loads";
  return route === "design.analyze" ? "analyses" : null;
};

const streamOf = ({ route }: TestCall) => (route === "-" ? undefined : routeOf(route).stream);

const readingOf = (call: TestCall, { stream_end }: Target): object => {
  const kind = streamOf(call);
  if (kind === undefined) return {};
  const stream = { stream: lastEventOf(kind, stream_end), keepEvents: true };
  if (call.leaveAfterMs !== undefined) return { ...stream, abort: { afterMs: call.leaveAfterMs } };
  return call.wholeStream === true ? stream : { ...stream, abort: { afterEvents: 1 } };
};

export const createAttempts = (parts: AttemptParts) => {
  const { target, clock, throttle, budget, runBudget, signal, idPrefix, stage } = parts;
  const dispatcher = decoding(parts.dispatcher);
  const lanes = createLanes(inFlightMax(target));
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => undefined);
  signal?.addEventListener("abort", () => stopped.reject(signal.reason), { once: true });
  const answers: Answer[] = [];
  const waits = createAnswerWaits();
  const ownHeaders = createOwnHeaders();
  let [heldBytes, sent, silent] = [0, 0, 0];
  /** The first call of those without an answer that came last. A call under way beside it may have brought the target down too. */
  let silentSince = "";
  let returning: Promise<boolean> | null = null;

  const looksForAWhile = async (): Promise<boolean> => {
    const isBack = async (): Promise<boolean> => {
      await attempt(asNobody("design.styles"), true);
      return silent === 0;
    };
    if (!(await lookEverySecond(isBack, parts.restartMs ?? RESTART_MAX_MS, (ms) => wait(ms, signal)))) return false;
    returning = null;
    return true;
  };

  const takeOfRun = async (call: TestCall): Promise<Taken | null> => {
    if (runBudget === undefined) return null;
    if (call.anyway === true) {
      runBudget.absorb({ ...NOTHING_SPENT, requests: 1 }, null);
      return null;
    }
    // Charges are counted afterwards: most metered calls must be refused, and a budget of 0 would end the run at once.
    const taken = runBudget.take(clock.nowUs(), { stream: streamOf(call) !== undefined });
    const reason = runBudget.stopped?.reason ?? "nothing more may be sent";
    if (taken === null) throw new CannotJudge({ verdict: "inconclusive", reason, spent: reason });
    for (let { waitUs } = taken; waitUs > 0; waitUs = taken.waitAgainUs(clock.nowUs()))
      await wait(waitUs / 1000, signal);
    return taken;
  };

  /** Waits until the call may leave, and takes one of the lanes. Throws if it may not. */
  const enter = async (call: TestCall, looking: boolean) => {
    const { anyway, atOnce } = call;
    // The run waits once for a target to come back; one that stays away is not waited for again.
    if (silent >= SILENCE_MAX && !looking) {
      returning ??= looksForAWhile();
      if (!(await returning)) throw inconclusive(`the target has stopped answering, since ${silentSince}`);
    }
    const spent = anyway === true ? null : waits.spent();
    if (spent !== null) throw inconclusive(spent);
    await parts.secretOf(call);
    // A call that undoes something is sent even beyond the budget.
    if (anyway === true) budget.spent.requests += 1;
    else {
      if (atOnce !== true) await throttle.turn();
      signal?.throwIfAborted();
      budget.take("requests");
    }
    // Read again: a session may have ended while the call waited.
    const secret = await parts.secretOf(call);
    await lanes.take();
    try {
      if (anyway !== true) signal?.throwIfAborted();
      return { secret, taken: await takeOfRun(call) };
    } catch (error) {
      lanes.giveBack();
      throw error;
    }
  };

  const record = (answer: Answer): void => {
    const { testCall, status, received, text, chunks } = answer;
    waits.add(received);
    // Calls of a burst do not count as silence: some connections may be refused while other calls are served.
    if (status !== null) silent = 0;
    else if (testCall.atOnce !== true) {
      if (silent === 0) silentSince = describe(answer);
      silent += 1;
    }
    const charge = chargeOf(testCall);
    const isCharged = charge !== null && isAdmitted(answer);
    // An admission by mistake is spent too. The run's budget also counts a charge that may have been made.
    if (isCharged) budget.spent[charge] += 1;
    if (isCharged || (charge !== null && status === null && received.sent))
      runBudget?.absorb({ ...NOTHING_SPENT, [charge]: 1 }, null);
    heldBytes += text.length + chunks.reduce((sum, chunk) => sum + chunk.text.length, 0);
    answers.push(answer);
    parts.onLine(answer.line);
    parts.onAnswer?.(answer);
  };

  /** `looking`: sent even if the target seems away, to see whether it is back. */
  const attempt = async (testCall: TestCall, looking = false): Promise<Answer> => {
    const { secret, taken } = await enter(testCall, looking);
    const n = sent++;
    const id = `${idPrefix}-${n}`;
    const step = stepOfTestCall(parts.view, n, testCall);
    const isH2 = target.transport?.protocol === "h2";
    const by = { step, id, idPrefix, secret, origin: parts.originOf(testCall), shared: parts.sharedHeaders, isH2 };
    const { request, shown } = buildRequest(target, testCall, by);
    const chunks: Chunk[] = [];
    const mostBytes = heldBytes > ANSWERS_MOST_BYTES ? LATER_ANSWER_MOST_BYTES : ANSWER_MOST_BYTES;
    const onPiece = testCall.wholeStream === true ? keepPieces(chunks, mostBytes) : undefined;
    testCall.beforeSent?.();
    const asked = { ...request, mostBytes, decoded: true as const, onPiece, ...readingOf(testCall, target) };
    const running = sendRequest(dispatcher, asked, clock, waits.timeouts());
    void running.then(lanes.giveBack);
    // A stop does not wait for a stream, which may take long.
    const isWaitedFor = testCall.anyway === true || testCall.toTheEnd === true;
    const received = await (isWaitedFor ? running : Promise.race([running, stopped.promise]));
    const context = { id, stage, driver: "verify" as const, intendedUs: received.sentUs };
    // Nobody knows whether the call or the session's end was first.
    const isOver = received.status === 401 && testCall.secret === undefined && parts.hasEnded(secret);
    const called: TestCall = isOver
      ? { ...testCall, open: true, facts: { ...testCall.facts, state: "expired" } }
      : testCall;
    const errorUs = clock.errorUs;
    const read = ownHeaders.marked(
      answerOfCall({ testCall: called, step, request: shown, received, chunks, context, errorUs }),
    );
    ownHeaders.learn(read);
    const answer = isOver ? { ...read, transient: true } : read;
    taken?.settle(clock.nowUs(), { ...received, outcome: answer.outcome, ending: answer.line });
    record(answer);
    return answer;
  };

  return { attempt, answers: answers as readonly Answer[] };
};
