/** What an operator does to a service that works: makes it slower, or replaces its replicas one after the other. */

import { controlSend } from "../../client/control-planes.ts";
import type { Deployment } from "../../deployments/deployment.ts";
import { moveClock, offsetBeforeMonthMs } from "../../deployments/deployment-clock.ts";
import type { OwnParts } from "../../deployments/own-parts.ts";
import type { Breaker } from "./breaker.ts";
import type { DisturbanceContext, ServiceChange } from "./disturbance.ts";

type Ours = Pick<Deployment, "target"> & {
  own: OwnParts;
  beside: Pick<DisturbanceContext, "context" | "stage" | "onLine">;
};

const SLOWED_TIMES = 5;

const slowed = ({ target }: Ours): Breaker => {
  const change = async (factor: number): Promise<void> => {
    for (const api of target.control?.api ?? []) {
      await controlSend("PATCH", `${api}/deployment`, { service_factor: factor });
    }
  };
  return {
    injectMs: 5_000,
    effectMs: 10_000,
    healMs: 10_000,
    stream: "both",
    undo: { how: "nothing" },
    notes: [],
    inject: () => change(SLOWED_TIMES),
    // That it was asked for proves nothing; callers have to see that calls take longer.
    showsAtPart: null,
    heal: async () => {
      await change(1);
      return [];
    },
  };
};

const REPLICA_MS = 30_000;

const replaced = ({ own }: Ours): Breaker => {
  const { apis, front } = own;
  const before = apis.map((part) => part.pid());
  const replace = async (at: number, signal: AbortSignal): Promise<void> => {
    const part = apis[at];
    if (part === undefined) return;
    // Out of the balancer first, as a deploy does, so that only what it has begun is left to it.
    await front?.send(front.upstreams.filter((_, other) => other !== at));
    await part.endInOrder();
    await part.bringBack(signal);
    await front?.send(front.upstreams);
  };
  const isNew = (at: number): boolean => apis[at]?.pid() !== before[at] && apis[at]?.isRunning() === true;
  return {
    injectMs: REPLICA_MS * apis.length,
    effectMs: 5_000,
    healMs: REPLICA_MS * apis.length,
    stream: "both",
    undo: { how: "nothing" },
    notes: [],
    inject: async (signal) => {
      for (const at of apis.keys()) await replace(at, signal);
    },
    showsAtPart: async () => [...apis.keys()].every(isNew),
    heal: async (signal) => {
      for (const part of apis) await part.bringBack(signal);
      await front?.send(front.upstreams);
      return [];
    },
  };
};

/** For the fault beside it to be put in, and for calls to meet it. */
const EDGE_AHEAD_MS = 2_500;
/** All parts are on this host, and read its clock in milliseconds. */
const EDGE_DOUBT_US = 10_000;

/** The clock is moved before the link to a limiter is broken that keeps it; the edge then comes by itself. */
const newMonth = ({ target, beside: { context, stage, onLine } }: Ours): Breaker => {
  let edgeUs = Number.POSITIVE_INFINITY;
  let offsetMs = 0;
  let isMarked = false;
  const hasPassed = (): boolean => {
    const isPast = context.nowUs() > edgeUs + EDGE_DOUBT_US;
    const [at_us, detail] = [edgeUs + EDGE_DOUBT_US, `clock_offset_ms ${offsetMs}`];
    if (isPast && !isMarked) onLine({ type: "mark", stage, name: "new-month", at_us, detail });
    isMarked ||= isPast;
    return isPast;
  };
  return {
    injectMs: 10_000,
    effectMs: 2 * EDGE_AHEAD_MS,
    healMs: 1_000,
    stream: "both",
    undo: { how: "nothing" },
    notes: [],
    inject: async () => {
      const nowMs = Date.now();
      offsetMs = offsetBeforeMonthMs(nowMs, EDGE_AHEAD_MS);
      await moveClock(target, offsetMs);
      edgeUs = (nowMs + EDGE_AHEAD_MS) * 1_000 - context.epochUs;
    },
    showsAtPart: async () => hasPassed(),
    // A month does not come back. The clock is put right when the stage is over.
    heal: async () => {
      hasPassed();
      return [];
    },
  };
};

const WAYS = { slowed, "rolling-deploy": replaced, "new-month": newMonth } as const;

export const serviceBreaker = ({ fault }: ServiceChange, ours: Ours): Breaker => WAYS[fault](ours);
