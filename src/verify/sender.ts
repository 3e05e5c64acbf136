/**
 * The one function through which `verify` sends: paced, counted, recorded. A deployment may be busy with others' traffic,
 * so an answer of overload, rate or nothing at all is tried again after what `Retry-After` says. If it stays, and a
 * neighbouring call passes meanwhile, the answer belongs to this call and is judged; otherwise it says nothing.
 */
import type { Dispatcher } from "undici";
import { routeOf } from "../contract/routes.ts";
import { type CallContext, lineOf } from "../drivers/call-line.ts";
import { type Exchanged, exchange, type Timeouts } from "../drivers/exchange.ts";
import type { ObservedLine } from "../drivers/observed-line.ts";
import type { RunClock } from "../drivers/run-clock.ts";
import type { Target } from "../drivers/target.ts";
import { inFlightMax } from "../drivers/transport.ts";
import type { World } from "../workload/world.ts";
import {
  type Answer,
  type Chunk,
  isAdmitted,
  isObject,
  isTransient,
  type Named,
  nameAnswer,
  parseJson,
} from "./answer.ts";
import type { Budget } from "./budget.ts";
import { createLanes } from "./lanes.ts";
import { createOutages } from "./outages.ts";
import { buildRequest, type Probe, stepOfProbe } from "./probe.ts";
import { retryAfterMs } from "./retry-after.ts";
import { CannotJudge } from "./rule.ts";
import { type Throttle, wait } from "./throttle.ts";

export const VERIFY_TIMEOUTS: Timeouts = { callMs: 45_000, firstEventMs: 15_000, idleMs: 15_000 };

const ATTEMPTS = 4;
const WAIT_MAX_MS = 5_000;
const WAIT_FIRST_MS = 300;
const CONFIRMATIONS = 2;
/** So many outages one after the other are waited for, for one call. */
const OUTAGES = 2;
/** So many calls one after the other without any answer: nobody is there any more. */
const SILENCE_MAX = 12;
const RESTART_MAX_MS = 30_000;

export type SenderParts = {
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
  /** All that a run waits for others' overload; beyond it, what cannot be judged stays so. */
  patienceMs: number;
  signal?: AbortSignal;
  /** `null` for a probe without a credential. */
  secretOf(probe: Probe): Promise<string | null>;
  originOf(probe: Probe): string | undefined;
  /** A call that is surely let in and meets the same limits; `null` where there is none. */
  neighbourOf(probe: Probe): Probe | null;
  onLine(line: ObservedLine): void;
};

export type Sender = {
  send(probe: Probe): Promise<Answer>;
  /** Everything that came, in order: for rules about every answer. */
  readonly answers: readonly Answer[];
};

/** A dispatcher that notes every piece of the answer's body as it passes. */
const tapped = (dispatcher: Dispatcher, clock: RunClock, chunks: Chunk[]): Dispatcher => {
  const decoder = new TextDecoder();
  const strict = new TextDecoder("utf-8", { fatal: true });
  let broken = false;
  /** A letter may be spread over two pieces, and an answer may be left in the middle of one. */
  const breaks = (chunk: Uint8Array): boolean => {
    if (broken) return false;
    try {
      strict.decode(chunk, { stream: true });
    } catch {
      broken = true;
    }
    return broken;
  };
  const dispatch: Dispatcher["dispatch"] = (options, handler) => {
    const seen: Dispatcher.DispatchHandler = Object.create(handler) as Dispatcher.DispatchHandler;
    for (const name of ["onRequestStart", "onResponseStart", "onResponseEnd", "onResponseError"] as const) {
      // biome-ignore lint/complexity/noBannedTypes: four signatures, passed through unchanged
      (seen as Record<string, Function | undefined>)[name] = (handler[name] as Function | undefined)?.bind(handler);
    }
    seen.onResponseData = (controller, chunk) => {
      const text = decoder.decode(chunk, { stream: true });
      chunks.push({ atUs: clock.nowUs(), text, ...(breaks(chunk) ? { notUtf8: true } : {}) });
      handler.onResponseData?.(controller, chunk);
    };
    return dispatcher.dispatch(options, seen);
  };
  return { dispatch } as Dispatcher;
};

const headersOfAnswer = (exchanged: Exchanged): Record<string, string> =>
  Object.fromEntries(
    Object.entries(exchanged.headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), (Array.isArray(value) ? value.join(", ") : value).trim()]],
    ),
  );

const UNANSWERED: Named = { outcome: "indeterminate", subcode: null, envelope: "none", legacy: false };

/** A stream that we left ourselves was answered; half of any other answer is none. */
const nameOf = (exchanged: Exchanged, text: string): Named => {
  const { status, ended, seen, aborted } = exchanged;
  if (status === null) return UNANSWERED;
  if (seen !== null) {
    return {
      outcome: ended === "error_event" ? "200 error event" : `${status}`,
      subcode: null,
      envelope: "none",
      legacy: false,
    };
  }
  if (!aborted && ended !== "eof" && ended !== "refused") return UNANSWERED;
  return nameAnswer(status, text);
};

/** What other judges may hold against the call. Item 189: a 401 or 503 without `detail` is one, whatever else it says. */
const lineFor = (probe: Probe, named: Named, line: ObservedLine): ObservedLine => {
  const { facts, ...bare } = line;
  const plain = named.outcome === "401" || named.outcome === "503";
  const told = plain && named.envelope === "flat" ? { outcome: named.outcome, envelope: "none" as const } : {};
  return probe.open === true || facts === undefined ? { ...bare, ...told } : { ...bare, ...told, facts };
};

const isMint = (probe: Probe): boolean => probe.route === "sdk.sessions" && probe.product === "tile";

/** Whoever counts calls knows a run by how their ids begin, also where a probe has an id of its own. */
const withRunId = (probe: Probe, idPrefix: string): Probe => {
  const id = probe.headers?.["x-request-id"];
  return id === undefined ? probe : { ...probe, headers: { ...probe.headers, "x-request-id": `${idPrefix}-${id}` } };
};

export const createSender = (parts: SenderParts): Sender => {
  const { target, world, clock, throttle, budget, signal } = parts;
  /** A stream may go on for a long time; after a stop nobody waits for it. */
  const unlessStopped = <T>(running: Promise<T>): Promise<T> => {
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
  const answers: Answer[] = [];
  let sent = 0;
  let { patienceMs } = parts;
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

  const attempt = async (probe: Probe, looking = false): Promise<Answer> => {
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
    const secret = await parts.secretOf(probe);
    const n = sent++;
    const id = `${parts.idPrefix}-${n}`;
    const step = stepOfProbe(world, n, probe);
    const origin = parts.originOf(probe);
    const built = buildRequest(target, withRunId(probe, parts.idPrefix), {
      ...{ step, id, secret, origin, shared: parts.sharedHeaders },
    });
    const stream = probe.route === "-" ? undefined : routeOf(probe.route).stream;
    const chunks: Chunk[] = [];
    const leave =
      probe.leaveAfterMs !== undefined
        ? { abort: { afterMs: probe.leaveAfterMs } }
        : probe.wholeStream === true
          ? {}
          : { abort: { afterEvents: 1 } };
    if (probe.anyway !== true) signal?.throwIfAborted();
    const giveBack = await lanes.take();
    if (probe.anyway !== true && signal?.aborted === true) {
      giveBack();
      signal.throwIfAborted();
    }
    probe.beforeSent?.();
    const running = exchange(
      probe.wholeStream === true ? tapped(parts.dispatcher, clock, chunks) : parts.dispatcher,
      { ...built.request, ...(stream === undefined ? {} : { stream, keepEvents: true, ...leave }) },
      clock,
      parts.timeouts ?? VERIFY_TIMEOUTS,
    );
    void running.then(giveBack);
    const exchanged = await (probe.anyway === true || probe.toTheEnd === true ? running : unlessStopped(running));
    const context: CallContext = { id, stage: parts.stage, driver: "verify", intendedUs: exchanged.sentUs };
    const named = nameOf(exchanged, exchanged.text);
    const line = lineFor(probe, named, lineOf(step, exchanged, context, clock.errorUs));
    const body = parseJson(exchanged.text);
    const answer: Answer = {
      ...named,
      id,
      probe,
      request: built.sent,
      line,
      exchanged,
      status: exchanged.status,
      headers: headersOfAnswer(exchanged),
      text: exchanged.text,
      body,
      fields: isObject(body) ? body : {},
      chunks,
      transient: isTransient(named.outcome),
    };
    // In a burst it may be refused so, one call after the other, while the rest is served.
    if (exchanged.status !== null) silent = 0;
    else if (probe.atOnce !== true) silent += 1;
    // What was let in unasked is spent all the same.
    if (isAdmitted(answer)) outages.seenUp(probe);
    if (isAdmitted(answer) && isMint(probe)) budget.spent.map_loads += 1;
    if (isAdmitted(answer) && probe.route === "design.analyze") budget.spent.analyses += 1;
    answers.push(answer);
    parts.onLine(line);
    return answer;
  };

  /** Waits for a call to be let in again; takes of the patience that all have in common. */
  const outages = createOutages({
    isUp: async (neighbour) => isAdmitted(await attempt(neighbour, true)),
    rest: async (ms) => {
      if (patienceMs < ms) return false;
      patienceMs -= ms;
      await wait(ms, signal);
      return true;
    },
  });

  const waitFor = async (answer: Answer, k: number): Promise<boolean> => {
    const told = answer.headers["retry-after"];
    const askedMs = told === undefined ? undefined : retryAfterMs(told, Date.now());
    const waitMs = Math.min(Math.max(askedMs ?? 0, WAIT_FIRST_MS * 2 ** k), WAIT_MAX_MS);
    if (patienceMs < waitMs) return false;
    patienceMs -= waitMs;
    // What says that there were too many is obeyed by everybody; the rest concerns this call.
    if (answer.status === 429) {
      throttle.slower(answer.subcode === "rate_limited" ? "rate" : "overload");
      throttle.pause(waitMs);
    }
    await wait(waitMs, signal);
    return true;
  };

  /** Whether only this call is refused so, while its neighbour is let in. `away`: the neighbour meets the same. */
  const isItsOwn = async (probe: Probe, neighbour: Probe): Promise<Answer | "away" | null> => {
    let last: Answer | null = null;
    for (let round = 0; round < CONFIRMATIONS; round++) {
      const beside = await attempt(neighbour);
      if (beside.transient) return "away";
      if (!isAdmitted(beside)) return null;
      last = await attempt(probe);
      if (!last.transient) return last;
    }
    return last === null ? null : { ...last, transient: false };
  };

  /** Whose answers of which name were found to be their own: nothing is waited for a second time. */
  const ownBefore = new Set<string>();

  const send = async (probe: Probe): Promise<Answer> => {
    let answer = await attempt(probe);
    if (!answer.transient) throttle.faster();
    if (!answer.transient || probe.once === true) return answer;
    const kind = `${answer.outcome} ${probe.secret?.variable ?? JSON.stringify(probe.credential)}`;
    const slow = /timeout/.test(answer.exchanged.error ?? "");
    for (let k = 0; k < (slow ? 1 : ATTEMPTS - 1) && !ownBefore.has(kind); k++) {
      if (!(await waitFor(answer, k))) return answer;
      answer = await attempt(probe);
      if (!answer.transient) return answer;
    }
    const neighbour = parts.neighbourOf(probe);
    for (let outage = 0; neighbour !== null && outage < OUTAGES; outage++) {
      const own = await isItsOwn(probe, neighbour);
      if (own !== "away") {
        if (own !== null && own.outcome === answer.outcome) ownBefore.add(kind);
        return own ?? answer;
      }
      if (!(await outages.end(neighbour))) return answer;
      answer = await attempt(probe);
      if (!answer.transient) return answer;
    }
    return answer;
  };

  return { send, answers };
};
