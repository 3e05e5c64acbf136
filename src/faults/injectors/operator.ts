/**
 * Changes by an operator to a working service. As a fault: slower calls, fewer slots, replaced replicas, a new month.
 * As a disturbance: one change after the other, restored at the end, after a failed change, and after kill -9.
 */
import { controlGet, controlSend } from "../../client/control-planes.ts";
import type { OwnParts } from "../../deployments/deployment.ts";
import type { Problem } from "../../drivers/driver.ts";
import { type ChangeUndo, stateOfPlane, type Undo } from "../../supervision/journal.ts";
import { pause } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import { type DisturbanceContext, type Disturbed, inconclusive, type OperatorChanges } from "../disturbance.ts";
import type { Fault, OwnInjector } from "../fault.ts";
import { putBack } from "../healing.ts";
import { undoTarget } from "./proxies-and-commands.ts";

/** The field that orders failures: it ends by itself, while all other fields have to be restored. */
const ENDS_BY_ITSELF = "fail_next";

const patch = (url: string, fields: Record<string, unknown>) => controlSend("PATCH", `${url}/deployment`, fields);

/** Reads the fields of every API replica. Throws if one is not shown, because it could not be restored. */
const stateOf = async ({ control }: Pick<Target, "control">, fields: readonly string[]) => {
  const planes = await Promise.all(
    (control?.api ?? []).map(async (url, at) => {
      const now = stateOfPlane(await controlGet(`${url}/deployment`));
      const was = Object.fromEntries(Object.entries(now).filter(([field]) => fields.includes(field)));
      return { plane: "api" as const, at, was, url };
    }),
  ).catch((error: Error) => {
    throw new Error(`nothing was changed, because what is set now cannot be read: ${error.message}`);
  });
  const unknown = fields.filter((field) => field !== ENDS_BY_ITSELF && planes.some(({ was }) => !(field in was)));
  if (unknown.length === 0) return planes;
  throw new Error(
    `GET /deployment does not show ${unknown.join(", ")}, so a change could not be undone; nothing was changed`,
  );
};

/** Plays an operator's changes. The previous values are read and journalled first. */
export const changeDeployment = async (
  { changes }: OperatorChanges,
  { signal, deployment, context, stage, onLine }: DisturbanceContext,
): Promise<Disturbed> => {
  const mark = (name: string, detail: string) => onLine({ type: "mark", stage, name, at_us: context.nowUs(), detail });
  const fields = [...new Set(changes.flatMap((change) => Object.keys(change.patch)))];
  const planes = await stateOf(deployment.target, fields);
  const target = undoTarget(deployment);
  const undo: Undo = target === null ? { how: "nothing" } : { how: "deployment", planes, target };
  const about = { kind: "fault", name: `service.${fields.join("+")}`, undo } as const;
  const held = context.supervisor.begin(about, `put back ${fields.join(", ")}`, () => putBack(planes));
  const problems: Problem[] = [];
  let isLeftBroken = false;
  try {
    for (const { patch: change, holdMs } of changes) {
      if (signal.aborted) break;
      // Marked before the change, so that every affected call comes later.
      mark("operator-changed", Object.keys(change).join(", "));
      for (const { url } of planes) await patch(url, change);
      held.done();
      await pause(holdMs, signal);
    }
  } catch (error) {
    problems.push(
      inconclusive("fault-without-effect", `the deployment could not be changed: ${(error as Error).message}`),
    );
  }
  try {
    await held.takeBack();
  } catch (error) {
    problems.push(
      inconclusive("not-healed", `the change of the deployment could not be undone: ${(error as Error).message}`),
    );
    isLeftBroken = true;
  }
  mark("operator-restored", "");
  return { problems, notes: [], isLeftBroken };
};

const SLOWED_TIMES = 5;

/** Changes a field of every replica; the heal restores it. Calls in flight finish. */
const patched = (target: Target, field: "service_factor" | "slots", changed: (was: number) => number): OwnInjector => {
  let before: ChangeUndo["planes"] = [];
  return {
    inject: async () => {
      before = await stateOf(target, [field]);
      for (const { url, was } of before) await patch(url, { [field]: changed(Number(was[field])) });
    },
    shows: async () => {
      const now = await stateOf(target, [field]);
      return now.length > 0 && now.every(({ was }, at) => was[field] !== before[at]?.was[field]);
    },
    heal: async () => void (await putBack(before)),
  };
};

const REPLICA_MS = 30_000;

const replaced = ({ apis, front }: OwnParts): OwnInjector => {
  const before = apis.map((part) => part.pid());
  return {
    ...{ injectMs: REPLICA_MS * apis.length, healMs: REPLICA_MS * apis.length },
    inject: async (signal) => {
      for (const [at, part] of apis.entries()) {
        // The replica is removed from the balancer first, as in a deploy.
        await front?.send(front.upstreams.filter((_, other) => other !== at));
        await part.endInOrder();
        await part.bringBack(signal);
        await front?.send(front.upstreams);
      }
    },
    shows: async () => apis.every((part, at) => part.pid() !== before[at] && part.isRunning()),
    heal: async (signal) => {
      for (const part of apis) await part.bringBack(signal);
      await front?.send(front.upstreams);
    },
  };
};

const DAY_MS = 86_400_000;

/** The clock offset with which a month ends in `aheadMs`: not this month if its real end may come during the stage. */
export const offsetBeforeMonthMs = (nowMs: number, aheadMs: number): number => {
  const now = new Date(nowMs);
  const edge = (ahead: number): number => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead, 1);
  const at = edge(1) - nowMs > DAY_MS ? edge(1) : edge(2);
  return at - nowMs - aheadMs;
};

/** Sets the clock offset of all parts; 0 restores the clock. Rejects if a part does not confirm. */
export const moveClock = async ({ control }: Pick<Target, "control">, offsetMs: number): Promise<void> => {
  // The limiter first, because it charges; until the API follows, it only sends requests.
  for (const part of new Set([control?.limiter, control?.keys, ...(control?.api ?? [])]))
    if (part != null) await controlSend("PATCH", `${part}/deployment`, { clock_offset_ms: offsetMs });
};

/** Time from the clock change to the month's end, to inject the other fault and for calls to meet it. */
const EDGE_AHEAD_MS = 2_500;
/** Margin after the month's end before it counts as passed: all parts read this host's clock, in whole milliseconds. */
const EDGE_DOUBT_US = 10_000;

type Beside = Pick<DisturbanceContext, "context" | "stage" | "onLine">;

/** Moves the clocks before the limiter's link is broken; the month's end then comes by itself. */
const newMonth = (target: Target, { context, stage, onLine }: Beside): OwnInjector => {
  let edgeUs = Number.POSITIVE_INFINITY;
  let offsetMs = 0;
  let isMarked = false;
  const hasPassed = (): boolean => {
    const at_us = edgeUs + EDGE_DOUBT_US;
    const isPast = context.nowUs() > at_us;
    const detail = `clock_offset_ms ${offsetMs}`;
    const mark = { type: "mark", stage, name: "new-month", at_us, detail, clock_offset_ms: offsetMs } as const;
    if (isPast && !isMarked) onLine(mark);
    isMarked ||= isPast;
    return isPast;
  };
  return {
    inject: async () => {
      const nowMs = Date.now();
      offsetMs = offsetBeforeMonthMs(nowMs, EDGE_AHEAD_MS);
      await moveClock(target, offsetMs);
      edgeUs = (nowMs + EDGE_AHEAD_MS) * 1_000 - context.epochUs;
    },
    shows: async () => hasPassed(),
    // A month's end cannot be undone. The clock is restored after the stage.
    heal: async () => void hasPassed(),
  };
};

export const operatorInjector = (
  fault: Extract<Fault, { by: "operator" }>["fault"],
  { target, own, beside }: { target: Target; own: OwnParts; beside: Beside },
): OwnInjector => {
  switch (fault) {
    case "slowed":
      // Callers have to see the effect, because an accepted request for it proves nothing.
      return { ...patched(target, "service_factor", () => SLOWED_TIMES), shows: null };
    case "halved":
      return patched(target, "slots", (slots) => Math.max(1, Math.floor(slots / 2)));
    case "rolling-deploy":
      return replaced(own);
    case "new-month":
      return newMonth(target, beside);
  }
};
