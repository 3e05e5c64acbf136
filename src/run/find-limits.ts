/**
 * Finds caps, slots, service time, rate and burst of a deployment by calls (`doctor --find-limits`): streams alone, one key
 * pressed past its rate with reads, then climbs from an idle deployment to its cap. The bounds are `shedding/caps-found.ts`;
 * this file sends what they need, inside permits and budget, and ends after `CALLS_MOST` calls or `SECONDS_MOST`.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { openApiClient } from "../client/api-client.ts";
import { createRunClock, wallUs } from "../client/clock.ts";
import type { RouteName } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { quantile } from "../history/statistics/statistics.ts";
import {
  type BucketFound,
  bucketFound,
  capBounds,
  type Figure,
  GLOBAL_SHED,
  isContradiction,
  isExact,
  KEY_REFUSED,
  ORGANIZATION_SHED,
  serviceTimeMs,
  slotBounds,
  type WholeBounds,
} from "../shedding/caps-found.ts";
import type { PreparedTarget } from "../stages/prepare-target.ts";
import { type Caller, callAs, runtimeCallers, sessionsOf } from "../workload/callers/callers.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";

export const CALLS_MOST = 8_000;
export const SECONDS_MOST = 75;
const STREAM = "chat.control";
const READ = "design.themes";
/** Organizations that climb together. */
const CALLERS_MOST = 24;

const CALM_MS = 7_000;
const CALM_MOST = 30;
const CALM_LEAST = 8;
/** Streams this long are measured side by side, four at once. */
const LONG_STREAM_MS = 2_000;
/** The mean stay is known when its interval is this narrow. */
const CALM_SHARE = 0.03;

const PRESS_UNREFUSED_MS = 7_000;
const PRESSERS_MOST = 32;
const ADMITTED_THEN = 15;
const PRESSES_MOST = 3;
const REST_MOST_MS = 15_000;
/** Where the key was refused and its rate is not known. */
const REST_UNKNOWN_MS = 1_500;

const IN_FLIGHT_MOST = 1_024;
const ROUNDS_LEAST = 4;
const ROUNDS_MOST = 12;
const STEPS_MOST = 80;
const EXPLORING_STEPS = 3;
/** Below this many reads behind each stream; with two of three, two or three replicas in turn show themselves. */
const READS_MOST = 3;
const SHEDS_A_ROUND = 8;
/** Streams of a climb that are sent one by one, below the cap. */
const LAST_STEPS = 2;

/** What a climb met first; `edge`: an answer that is not the API's, such as a balancer's own limit. */
type Met = "global" | "organization" | "key" | "edge" | "nothing";

/** How long after its last byte a deployment may hold a place, and the rest between two climbs for it. */
const LATE_RELEASE_MS = 250;
/** Heads of streams that take this part of the whole stay say nothing of when they were admitted. */
const HELD_BACK = 0.5;
const ROUNDS_HELD_BACK = 2;

export type Climbed = {
  readonly met: Met;
  readonly bounds: WholeBounds;
  /** The most streams that were in flight at once. */
  readonly inFlight: number;
  readonly outcome?: string;
  /** Answers come whole, so nobody sees when a stream was admitted. */
  readonly heldBack: boolean;
};

export type LimitsFound = {
  readonly service: Figure | null;
  readonly bucket: BucketFound | null;
  /** The calls a second that the key was asked for; `null` where it was not. */
  readonly pressedPerS: number | null;
  /** One organization alone, and all of them together; `null` where it was not tried. */
  readonly alone: Climbed | null;
  readonly together: Climbed | null;
  readonly organizations: number;
  readonly slots: WholeBounds | null;
  readonly calls: number;
  /** Why it ended early, as a sentence; `null` where it did not. */
  readonly cutOff: string | null;
};

const isAdmitted = ({ outcome }: CallLine): boolean => outcome === "200";
const spanMs = (from: number, to: number): number => (to - from) / 1000;

type Room = Pick<PreparedTarget, "target" | "secrets" | "budget"> & {
  readonly signal: AbortSignal;
  onProgress(text: string): void;
};

type Sender = Awaited<ReturnType<typeof openSender>>;

/** Sends calls and keeps their lines; once anything forbids another call, none leaves and `ended` says why. */
const openSender = async ({ target, secrets, budget, signal }: Room) => {
  const view = viewOf(target);
  const clock = createRunClock(wallUs());
  const idPrefix = `limits.${randomBytes(4).toString("hex")}`;
  const as = { stage: "find-limits", driver: "doctor" };
  const common = { secrets, view, clock, budget, idPrefix, ...as, onLine: () => undefined };
  const client = await openApiClient({ target, ...common });
  // A balancer hands out connections: a new one for each call takes its turns as they come.
  const fresh = target.transport?.protocol === "h2" ? client : await openApiClient({ target, ...common });
  const beganMs = performance.now();
  let calls = 0;
  let ended: string | null = null;
  let via: "authorization" | "x-api-key" = "authorization";
  const mayGoOn = (): boolean => {
    if (ended !== null) return false;
    if (signal.aborted) ended = "it was stopped";
    else if (calls >= CALLS_MOST) ended = `it had made ${CALLS_MOST} calls`;
    else if (performance.now() - beganMs > SECONDS_MOST * 1000) ended = `it had lasted ${SECONDS_MOST} s`;
    return ended === null;
  };
  return {
    view,
    mayGoOn,
    calls: () => calls,
    ended: () => ended,
    leftMs: () => SECONDS_MOST * 1000 - (performance.now() - beganMs),
    pause: (ms: number): Promise<void> => sleep(ms, undefined, { signal }).catch(() => undefined),
    /** A deployment may look into one header alone. */
    otherHeader: () => {
      via = "x-api-key";
    },
    openSession: async (caller: Caller): Promise<void> => {
      for (const { of, product } of sessionsOf([caller], [STREAM, READ])) {
        for (const one of new Set([client, fresh])) await one.book.fetch({ as: "session", of, product });
      }
    },
    /** `null`: it was not sent. */
    ask: async (caller: Caller, route: RouteName, by = client): Promise<CallLine | null> => {
      if (!mayGoOn()) return null;
      const n = calls;
      calls += 1;
      try {
        const asked = callAs(view, n, caller, { route, via });
        const step = by === client ? asked : { ...asked, headers: { ...asked.headers, connection: "close" } };
        const context = { id: `${idPrefix}.${n}`, ...as, intendedUs: clock.nowUs() };
        return (await by.send(step, context)).line;
      } catch (error) {
        ended ??= (error as Error).message;
        return null;
      }
    },
    fresh,
    close: () => Promise.all([client.close(), fresh.close()]),
  };
};

type Calm = {
  streams: CallLine[];
  reads: CallLine[];
  stayMs: number;
  headMs: number;
  heldBack: boolean;
  marginUs: number;
};

/** Streams and reads, one after the other; a sentence where no stream is admitted. */
const lookAtCalm = async (sender: Sender, caller: Caller): Promise<Calm | string> => {
  const streams: CallLine[] = [];
  const reads: CallLine[] = [];
  const ask = async (route: RouteName): Promise<CallLine | null> => {
    let line = await sender.ask(caller, route);
    if (line?.outcome === "401" && caller.kind === "server") {
      sender.otherHeader();
      line = await sender.ask(caller, route);
    }
    for (let again = 0; again < 5 && line?.outcome === KEY_REFUSED; again += 1) {
      await sender.pause(1_000);
      line = await sender.ask(caller, route);
    }
    return line;
  };
  // The first one makes connections.
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
    const service = streams.length < CALM_LEAST ? null : serviceTimeMs(streams, reads);
    if (service !== null && service.high - service.low < 2 * CALM_SHARE * service.value) break;
  }
  if (streams.length === 0) return sender.ended() ?? "no stream alone was admitted";
  const sorted = (values: number[]): number[] => values.toSorted((a, b) => a - b);
  const head = (line: CallLine): number => spanMs(line.sent_us, line.first_us ?? line.done_us);
  const heads = sorted([...streams, ...reads].map(head));
  const stays = sorted(streams.map((line) => spanMs(line.sent_us, line.done_us)));
  const headMs = quantile(heads, 0.9) as number;
  const stayMs = quantile(stays, 0.5) as number;
  return {
    streams,
    reads,
    stayMs,
    headMs,
    heldBack: (quantile(sorted(streams.map(head)), 0.5) as number) > HELD_BACK * stayMs,
    marginUs: Math.max(3_000, 1500 * headMs),
  };
};

/**
 * Reads by one key, as fast as `pressers` callers and the permitted rate allow, until it is refused and for `thenMs` more, or up
 * to three times as long where hardly any is admitted then.
 */
const press = async (
  sender: Sender,
  caller: Caller,
  { pressers, pauseMs, thenMs }: { pressers: number; pauseMs: number; thenMs: number },
): Promise<CallLine[]> => {
  const lines: CallLine[] = [];
  let refusedMs: number | null = null;
  const beganMs = performance.now();
  let running = 0;
  let after = 0;
  const presser = async (): Promise<void> => {
    running += 1;
    for (;;) {
      const nowMs = performance.now();
      const thenAllMs = after < ADMITTED_THEN ? 3 * thenMs : thenMs;
      if (refusedMs === null ? nowMs > beganMs + PRESS_UNREFUSED_MS : nowMs > refusedMs + thenAllMs) break;
      const line = await sender.ask(caller, READ);
      if (line === null) break;
      lines.push(line);
      if (line.outcome === KEY_REFUSED) {
        refusedMs ??= performance.now();
        await sender.pause(pauseMs * running);
      } else if (!isAdmitted(line)) break;
      else if (refusedMs !== null) after += 1;
    }
  };
  const all = Array.from({ length: pressers }, presser);
  // Where nothing is refused, more of them.
  while (refusedMs === null && all.length < PRESSERS_MOST && performance.now() < beganMs + PRESS_UNREFUSED_MS) {
    await Promise.race([sender.pause(700), Promise.all(all)]);
    if (refusedMs !== null || !sender.mayGoOn()) break;
    for (let more = all.length; more > 0; more -= 1) all.push(presser());
  }
  await Promise.all(all);
  return lines;
};

const perSecond = (lines: readonly CallLine[]): number => {
  const sent = lines.map(({ sent_us: us }) => us);
  const s = spanMs(Math.min(...sent), Math.max(...sent)) / 1000;
  return s > 0 ? lines.length / s : 0;
};

/** A first estimate: what was admitted before the first refusal, and a second from then on; `null` where there is none. */
const roughly = (lines: readonly CallLine[]): { burst: number; perS: number } | null => {
  const calls = lines.toSorted((one, other) => one.sent_us - other.sent_us);
  const at = calls.findIndex(({ outcome }) => outcome === KEY_REFUSED);
  if (at < 0) return null;
  const after = calls.slice(at);
  const s = spanMs((after[0] as CallLine).sent_us, (after.at(-1) as CallLine).done_us) / 1000;
  const perS = after.filter(isAdmitted).length / s;
  return perS > 0 ? { burst: at, perS } : null;
};

/**
 * Once to learn how long the key needs to rest; then rested, by no more callers than it takes. It had rested for long enough
 * when it has saved up less than its rate gave it meanwhile.
 */
const pressKey = async (
  sender: Sender,
  caller: Caller,
  { reads }: Calm,
): Promise<{ bucket: BucketFound; pressedPerS: number } | null> => {
  if (reads.length === 0) return null;
  const readMs = Math.max(...reads.map((line) => spanMs(line.sent_us, line.done_us)));
  let lines = await press(sender, caller, { pressers: 1, pauseMs: 4, thenMs: 1_500 });
  const rough = roughly(lines);
  if (rough === null) return { bucket: bucketFound(lines), pressedPerS: perSecond(lines) };
  const { perS } = rough;
  let { burst } = rough;
  const pressers = Math.min(PRESSERS_MOST, Math.ceil((1.5 * perS * readMs) / 1000));
  const how = { pressers, pauseMs: Math.max(4, 50 / perS), thenMs: 4_000 };
  let bucket: BucketFound = { found: false, code: "too-short" };
  for (let again = 0; again < PRESSES_MOST && sender.mayGoOn(); again += 1) {
    const restMs = 500 + (1300 * burst) / perS;
    if (restMs > REST_MOST_MS) break;
    await sender.pause(restMs);
    lines = await press(sender, caller, how);
    bucket = bucketFound(lines);
    if (bucket.found && bucket.burst.most < 0.9 * perS * (restMs / 1000)) break;
    if (bucket.found) bucket = { found: false, code: "too-short" };
    burst = 2 * Math.max(burst, roughly(lines)?.burst ?? 0);
  }
  return { bucket, pressedPerS: perSecond(lines) };
};

const metIn = (lines: readonly CallLine[]): { met: Met; outcome?: string } => {
  const find = (test: (outcome: string) => boolean): string | undefined =>
    lines.find(({ outcome }) => test(outcome))?.outcome;
  const edge = find((outcome) => /^edge /.test(outcome) || outcome === "indeterminate" || /^5\d\d/.test(outcome));
  if (find((outcome) => outcome === GLOBAL_SHED) !== undefined) return { met: "global" };
  if (find((outcome) => outcome === ORGANIZATION_SHED) !== undefined) return { met: "organization" };
  if (find((outcome) => outcome === KEY_REFUSED) !== undefined) return { met: "key" };
  return edge === undefined ? { met: "nothing" } : { met: "edge", outcome: edge };
};

type Climb = {
  readonly sender: Sender;
  readonly callers: readonly Caller[];
  readonly calm: Calm;
  readonly bucket: BucketFound | null;
  /** Calls a second that are permitted. */
  readonly maxPerS: number;
};

/** Until a key has so many tokens back. */
const refillMs = (bucket: BucketFound | null, tokens: number): number => {
  if (bucket?.found === true) return Math.min(REST_MOST_MS, (1000 * tokens) / bucket.ratePerS.low);
  return bucket === null || bucket.code === "never-refused" ? 0 : REST_UNKNOWN_MS;
};

/** `base` streams at once, then one by one; `reads` after each stream, so that a balancer that takes turns shows itself. */
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
  // Where streams end faster than steps can replace them, the first ones are all that can fill it.
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
  const isRefused = lines.some(({ outcome }) => outcome === KEY_REFUSED);
  const restMs = Math.max(isRefused ? REST_UNKNOWN_MS : 0, refillMs(bucket, used));
  await sender.pause(Math.max(restMs, LATE_RELEASE_MS + 50, (2 * calm.marginUs) / 1000));
  return lines;
};

const mostAtOnce = (lines: readonly CallLine[]): number => {
  const admitted = lines.filter(isAdmitted);
  return Math.max(
    0,
    ...admitted.map(
      (call) =>
        admitted.filter(({ sent_us: sent, done_us: done }) => sent <= call.sent_us && done > call.sent_us).length,
    ),
  );
};

/** Twice as many streams at once each time until something is met, then climbs to just there. */
const climb = async (
  how: Climb,
  { from, replicas }: { from: number; replicas: number | undefined },
  onProgress: (text: string) => void,
): Promise<{ climbed: Climbed; lines: CallLine[] }> => {
  const { sender, calm, bucket, maxPerS, callers } = how;
  const lines: CallLine[] = [];
  const tokens = bucket?.found === true ? bucket.burst.least * callers.length : Number.POSITIVE_INFINITY;
  const reachable = Math.floor(Math.min(IN_FLIGHT_MOST, tokens, (0.95 * maxPerS * calm.stayMs) / 1000));
  let base = Math.min(from, reachable);
  for (;;) {
    onProgress(`${base} streams at once`);
    const came = await round(how, { base, reads: 0, sheds: 1, steps: EXPLORING_STEPS });
    lines.push(...came);
    if (came.some((line) => !isAdmitted(line)) || base >= reachable || !sender.mayGoOn()) break;
    base = Math.min(2 * base, reachable);
  }
  const { met, outcome } = metIn(lines);
  const cap = met === "organization" ? ORGANIZATION_SHED : GLOBAL_SHED;
  const isOne = replicas === 1;
  const { marginUs } = calm;
  const bounds = (): WholeBounds => {
    const prompt = capBounds(lines, cap, { replicas, marginUs });
    // Where the file states that it is one replica, a contradiction may be a place that is given back late.
    return isOne && isContradiction(prompt)
      ? capBounds(lines, cap, { marginUs, releaseUs: 1000 * LATE_RELEASE_MS })
      : prompt;
  };
  if (met === "global" || met === "organization") {
    let found = bounds();
    let push = 0;
    const rounds = calm.heldBack ? ROUNDS_HELD_BACK : ROUNDS_MOST;
    for (let k = 0; k < rounds && sender.mayGoOn(); k += 1) {
      if (k >= ROUNDS_LEAST && (isExact(found) || isContradiction(found))) break;
      onProgress(`climb ${k + 1}: between ${found.least} and ${found.most ?? "unknown"}`);
      const near = Math.max(0, Math.min(found.most ?? base, mostAtOnce(lines)) - LAST_STEPS);
      const wanted = isOne ? 0 : k % READS_MOST;
      const reads = Math.min(wanted, Math.max(0, Math.floor(tokens / (near + LAST_STEPS)) - 1));
      // Of replicas in turn one alone gets the streams, and is full with its part of what all hold.
      const first = reads === 0 ? near + push : Math.floor(near / (reads + 1));
      const came = await round(how, { base: first, reads, sheds: SHEDS_A_ROUND, steps: STEPS_MOST });
      lines.push(...came);
      // Steps came too slowly to fill it: begin nearer to it.
      if (reads === 0) push = came.some(({ outcome }) => outcome === cap) ? 0 : push + 1;
      found = bounds();
    }
  }
  const { heldBack } = calm;
  return { climbed: { met, outcome, bounds: bounds(), inFlight: mostAtOnce(lines), heldBack }, lines };
};

/** A mean that is this uncertain is not written. */
const KNOWN_SHARE = 0.15;
export const isKnown = (figure: Figure | null): figure is Figure =>
  figure !== null && figure.high - figure.low <= 2 * KNOWN_SHARE * figure.value;

/** What was found by calls of this target's callers. Throws what opening the connection throws. */
export const findLimits = async (room: Room): Promise<LimitsFound> => {
  const { target, onProgress } = room;
  const sender = await openSender(room);
  const maxPerS = target.permits?.load_max_rps as number;
  const callers = runtimeCallers(sender.view).slice(0, CALLERS_MOST);
  const found = {
    service: null as Figure | null,
    bucket: null as BucketFound | null,
    pressedPerS: null as number | null,
    alone: null as Climbed | null,
    together: null as Climbed | null,
    organizations: callers.length,
    slots: null as WholeBounds | null,
  };
  const ended = (why: string | null): LimitsFound => ({ ...found, calls: sender.calls(), cutOff: why });
  try {
    const [caller] = callers;
    if (caller === undefined) return ended("nobody can call: name a server key, or a publishable key with its origin");
    for (const one of callers) await sender.openSession(one);
    onProgress("streams alone");
    const calm = await lookAtCalm(sender, caller);
    if (typeof calm === "string") return ended(calm);
    found.service = serviceTimeMs(calm.streams, calm.reads);
    if (!sender.mayGoOn()) return ended(sender.ended());
    onProgress("one key, past its rate");
    const pressed = await pressKey(sender, caller, calm);
    Object.assign(found, pressed ?? {});
    if (!sender.mayGoOn()) return ended(sender.ended());
    const bucket = found.bucket;
    await sender.pause(refillMs(bucket, bucket?.found === true ? bucket.burst.most : 0));
    const replicas = target.limits?.replicas;
    const how = { sender, calm, bucket, maxPerS };
    const alone = await climb({ ...how, callers: [caller] }, { from: 4, replicas }, (text) =>
      onProgress(`one organization: ${text}`),
    );
    found.alone = alone.climbed;
    const lines = [...alone.lines];
    if (callers.length > 1 && alone.climbed.met !== "global" && sender.mayGoOn()) {
      const from = Math.max(4, alone.climbed.inFlight);
      const together = await climb({ ...how, callers }, { from, replicas }, (text) =>
        onProgress(`${callers.length} organizations: ${text}`),
      );
      found.together = together.climbed;
      lines.push(...together.lines);
    }
    found.slots = slotBounds(calm.streams, lines, calm);
    // Where lengths differ, those of the climbs count too, if none waited.
    const all = [...calm.streams, ...lines.filter(({ route }) => route === STREAM)];
    if (!isKnown(found.service) && found.slots.most === null) found.service = serviceTimeMs(all, calm.reads);
    return ended(sender.ended());
  } catch (error) {
    return ended((error as Error).message);
  } finally {
    await sender.close();
  }
};
