/**
 * Finds limits by calls (`doctor --find-limits`): streams alone, one key pressed past its rate with reads, then climbs from
 * idle to the cap. It sends inside permits and budget; `shedding/caps-found.ts` computes the bounds.
 */

import { randomBytes } from "node:crypto";
import { openApiClient } from "../../client/api-client.ts";
import { RATE_LIMITED } from "../../contract/refusals.ts";
import type { RouteName } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { median, mostAtOnce, quantile } from "../../history/statistics/statistics.ts";
import * as caps from "../../shedding/caps-found.ts";
import type { Estimate } from "../../shedding/curve.ts";
import type { PreparedTarget } from "../../stages/stage-plan.ts";
import { createRunClock, pause, wallUs } from "../../supervision/waiting.ts";
import { type Caller, callAs, runtimeCallers, sessionsOf } from "../../workload/callers/callers.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";

export const CALLS_MOST = 8_000;
export const SECONDS_MOST = 75;
const STREAM = "chat.control";
const READ = "design.themes";

type Room = Pick<PreparedTarget, "target" | "secrets" | "budget"> & {
  readonly signal: AbortSignal;
  onProgress(text: string): void;
};

type Sender = Awaited<ReturnType<typeof openSender>>;

/** Sends calls and returns their lines; once anything forbids another call, none leaves and `ended` says why. */
const openSender = async ({ target, secrets, budget, signal }: Room) => {
  const view = viewOf(target);
  const clock = createRunClock(wallUs());
  const idPrefix = `limits.${randomBytes(4).toString("hex")}`;
  const as = { stage: "find-limits", driver: "doctor" };
  const common = { secrets, view, clock, budget, idPrefix, ...as, onLine: () => undefined };
  const client = await openApiClient({ target, ...common });
  // A load balancer distributes connections, so each call by `fresh` opens its own, where the protocol lets it.
  const fresh = target.transport?.protocol === "h2" ? client : await openApiClient({ target, ...common });
  const beganMs = performance.now();
  let calls = 0;
  let ended: string | null = null;
  let restedMs = 0;
  let via: "authorization" | "x-api-key" = "authorization";
  const mayGoOn = (): boolean => {
    if (signal.aborted) ended ??= "it was stopped";
    if (calls >= CALLS_MOST) ended ??= `it had made ${CALLS_MOST} calls`;
    if (performance.now() - beganMs > SECONDS_MOST * 1000) ended ??= `it had lasted ${SECONDS_MOST} s`;
    return ended === null;
  };
  return {
    view,
    mayGoOn,
    calls: () => calls,
    ended: () => ended,
    pause: (ms: number): Promise<void> => pause(ms, signal),
    /** How long the last `Retry-After` of a refused key still asks to wait, in milliseconds. */
    askedRestMs: (): number => Math.min(REST_MOST_MS, Math.max(0, restedMs - performance.now())),
    /** Switches to `x-api-key`, for a deployment that does not read `authorization`. */
    otherHeader: () => {
      via = "x-api-key";
    },
    openSession: async (caller: Caller): Promise<void> => {
      for (const { of, product } of sessionsOf([caller], [STREAM, READ])) {
        for (const one of new Set([client, fresh])) await one.book.fetch({ as: "session", of, product });
      }
    },
    /** Returns the call's line; `null` if the call was not sent. */
    ask: async (caller: Caller, route: RouteName, by = client): Promise<CallLine | null> => {
      if (!mayGoOn()) return null;
      const n = calls;
      calls += 1;
      try {
        const asked = callAs(view, n, caller, { route, via });
        const step = by === client ? asked : { ...asked, headers: { ...asked.headers, connection: "close" } };
        const { line } = await by.send(step, { id: `${idPrefix}.${n}`, ...as, intendedUs: clock.nowUs() });
        const askedS = line.outcome === RATE_LIMITED ? Number(line.retry_after) : Number.NaN;
        if (askedS > 0) restedMs = performance.now() + 1000 * askedS;
        return line;
      } catch (error) {
        ended ??= (error as Error).message;
        return null;
      }
    },
    fresh,
    [Symbol.asyncDispose]: async (): Promise<void> => void (await Promise.all([client.close(), fresh.close()])),
  };
};

const CALLERS_MOST = 24;

const nothingFound = (organizations: number) => ({
  service: null as Estimate | null,
  bucket: null as caps.BucketFound | null,
  /** The rate at which one key was called to meet its rate limit, in calls per second; `null` if that was not tried. */
  pressedPerS: null as number | null,
  /** The outcome of the first call that was refused for another reason than the key's rate, such as a balancer's own limit; `null` if none was. */
  pressMet: null as string | null,
  /** The limit that the streams of one organization alone met, and those of all together; `null` if not tried. */
  ...{ alone: null as Climbed | null, together: null as Climbed | null },
  ...{ organizations, calls: 0, slots: null as caps.WholeBounds | null },
  /** Why the search ended early; `null` if it did not. */
  cutOff: null as string | null,
});
export type LimitsFound = ReturnType<typeof nothingFound>;

/** An estimate goes into the target file if its interval reaches at most this share of it to either side. */
const KNOWN_SHARE = 0.15;
export const isKnown = (figure: Estimate | null): figure is Estimate =>
  figure !== null && figure.high - figure.low <= 2 * KNOWN_SHARE * figure.value;

const PRESS_UNREFUSED_MS = 7_000;
const PRESSERS_MOST = 32;
const ADMITTED_THEN = 15;
const PRESSES_MOST = 3;

/**
 * Sends reads by one key as fast as `pressers` callers and the permitted rate allow, until the key is refused and for
 * `thenMs` after that; up to three times as long while fewer than `ADMITTED_THEN` reads have been admitted since.
 */
const press = async (
  sender: Sender,
  caller: Caller,
  { pressers, pauseMs, thenMs }: { pressers: number; pauseMs: number; thenMs: number },
): Promise<CallLine[]> => {
  const lines: CallLine[] = [];
  const unrefusedUntilMs = performance.now() + PRESS_UNREFUSED_MS;
  let refusedMs: number | null = null;
  let running = 0;
  let after = 0;
  const untilMs = () => (refusedMs === null ? unrefusedUntilMs : refusedMs + (after < ADMITTED_THEN ? 3 : 1) * thenMs);
  const presser = async (): Promise<void> => {
    running += 1;
    while (performance.now() <= untilMs()) {
      const line = await sender.ask(caller, READ);
      if (line === null) return;
      lines.push(line);
      if (line.outcome === RATE_LIMITED) {
        refusedMs ??= performance.now();
        await sender.pause(pauseMs * running);
      } else if (!isAdmitted(line)) return;
      else if (refusedMs !== null) after += 1;
    }
  };
  const all = Array.from({ length: pressers }, presser);
  // If nothing is refused, more callers are added.
  while (refusedMs === null && all.length < PRESSERS_MOST && performance.now() < unrefusedUntilMs) {
    await Promise.race([sender.pause(700), Promise.all(all)]);
    if (refusedMs !== null || !sender.mayGoOn()) break;
    all.push(...Array.from({ length: all.length }, presser));
  }
  await Promise.all(all);
  return lines;
};

const perSecond = (lines: readonly CallLine[]): number => {
  const sent = lines.map(({ sent_us: us }) => us);
  const s = spanMs(Math.min(...sent), Math.max(...sent)) / 1000;
  return s > 0 ? lines.length / s : 0;
};

/**
 * A first estimate: the burst is what was admitted before the first refusal, the rate what was admitted per second
 * after it. `null` if nothing was refused, or nothing admitted afterwards.
 */
const roughly = (lines: readonly CallLine[]): { burst: number; perS: number } | null => {
  const calls = lines.toSorted((one, other) => one.sent_us - other.sent_us);
  const burst = calls.findIndex(({ outcome }) => outcome === RATE_LIMITED);
  const after = burst < 0 ? [] : calls.slice(burst);
  const admitted = after.filter(isAdmitted).length;
  if (admitted === 0) return null;
  const s = spanMs((after[0] as CallLine).sent_us, (after.at(-1) as CallLine).done_us) / 1000;
  return { burst, perS: admitted / s };
};

/**
 * Presses the key once to learn how long it needs to rest, then presses the rested key by no more callers than
 * necessary, until the rest was long enough: the burst is clearly smaller than what the rate refills meanwhile.
 */
const pressKey = async (sender: Sender, caller: Caller, { reads }: Calm) => {
  if (reads.length === 0) return null;
  let lines = await press(sender, caller, { pressers: 1, pauseMs: 4, thenMs: 1_500 });
  const rough = roughly(lines);
  const pressMet = lines.find((line) => !isAdmitted(line) && line.outcome !== RATE_LIMITED)?.outcome ?? null;
  if (rough === null) return { bucket: caps.bucketFound(lines), pressedPerS: perSecond(lines), pressMet };
  const { perS } = rough;
  let { burst } = rough;
  const readMs = Math.max(...reads.map((line) => spanMs(line.sent_us, line.done_us)));
  const pressers = Math.min(PRESSERS_MOST, Math.ceil((1.5 * perS * readMs) / 1000));
  const how = { pressers, pauseMs: Math.max(4, 50 / perS), thenMs: 4_000 };
  let bucket: caps.BucketFound = { found: false, code: "too-short" };
  for (let again = 0; again < PRESSES_MOST && sender.mayGoOn(); again += 1) {
    const restMs = 500 + (1300 * burst) / perS;
    if (restMs > REST_MOST_MS) break;
    await sender.pause(restMs);
    lines = await press(sender, caller, how);
    bucket = caps.bucketFound(lines);
    if (bucket.found && bucket.burst.most < 0.9 * perS * (restMs / 1000)) break;
    if (bucket.found) bucket = { found: false, code: "too-short" };
    burst = 2 * Math.max(burst, roughly(lines)?.burst ?? 0);
  }
  return { bucket, pressedPerS: perSecond(lines) };
};

/** Searches for limits by calls of this target's callers. Throws if opening the connection throws. */
export const findLimits = async (room: Room): Promise<LimitsFound> => {
  const { target, onProgress } = room;
  await using sender = await openSender(room);
  const maxPerS = target.permits?.load_max_rps as number;
  const callers = runtimeCallers(sender.view).slice(0, CALLERS_MOST);
  const found = nothingFound(callers.length);
  const ended = (why: string | null): LimitsFound => ({ ...found, calls: sender.calls(), cutOff: why });
  try {
    const [caller] = callers;
    if (caller === undefined) return ended("nobody can call: name a server key, or a publishable key with its origin");
    for (const one of callers) await sender.openSession(one);
    onProgress("streams alone");
    const calm = await lookAtCalm(sender, caller);
    if (typeof calm === "string") return ended(calm);
    found.service = caps.serviceTimeMs(calm.streams, calm.reads);
    if (!sender.mayGoOn()) return ended(sender.ended());
    onProgress("one key, past its rate");
    const pressed = await pressKey(sender, caller, calm);
    if (sender.mayGoOn() || pressed?.bucket.found === true) Object.assign(found, pressed ?? {});
    if (!sender.mayGoOn()) return ended(sender.ended());
    const bucket = found.bucket;
    await sender.pause(refillMs(sender, bucket, bucket?.found === true ? bucket.burst.most : 0));
    const replicas = target.limits?.replicas;
    const lines: CallLine[] = [];
    const climbAs = async (who: string, by: typeof callers, from: number): Promise<Climbed> => {
      const how = { sender, calm, bucket, maxPerS, callers: by };
      const came = await climb(how, { from, replicas }, (text) => onProgress(`${who}: ${text}`));
      lines.push(...came.lines);
      return came.climbed;
    };
    found.alone = await climbAs("one organization", [caller], 4);
    if (callers.length > 1 && found.alone.met !== "global" && sender.mayGoOn()) {
      found.together = await climbAs(`${callers.length} organizations`, callers, Math.max(4, found.alone.inFlight));
    }
    found.slots = caps.slotBounds(calm.streams, lines, calm);
    // If calm streams leave the service time unclear, streams of the climbs count too, unless some waited.
    const all = [...calm.streams, ...lines.filter(({ route }) => route === STREAM)];
    if (!isKnown(found.service) && found.slots.most === null) found.service = caps.serviceTimeMs(all, calm.reads);
    return ended(sender.ended());
  } catch (error) {
    return ended((error as Error).message);
  }
};

// Searches for caps: single streams and reads on an idle deployment, then more and more streams until one is shed.

const REST_MOST_MS = 15_000;

const CALM_MS = 7_000;
const CALM_MOST = 30;
const CALM_LEAST = 8;
/** Streams longer than this are measured four at once. */
const LONG_STREAM_MS = 2_000;
/** Measuring ends when the interval of the mean service time is narrower than this share to either side. */
const CALM_SHARE = 0.03;

/** If heads take more than this share of a stream, they do not show when it was admitted. */
const HELD_BACK = 0.5;

export const isAdmitted = ({ outcome }: CallLine): boolean => outcome === "200";
export const spanMs = (from: number, to: number): number => (to - from) / 1000;

/** Measures streams and reads on an idle deployment; returns a sentence if no stream is admitted. */
const lookAtCalm = async (sender: Sender, caller: Caller) => {
  const streams: CallLine[] = [];
  const reads: CallLine[] = [];
  const ask = async (route: RouteName): Promise<CallLine | null> => {
    let line = await sender.ask(caller, route);
    if (line?.outcome === "401" && caller.kind === "server") {
      sender.otherHeader();
      line = await sender.ask(caller, route);
    }
    for (let again = 0; again < 5 && line?.outcome === RATE_LIMITED; again += 1) {
      await sender.pause(Math.max(1_000, sender.askedRestMs()));
      line = await sender.ask(caller, route);
    }
    return line;
  };
  // The first call opens the connection.
  await ask(READ);
  const first = await ask(STREAM);
  if (first === null) return sender.ended() ?? "no call was sent";
  if (!isAdmitted(first)) return `a stream alone was answered ${first.outcome}`;
  const atOnce = spanMs(first.sent_us, first.done_us) > LONG_STREAM_MS ? 4 : 1;
  const untilMs = performance.now() + CALM_MS;
  while (sender.mayGoOn() && streams.length < CALM_MOST && (streams.length < 3 || performance.now() < untilMs)) {
    const lines = await Promise.all(Array.from({ length: atOnce }, () => ask(STREAM)));
    streams.push(...lines.filter((line) => line !== null).filter(isAdmitted));
    const read = reads.length < CALM_LEAST ? await ask(READ) : null;
    if (read !== null && isAdmitted(read)) reads.push(read);
    const service = streams.length < CALM_LEAST ? null : caps.serviceTimeMs(streams, reads);
    if (service !== null && service.high - service.low < 2 * CALM_SHARE * service.value) break;
  }
  if (streams.length === 0) return sender.ended() ?? "no stream alone was admitted";
  const head = (line: CallLine): number => spanMs(line.sent_us, line.first_us ?? line.done_us);
  const headMs = quantile([...streams, ...reads].map(head), 0.9) as number;
  const stays = streams.map((line) => spanMs(line.sent_us, line.done_us));
  const stayMs = median(stays) as number;
  return {
    ...{ streams, reads, headMs, stayMs },
    /** The 90th percentile of the stays, in milliseconds. */
    longMs: quantile(stays, 0.9) as number,
    heldBack: (median(streams.map(head)) as number) > HELD_BACK * stayMs,
    marginUs: Math.max(3_000, 1500 * headMs),
  };
};

export type Calm = Exclude<Awaited<ReturnType<typeof lookAtCalm>>, string>;

const IN_FLIGHT_MOST = 1_024;
const ROUNDS_LEAST = 4;
const ROUNDS_MOST = 12;
const STEPS_MOST = 80;
const EXPLORING_STEPS = 3;
/** Rounds send 0, 1 or 2 reads behind each stream; 1 and 2 reveal two and three replicas that take turns. */
const READS_MOST = 3;
const SHEDS_A_ROUND = 8;
/** How far below the expected cap a climb begins to send streams one by one. */
const LAST_STEPS = 2;

const ROUNDS_HELD_BACK = 2;

/** How long a deployment may hold a place after a stream's last byte; climbs are further apart. */
const LATE_RELEASE_MS = 250;
/** The rest after a refused key whose rate is not known. */
const REST_UNKNOWN_MS = 1_500;

export type Climbed = {
  /** The limit that the climb met; `edge`: an answer that is not the API's, such as a balancer's own limit. */
  readonly met: "global" | "organization" | "key" | "edge" | "nothing";
  readonly bounds: caps.WholeBounds;
  readonly inFlight: number;
  readonly outcome?: string;
  /** Answers arrive in one piece, so they do not show when a stream was admitted. */
  readonly heldBack: boolean;
  /** Several replicas would have been noticed, or the target file states their number. */
  readonly isChecked: boolean;
};

const metIn = (lines: readonly CallLine[]): Pick<Climbed, "met" | "outcome"> => {
  const outcomes = lines.map(({ outcome }) => outcome);
  if (outcomes.includes(caps.GLOBAL_SHED)) return { met: "global" };
  if (outcomes.includes(caps.ORGANIZATION_SHED)) return { met: "organization" };
  if (outcomes.includes(RATE_LIMITED)) return { met: "key" };
  const outcome = outcomes.find((one) => /^(edge |indeterminate$|5\d\d)/.test(one));
  return outcome === undefined ? { met: "nothing" } : { met: "edge", outcome };
};

type Climb = {
  readonly sender: Sender;
  readonly callers: readonly Caller[];
  readonly calm: Calm;
  readonly bucket: caps.BucketFound | null;
  readonly maxPerS: number;
};

/** How long a key needs to regain so many tokens, in milliseconds, as far as is known. */
const refillMs = (sender: Sender, bucket: caps.BucketFound | null, tokens: number): number => {
  if (bucket?.found === true) return Math.min(REST_MOST_MS, (1000 * tokens) / bucket.ratePerS.low);
  return bucket === null || bucket.code === "never-refused" ? 0 : Math.max(REST_UNKNOWN_MS, sender.askedRestMs());
};

/** Sends `base` streams at once, then one by one; `reads` after each stream reveal replicas that take turns. */
const round = async (
  { sender, callers, calm, maxPerS, bucket }: Climb,
  { base, reads, sheds, steps }: { base: number; reads: number; sheds: number; steps: number },
): Promise<CallLine[]> => {
  const lines: CallLine[] = [];
  const pending: Promise<void>[] = [];
  let refused = 0;
  let turn = 0;
  const send = (route: RouteName): Promise<void> => {
    const caller = callers[turn % callers.length] as Caller;
    if (route === STREAM) turn += 1;
    const sent = sender.ask(caller, route, reads > 0 ? sender.fresh : undefined).then((line) => {
      if (line === null) return;
      lines.push(line);
      if (!isAdmitted(line)) refused += 1;
    });
    pending.push(sent);
    return sent;
  };
  for (let k = 0; k < base; k += 1) {
    send(STREAM);
    for (let r = 0; r < reads; r += 1) send(READ);
  }
  await sender.pause((1000 * base * (1 + reads)) / (0.95 * maxPerS) + 1.3 * calm.headMs + 5);
  const stepMs = Math.max(2.5, 1.2 * calm.headMs);
  // If streams end faster than steps replace them, only the first ones can fill the deployment.
  const isHeld = calm.stayMs > 1.5 * base * stepMs;
  const untilMs = performance.now() + (isHeld ? Number.POSITIVE_INFINITY : calm.stayMs);
  for (let step = 0; step < steps && refused < sheds && sender.mayGoOn(); step += 1) {
    if (performance.now() > untilMs) break;
    await Promise.race([send(STREAM), sender.pause(stepMs)]);
    for (let r = 0; r < reads; r += 1) await Promise.race([send(READ), sender.pause(stepMs)]);
    // A read that has just ended might still hold a place.
    if (reads > 0) await sender.pause(calm.marginUs / 1000 + 1);
  }
  await Promise.all(pending);
  const used = lines.filter(isAdmitted).length / callers.length;
  const isRefused = lines.some(({ outcome }) => outcome === RATE_LIMITED);
  const restMs = Math.max(isRefused ? REST_UNKNOWN_MS : 0, refillMs(sender, bucket, used));
  await sender.pause(Math.max(restMs, LATE_RELEASE_MS + 50, (2 * calm.marginUs) / 1000));
  return lines;
};

const inFlightIn = (lines: readonly CallLine[]): number =>
  mostAtOnce(lines.filter(isAdmitted).map(({ sent_us: sent, done_us: done }) => [sent, done] as const));

/** Doubles the streams sent at once, from `from` to `reachable`, until one is not admitted. */
const explore = async (how: Climb, from: number, reachable: number, onProgress: (text: string) => void) => {
  const lines: CallLine[] = [];
  for (let base = Math.min(from, reachable); ; base = Math.min(2 * base, reachable)) {
    onProgress(`${base} streams at once`);
    const came = await round(how, { base, reads: 0, sheds: 1, steps: EXPLORING_STEPS });
    lines.push(...came);
    const isOver = came.some((line) => !isAdmitted(line)) || base >= reachable || !how.sender.mayGoOn();
    if (isOver) return { base, lines };
  }
};

/** Explores, then climbs repeatedly to the cap that was met. */
const climb = async (
  how: Climb,
  { from, replicas }: { from: number; replicas: number | undefined },
  onProgress: (text: string) => void,
): Promise<{ climbed: Climbed; lines: CallLine[] }> => {
  const { sender, calm, bucket, maxPerS, callers } = how;
  const tokens = bucket?.found === true ? bucket.burst.least * callers.length : Number.POSITIVE_INFINITY;
  const reachable = Math.floor(Math.min(IN_FLIGHT_MOST, tokens, (maxPerS * calm.longMs) / 1000));
  const { base, lines } = await explore(how, from, reachable, onProgress);
  const { met, outcome } = metIn(lines);
  const cap = met === "organization" ? caps.ORGANIZATION_SHED : caps.GLOBAL_SHED;
  const isOne = replicas === 1;
  /** The numbers of reads behind each stream that were tried. */
  const kinds = new Set<number>();
  const { marginUs } = calm;
  const bounds = (): caps.WholeBounds => {
    const prompt = caps.capBounds(lines, cap, { replicas, marginUs });
    // With one replica stated, a contradiction may mean that a place is given back late.
    return isOne && caps.isContradiction(prompt)
      ? caps.capBounds(lines, cap, { marginUs, releaseUs: 1000 * LATE_RELEASE_MS })
      : prompt;
  };
  if (met === "global" || met === "organization") {
    let found = bounds();
    let push = 0;
    const rounds = calm.heldBack ? ROUNDS_HELD_BACK : ROUNDS_MOST;
    for (let k = 0; k < rounds && sender.mayGoOn(); k += 1) {
      if (k >= ROUNDS_LEAST && (caps.isExact(found) || caps.isContradiction(found))) break;
      onProgress(`climb ${k + 1}: between ${found.least} and ${found.most ?? "unknown"}`);
      const near = Math.max(0, Math.min(found.most ?? base, inFlightIn(lines)) - LAST_STEPS);
      const wanted = isOne ? 0 : k % READS_MOST;
      const reads = tokens >= near + LAST_STEPS + 4 * (1 + wanted) ? wanted : 0;
      // If replicas take turns, one gets all streams and is full with its share of the cap.
      const first = reads === 0 ? near + push : Math.floor(near / (reads + 1));
      const came = await round(how, { base: first, reads, sheds: SHEDS_A_ROUND, steps: STEPS_MOST });
      lines.push(...came);
      if (sender.mayGoOn()) kinds.add(reads);
      // If the cap was not met, streams ended faster than steps came: begin nearer to the cap, or beyond it.
      if (reads === 0) push = came.some(({ outcome }) => outcome === cap) ? Math.max(0, push - 1) : 2 * push + 1;
      found = bounds();
    }
  }
  const { heldBack } = calm;
  const isChecked = replicas !== undefined || kinds.size === READS_MOST;
  return { climbed: { met, outcome, bounds: bounds(), inFlight: inFlightIn(lines), heldBack, isChecked }, lines };
};
