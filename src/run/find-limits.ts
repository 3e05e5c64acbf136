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
export const SECONDS_MOST = 85;
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
const REST_MOST_MS = 15_000;

const IN_FLIGHT_MOST = 1_024;
const ROUNDS_LEAST = 4;
const ROUNDS_MOST = 12;
const STEPS_MOST = 80;
const SHEDS_A_ROUND = 8;
/** Streams of a climb that are sent one by one, below the cap. */
const LAST_STEPS = 3;

/** What a climb met first; `edge`: an answer that is not the API's, such as a balancer's own limit. */
type Met = "global" | "organization" | "key" | "edge" | "nothing";

export type Climbed = {
  readonly met: Met;
  readonly bounds: WholeBounds;
  /** The most streams that were in flight at once. */
  readonly inFlight: number;
  readonly outcome?: string;
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
  const by = { stage: "find-limits", driver: "doctor" };
  const client = await openApiClient({
    target,
    secrets,
    view,
    clock,
    budget,
    idPrefix,
    ...by,
    onLine: () => undefined,
  });
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
        await client.book.fetch({ as: "session", of, product });
      }
    },
    /** `null`: it was not sent. */
    ask: async (caller: Caller, route: RouteName): Promise<CallLine | null> => {
      if (!mayGoOn()) return null;
      const n = calls;
      calls += 1;
      try {
        const step = callAs(view, n, caller, { route, via });
        const context = { id: `${idPrefix}.${n}`, ...by, intendedUs: clock.nowUs() };
        return (await client.send(step, context)).line;
      } catch (error) {
        ended ??= (error as Error).message;
        return null;
      }
    },
    close: client.close,
  };
};

type Calm = { streams: CallLine[]; reads: CallLine[]; stayMs: number; headMs: number; marginUs: number };

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
  const heads = sorted([...streams, ...reads].map((line) => spanMs(line.sent_us, line.first_us ?? line.done_us)));
  const stays = sorted(streams.map((line) => spanMs(line.sent_us, line.done_us)));
  const headMs = quantile(heads, 0.9) as number;
  return {
    streams,
    reads,
    stayMs: quantile(stays, 0.5) as number,
    headMs,
    marginUs: Math.max(3_000, 1500 * headMs),
  };
};

/** Reads by one key, as fast as `pressers` callers and the permitted rate allow, until it is refused and for `thenMs` more. */
const press = async (sender: Sender, caller: Caller, pressers: number, thenMs: number): Promise<CallLine[]> => {
  const lines: CallLine[] = [];
  let refusedMs: number | null = null;
  const beganMs = performance.now();
  let running = 0;
  const presser = async (): Promise<void> => {
    running += 1;
    for (;;) {
      const nowMs = performance.now();
      if (refusedMs === null ? nowMs > beganMs + PRESS_UNREFUSED_MS : nowMs > refusedMs + thenMs) break;
      const line = await sender.ask(caller, READ);
      if (line === null) break;
      lines.push(line);
      if (line.outcome === KEY_REFUSED) {
        refusedMs ??= performance.now();
        await sender.pause(4 * running);
      } else if (!isAdmitted(line)) break;
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

/** Twice: once to learn how long the key needs to rest, and once rested, by no more callers than it takes. */
const pressKey = async (
  sender: Sender,
  caller: Caller,
  { reads }: Calm,
): Promise<{ bucket: BucketFound; pressedPerS: number } | null> => {
  if (reads.length === 0) return null;
  await sender.pause(2_000);
  const rough = await press(sender, caller, 1, 2_000);
  const first = bucketFound(rough);
  if (!first.found) return { bucket: first, pressedPerS: perSecond(rough) };
  const restMs = (1300 * first.burst.most) / Math.max(first.ratePerS.low, 0.01);
  if (restMs > REST_MOST_MS) return { bucket: { found: false, code: "too-short" }, pressedPerS: perSecond(rough) };
  await sender.pause(restMs);
  const readS = Math.max(...reads.map((line) => spanMs(line.sent_us, line.done_us))) / 1000;
  const pressers = Math.min(PRESSERS_MOST, Math.ceil(1.5 * first.ratePerS.high * readS));
  const lines = await press(sender, caller, pressers, 5_000);
  const second = bucketFound(lines);
  await sender.pause(restMs);
  return { bucket: second, pressedPerS: perSecond(lines) };
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

/** `base` streams at once, then one by one; `reads` after each stream, so that a balancer that takes turns shows itself. */
const round = async (
  { sender, callers, calm, maxPerS, bucket }: Climb,
  { base, reads, sheds }: { base: number; reads: number; sheds: number },
): Promise<CallLine[]> => {
  const lines: CallLine[] = [];
  const pending: Promise<void>[] = [];
  let refused = 0;
  let turn = 0;
  const send = (route: RouteName): Promise<void> => {
    const caller = callers[turn % callers.length] as Caller;
    if (route === STREAM) turn += 1;
    const sent = sender.ask(caller, route).then((line) => {
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
  await sender.pause((1000 * base * (1 + reads)) / (0.95 * maxPerS) + 2 * calm.headMs + 5);
  const stepMs = Math.max(2.5, 1.2 * calm.headMs);
  for (let step = 0; step < STEPS_MOST && refused < sheds && sender.mayGoOn(); step += 1) {
    await Promise.race([send(STREAM), sender.pause(stepMs)]);
    for (let r = 0; r < reads; r += 1) await Promise.race([send(READ), sender.pause(stepMs)]);
  }
  await Promise.all(pending);
  const used = lines.filter(isAdmitted).length / callers.length;
  const refillMs = bucket?.found === true ? (1000 * used) / bucket.ratePerS.low : 0;
  await sender.pause(Math.min(REST_MOST_MS, refillMs) + Math.max(40, (2 * calm.marginUs) / 1000));
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
    const came = await round(how, { base, reads: 0, sheds: 1 }).then((sent) => sent.slice(0));
    lines.push(...came);
    if (came.some((line) => !isAdmitted(line)) || base >= reachable || !sender.mayGoOn()) break;
    base = Math.min(2 * base, reachable);
  }
  const { met, outcome } = metIn(lines);
  const cap = met === "organization" ? ORGANIZATION_SHED : GLOBAL_SHED;
  const bounds = (): WholeBounds => capBounds(lines, cap, { replicas, marginUs: calm.marginUs });
  if (met === "global" || met === "organization") {
    let found = bounds();
    for (let k = 0; k < ROUNDS_MOST && sender.mayGoOn(); k += 1) {
      if (k >= ROUNDS_LEAST && (isExact(found) || isContradiction(found))) break;
      onProgress(`climb ${k + 1}: between ${found.least} and ${found.most ?? "unknown"}`);
      const near = Math.max(0, Math.min(found.most ?? base, mostAtOnce(lines)) - LAST_STEPS);
      lines.push(...(await round(how, { base: near, reads: k % 3, sheds: SHEDS_A_ROUND })));
      found = bounds();
    }
  }
  return { climbed: { met, outcome, bounds: bounds(), inFlight: mostAtOnce(lines) }, lines };
};

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
    return ended(sender.ended());
  } catch (error) {
    return ended((error as Error).message);
  } finally {
    await sender.close();
  }
};
