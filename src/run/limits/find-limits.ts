/**
 * Finds caps, slots, service time, rate and burst of a deployment by calls (`doctor --find-limits`): streams alone, one key
 * pressed past its rate with reads, then climbs from an idle deployment to its cap. The bounds are `shedding/caps-found.ts`;
 * this file sends what they need, inside permits and budget, and ends after `CALLS_MOST` calls or `SECONDS_MOST`.
 */
import {
  type BucketFound,
  type Figure,
  serviceTimeMs,
  slotBounds,
  type WholeBounds,
} from "../../shedding/caps-found.ts";
import { runtimeCallers } from "../../workload/callers/callers.ts";
import { type Climbed, climb, refillMs } from "./climb.ts";
import { lookAtCalm, openSender, type Room, STREAM } from "./limit-calls.ts";
import { pressKey } from "./press-key.ts";

/** Organizations that climb together. */
const CALLERS_MOST = 24;

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
    if (sender.mayGoOn() || pressed?.bucket.found === true) Object.assign(found, pressed ?? {});
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
