/** One attempt at a call: waits for the target, its turn, budgets and a connection, then sends and records. */
import type { Dispatcher } from "undici";
import { type Received, sendRequest } from "../../client/send-request.ts";
import { inFlightMax } from "../../client/transport.ts";
import { routeOf } from "../../contract/routes.ts";
import { lastEventOf } from "../../contract/streams.ts";
import type { CallLine } from "../../history/line.ts";
import { openBy } from "../../history/reason-codes.ts";
import { add } from "../../history/statistics/statistics.ts";
import type { RunClock } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import { type BudgetGuard, NOTHING_SPENT, type Taken } from "../../workload/budget.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { Timeouts } from "../../workload/timeouts.ts";
import { CannotJudge, inconclusive } from "../checks.ts";
import type { Budget } from "../planning/needs.ts";
import { type Answer, answerOfCall, isAdmitted } from "./answer.ts";
import { type Chunk, decoding, keepPieces } from "./answer-bytes.ts";
import { asNobody, buildRequest, describe, stepOfTestCall, type TestCall } from "./test-call.ts";
import { lookEverySecond, type Throttle, wait } from "./throttle.ts";

// Tells a 503 that another server gave: it lacks a header that all refusals of the API's own have.

/** Headers about the body, the connection or one call, which two answers of one server may not share. */
const PASSING = /^(?:content-|transfer-encoding$|connection$|keep-alive$|date$|retry-after$|vary$|access-control-)/;
/** A header that so many refusals, of so many statuses, all have is no accident. */
const ENOUGH = 4;
const STATUSES = 2;

const createOwnHeaders = () => {
  const statuses = new Set<number | null>();
  let [own, seen]: [ReadonlySet<string>, number] = [new Set(), 0];

  /** Only the API knows its subcodes, so a refusal with one is its own. */
  const learn = ({ subcode, foreign, status, headers }: Answer): void => {
    if (subcode === null || foreign || status === null || status < 400 || status > 499) return;
    const names = new Set(Object.keys(headers).filter((name) => !PASSING.test(name)));
    own = seen === 0 ? names : own.intersection(names);
    statuses.add(status);
    seen += 1;
  };

  /** The answer, marked as a gateway's if it is a 503 without such a header. */
  const marked = (answer: Answer): Answer => {
    const { status, subcode, headers, line, foreign } = answer;
    if (status !== 503 || subcode !== null || foreign || seen < ENOUGH || statuses.size < STATUSES) return answer;
    const lacks = own.values().find((name) => headers[name] === undefined);
    if (lacks === undefined) return answer;
    const outcome = "edge 503";
    return { ...answer, outcome, foreign: true, lacks, line: { ...line, outcome, envelope: "other" } };
  };

  return { learn, marked };
};

// How long a call is waited for. A run ends in bounded time although a part of the deployment never answers.

const FULL: Timeouts = { callMs: 45_000, firstEventMs: 15_000, idleMs: 15_000 };
/** After this many calls without an answer, a call is waited for `SLOWEST_TIMES` as long as the slowest answer took. */
const FULL_WAITS = 2;
const SLOWEST_TIMES = 5;
const SHORTEST_MS = 5_000;
/** The most time that a run loses to calls whose answers decide nothing, so that it ends whatever comes. */
const LOST_MAX_MS = 150_000;

type Ended = Pick<Received, "startedUs" | "doneUs" | "ended" | "status">;

/** What to look into, by the outcome that most of the calls had, or that took most of the time. */
export const adviceOn = (outcome: string): string => {
  if (/^(?:429|503)/.test(outcome))
    return "run it while nobody else loads the deployment; if nobody does, slots are lost";
  if (/^(?:edge (?!50[234])|[234]\d\d)/.test(outcome))
    return "let the gateway in front pass the calls on, or set base_url to an address behind it";
  if (outcome === "edge 504")
    return "does the gateway in front give up sooner than the API answers, or is one of several backends dead?";
  if (outcome === "edge 503")
    return "is one of several backends dead, or does the gateway in front limit calls (nginx: limit_req, limit_conn)?";
  return "is one of several backends dead?";
};

/** Calls that waited at the same time lost that time once. */
const createLostTime = () => {
  let [us, untilUs] = [0, 0];
  return {
    add: (fromUs: number, toUs: number): void => {
      us += Math.max(0, toUs - Math.max(fromUs, untilUs));
      untilUs = Math.max(toUs, untilUs);
    },
    isTooMuch: (): boolean => us >= LOST_MAX_MS * 1000,
    inSeconds: (): number => Math.round(us / 1e6),
  };
};

export const createAnswerWaits = () => {
  let [calls, timedOut, slowestUs] = [0, 0, 0];
  const often = new Map<string, number>();
  const [unanswered, all] = [createLostTime(), createLostTime()];
  const lose = (outcome: string, fromUs: number, toUs: number): void => {
    add(often, outcome, 1);
    all.add(fromUs, toUs);
  };
  return {
    timeouts: (): Timeouts => {
      if (timedOut < FULL_WAITS) return FULL;
      const mostMs = Math.max(SHORTEST_MS, (SLOWEST_TIMES * slowestUs) / 1000);
      const least = (ms: number): number => Math.min(ms, mostMs);
      return { callMs: least(FULL.callMs), firstEventMs: least(FULL.firstEventMs), idleMs: least(FULL.idleMs) };
    },
    add: ({ startedUs, doneUs, ended, status }: Ended): void => {
      calls += 1;
      if (ended === "timeout") timedOut += 1;
      else if (status !== null) slowestUs = Math.max(slowestUs, doneUs - startedUs);
      const isGatewayAlone = /^50[234]$/.test(`${status}`);
      if (ended !== "timeout" && status !== null && !isGatewayAlone) return;
      lose(isGatewayAlone ? `edge ${status}` : "indeterminate", startedUs, doneUs);
      unanswered.add(startedUs, doneUs);
    },
    /** Takes a call that had no clear answer, however often it was tried. */
    lose,
    /** Why no more calls are sent; `null` while they are. `isOnce`: the call is tried once, whatever is answered. */
    spent: (isOnce = false): string | null => {
      if (!(isOnce ? unanswered : all).isTooMuch()) return null;
      const [[most, times] = ["", 0]] = [...often].sort(([, one], [, other]) => other - one);
      const seen = `${all.inSeconds()} s were spent on answers that decide nothing, most often ${most} (${times} times in ${calls} calls)`;
      return `${seen}, so the rest was not sent: ${adviceOn(most)}`;
    },
  };
};

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
    if (taken === null) throw new CannotJudge({ ...openBy("budget-spent"), reason, spent: reason });
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
      if (!(await returning))
        throw inconclusive("not-answered", `the target has stopped answering, since ${silentSince}`);
    }
    const spent = anyway === true ? null : waits.spent(call.once);
    if (spent !== null) throw inconclusive("refused-for-load", spent);
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

  return { attempt, answers: answers as readonly Answer[], lose: waits.lose };
};
