/**
 * Finds caps, slots, service time, rate and burst of a deployment by calls (`doctor --find-limits`): streams alone, one
 * key pressed past its rate with reads, then climbs from an idle deployment to its cap. `shedding/caps-found.ts`
 * computes the bounds; this file sends the calls, inside permits and budget, and ends after `CALLS_MOST` calls or
 * `SECONDS_MOST`.
 */
import type { CallLine } from "../../history/line.ts";
import { type BucketFound, serviceTimeMs, slotBounds, type WholeBounds } from "../../shedding/caps-found.ts";
import type { Estimate } from "../../shedding/curve.ts";
import { runtimeCallers } from "../../workload/callers/callers.ts";
import { type Climbed, climb, refillMs } from "./climb.ts";
import { lookAtCalm, openSender, type Room, STREAM } from "./limit-calls.ts";
import { pressKey } from "./press-key.ts";

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
