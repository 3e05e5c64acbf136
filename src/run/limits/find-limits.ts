/**
 * Finds limits by calls (`doctor --find-limits`): streams alone, one key pressed past its rate with reads, then climbs from
 * idle to the cap. It sends inside permits and budget; `shedding/caps-found.ts` computes the bounds.
 */
import { RATE_LIMITED } from "../../contract/refusals.ts";
import type { CallLine } from "../../history/line.ts";
import {
  type BucketFound,
  bucketFound,
  serviceTimeMs,
  slotBounds,
  type WholeBounds,
} from "../../shedding/caps-found.ts";
import type { Estimate } from "../../shedding/curve.ts";
import { type Caller, runtimeCallers } from "../../workload/callers/callers.ts";
import { type Calm, type Climbed, climb, isAdmitted, lookAtCalm, REST_MOST_MS, refillMs, spanMs } from "./climb.ts";
import { openSender, READ, type Room, type Sender, STREAM } from "./sender.ts";

/** The most organizations that climb together. */
const CALLERS_MOST = 24;

export type LimitsFound = {
  service: Estimate | null;
  bucket: BucketFound | null;
  /** The calls per second that pressed the key; `null` if it was not pressed. */
  pressedPerS: number | null;
  /** What one organization alone and all of them together met; `null` if not tried. */
  alone: Climbed | null;
  together: Climbed | null;
  organizations: number;
  slots: WholeBounds | null;
  calls: number;
  /** Why the search ended early; `null` if it did not. */
  cutOff: string | null;
};

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
  const untilMs = (): number =>
    refusedMs === null ? unrefusedUntilMs : refusedMs + (after < ADMITTED_THEN ? 3 : 1) * thenMs;
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
  if (rough === null) return { bucket: bucketFound(lines), pressedPerS: perSecond(lines) };
  const { perS } = rough;
  let { burst } = rough;
  const readMs = Math.max(...reads.map((line) => spanMs(line.sent_us, line.done_us)));
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

/** Searches for limits by calls of this target's callers. Throws if opening the connection throws. */
export const findLimits = async (room: Room): Promise<LimitsFound> => {
  const { target, onProgress } = room;
  const sender = await openSender(room);
  const maxPerS = target.permits?.load_max_rps as number;
  const callers = runtimeCallers(sender.view).slice(0, CALLERS_MOST);
  const found: LimitsFound = {
    ...{ service: null, bucket: null, pressedPerS: null, alone: null, together: null, slots: null, calls: 0 },
    ...{ organizations: callers.length, cutOff: null },
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
    if (sender.mayGoOn() || pressed?.bucket.found === true) Object.assign(found, pressed ?? {});
    if (!sender.mayGoOn()) return ended(sender.ended());
    const bucket = found.bucket;
    await sender.pause(refillMs(bucket, bucket?.found === true ? bucket.burst.most : 0));
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
    found.slots = slotBounds(calm.streams, lines, calm);
    // If calm streams leave the service time unclear, streams of the climbs count too, unless some waited.
    const all = [...calm.streams, ...lines.filter(({ route }) => route === STREAM)];
    if (!isKnown(found.service) && found.slots.most === null) found.service = serviceTimeMs(all, calm.reads);
    return ended(sender.ended());
  } catch (error) {
    return ended((error as Error).message);
  } finally {
    await sender.close();
  }
};
