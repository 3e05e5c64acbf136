/**
 * One attempt at a call: paced, budgeted, sent, recorded. A target that has stopped answering is waited for here, by all calls
 * together; what to make of overload is the sender's (`sender.ts`).
 */
import type { Dispatcher } from "undici";
import { routeOf } from "../contract/routes.ts";
import { exchange, type Timeouts } from "../drivers/exchange.ts";
import type { ObservedLine } from "../drivers/observed-line.ts";
import type { RunClock } from "../drivers/run-clock.ts";
import type { Target } from "../drivers/target.ts";
import { inFlightMax } from "../drivers/transport.ts";
import type { World } from "../workload/world.ts";
import { type Answer, type Chunk, isAdmitted } from "./answer.ts";
import { answerOfCall } from "./answer-of-call.ts";
import type { Budget } from "./budget.ts";
import { tapped } from "./chunk-tap.ts";
import { decoding } from "./decoding.ts";
import { createLanes } from "./lanes.ts";
import { buildRequest, type Probe, stepOfProbe } from "./probe.ts";
import { CannotJudge } from "./rule.ts";
import { type Throttle, wait } from "./throttle.ts";

export const VERIFY_TIMEOUTS: Timeouts = { callMs: 45_000, firstEventMs: 15_000, idleMs: 15_000 };

/** So many calls one after the other without any answer: nobody is there any more. */
const SILENCE_MAX = 12;
const RESTART_MAX_MS = 30_000;

export type AttemptParts = {
  target: Target;
  world: World;
  dispatcher: Dispatcher;
  sharedHeaders: Readonly<Record<string, string>>;
  clock: RunClock;
  stage: string;
  idPrefix: string;
  throttle: Throttle;
  budget: Budget;
  timeouts?: Timeouts;
  signal?: AbortSignal;
  /** `null` for a probe without a credential. */
  secretOf(probe: Probe): Promise<string | null>;
  originOf(probe: Probe): string | undefined;
  onLine(line: ObservedLine): void;
};

export type Attempts = {
  /** `looking`: sent also where nobody answers, to see whether somebody does again. */
  attempt(probe: Probe, looking?: boolean): Promise<Answer>;
  /** Everything that came, in order. */
  readonly answers: readonly Answer[];
};

const isMint = (probe: Probe): boolean => probe.route === "sdk.sessions" && probe.product === "tile";

/** Whoever counts calls knows a run by how their ids begin, also where a probe has an id of its own. */
const withRunId = (probe: Probe, idPrefix: string): Probe => {
  const id = probe.headers?.["x-request-id"];
  return id === undefined ? probe : { ...probe, headers: { ...probe.headers, "x-request-id": `${idPrefix}-${id}` } };
};

/** When a stream is left: after a while, after its first event, or not at all. */
const leaveOf = ({ leaveAfterMs, wholeStream }: Probe): { abort?: { afterMs: number } | { afterEvents: number } } => {
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

/** `onAdmitted` is told of every call that was let in. */
export const createAttempts = (parts: AttemptParts, onAdmitted: (probe: Probe) => void): Attempts => {
  const { target, world, clock, throttle, budget, signal } = parts;
  const dispatcher = decoding(parts.dispatcher);
  const answers: Answer[] = [];
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

  /** Waits for its turn and pays for it; what takes back what was made is sent at once, whatever is left. */
  const admit = async (probe: Probe, looking: boolean): Promise<string | null> => {
    if (silent >= SILENCE_MAX && !looking && !(await answersAgain())) {
      throw new CannotJudge("inconclusive", "the target has stopped answering");
    }
    await parts.secretOf(probe);
    if (probe.anyway === true) budget.spent.requests += 1;
    else {
      if (probe.atOnce !== true) await throttle.turn();
      signal?.throwIfAborted();
      budget.take("requests");
    }
    // Asked for again: what was minted before a long wait may have ended meanwhile.
    return parts.secretOf(probe);
  };

  const record = (answer: Answer): Answer => {
    const { probe, line } = answer;
    // In a burst it may be refused so, one call after the other, while the rest is served.
    if (answer.status !== null) silent = 0;
    else if (probe.atOnce !== true) silent += 1;
    // What was let in unasked is spent all the same.
    if (isAdmitted(answer)) onAdmitted(probe);
    if (isAdmitted(answer) && isMint(probe)) budget.spent.map_loads += 1;
    if (isAdmitted(answer) && probe.route === "design.analyze") budget.spent.analyses += 1;
    answers.push(answer);
    parts.onLine(line);
    return answer;
  };

  const attempt = async (probe: Probe, looking = false): Promise<Answer> => {
    const secret = await admit(probe, looking);
    const n = sent++;
    const id = `${parts.idPrefix}-${n}`;
    const step = stepOfProbe(world, n, probe);
    const origin = parts.originOf(probe);
    const built = buildRequest(target, withRunId(probe, parts.idPrefix), {
      ...{ step, id, secret, origin, shared: parts.sharedHeaders },
    });
    const stream = probe.route === "-" ? undefined : routeOf(probe.route).stream;
    const chunks: Chunk[] = [];
    if (probe.anyway !== true) signal?.throwIfAborted();
    const giveBack = await lanes.take();
    if (probe.anyway !== true && signal?.aborted === true) {
      giveBack();
      signal.throwIfAborted();
    }
    probe.beforeSent?.();
    const running = exchange(
      probe.wholeStream === true ? tapped(dispatcher, clock, chunks) : dispatcher,
      { ...built.request, ...(stream === undefined ? {} : { stream, keepEvents: true, ...leaveOf(probe) }) },
      clock,
      parts.timeouts ?? VERIFY_TIMEOUTS,
    );
    void running.then(giveBack);
    const exchanged = await (probe.anyway === true || probe.toTheEnd === true
      ? running
      : unlessStopped(running, signal));
    const context = { id, stage: parts.stage, driver: "verify" as const, intendedUs: exchanged.sentUs };
    const request = built.sent;
    return record(answerOfCall({ probe, step, request, exchanged, chunks, context, errorUs: clock.errorUs }));
  };

  return { attempt, answers };
};
