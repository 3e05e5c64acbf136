/** Fills an idle deployment with streams until some are shed, again and again, to find its caps. */
import type { RouteName } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { mostAtOnce } from "../../history/statistics/statistics.ts";
import {
  type BucketFound,
  capBounds,
  GLOBAL_SHED,
  isContradiction,
  isExact,
  KEY_REFUSED,
  ORGANIZATION_SHED,
  type WholeBounds,
} from "../../shedding/caps-found.ts";
import type { Caller } from "../../workload/callers/callers.ts";
import { type Calm, isAdmitted, READ, REST_MOST_MS, type Sender, STREAM } from "./limit-calls.ts";

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
  readonly bounds: WholeBounds;
  /** The most streams that were in flight at once. */
  readonly inFlight: number;
  readonly outcome?: string;
  /** Answers arrive in one piece, so they do not show when a stream was admitted. */
  readonly heldBack: boolean;
  /** Several replicas would have been noticed, or the target file states their number. */
  readonly isChecked: boolean;
};

const metIn = (lines: readonly CallLine[]): Pick<Climbed, "met" | "outcome"> => {
  const outcomes = lines.map(({ outcome }) => outcome);
  if (outcomes.includes(GLOBAL_SHED)) return { met: "global" };
  if (outcomes.includes(ORGANIZATION_SHED)) return { met: "organization" };
  if (outcomes.includes(KEY_REFUSED)) return { met: "key" };
  const outcome = outcomes.find((one) => /^(edge |indeterminate$|5\d\d)/.test(one));
  return outcome === undefined ? { met: "nothing" } : { met: "edge", outcome };
};

type Climb = {
  readonly sender: Sender;
  readonly callers: readonly Caller[];
  readonly calm: Calm;
  readonly bucket: BucketFound | null;
  readonly maxPerS: number;
};

/** How long a key needs to regain so many tokens, in milliseconds, as far as is known. */
export const refillMs = (bucket: BucketFound | null, tokens: number): number => {
  if (bucket?.found === true) return Math.min(REST_MOST_MS, (1000 * tokens) / bucket.ratePerS.low);
  return bucket === null || bucket.code === "never-refused" ? 0 : REST_UNKNOWN_MS;
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
  const isRefused = lines.some(({ outcome }) => outcome === KEY_REFUSED);
  const restMs = Math.max(isRefused ? REST_UNKNOWN_MS : 0, refillMs(bucket, used));
  await sender.pause(Math.max(restMs, LATE_RELEASE_MS + 50, (2 * calm.marginUs) / 1000));
  return lines;
};

const inFlightIn = (lines: readonly CallLine[]): number =>
  mostAtOnce(lines.filter(isAdmitted).map(({ sent_us: sent, done_us: done }) => [sent, done] as const));

/** Doubles the streams sent at once until one is not admitted, then climbs repeatedly to the cap. */
export const climb = async (
  how: Climb,
  { from, replicas }: { from: number; replicas: number | undefined },
  onProgress: (text: string) => void,
): Promise<{ climbed: Climbed; lines: CallLine[] }> => {
  const { sender, calm, bucket, maxPerS, callers } = how;
  const lines: CallLine[] = [];
  const tokens = bucket?.found === true ? bucket.burst.least * callers.length : Number.POSITIVE_INFINITY;
  const reachable = Math.floor(Math.min(IN_FLIGHT_MOST, tokens, (maxPerS * calm.longMs) / 1000));
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
  /** The numbers of reads behind each stream that were tried. */
  const kinds = new Set<number>();
  const { marginUs } = calm;
  const bounds = (): WholeBounds => {
    const prompt = capBounds(lines, cap, { replicas, marginUs });
    // With one replica stated, a contradiction may mean that a place is given back late.
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
