/** Bursts within `permits.load_max_rps` that meet the rate limit, and waves that meet the caps: each made once for all rules. */
import { inFlightMax } from "../../client/transport.ts";
import { mostAtOnce } from "../../history/statistics/statistics.ts";
import type { Target } from "../../target/target.ts";
import type { Checks } from "../checks.ts";
import type { Caller, Context } from "../context.ts";
import { type Cost, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted } from "../sending/answer.ts";
import { asServer, inSession, type TestCall } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";

export const NEEDS_LOAD = { permission: "load", anyOf: ["server", "publishable"] } as const;
export const loads = rulesOf("load", { needs: NEEDS_LOAD });

const RATE_UNSTATED = 100;
const EDGE_FOR_S = 4;
const TICK_MS = 25;
export const IN_FLIGHT_MAX = 48;
/** So many rate-limited answers are enough to look at. */
export const ENOUGH = 12;
const WAVES = [8, 16, 32, 64, 128, 256];
const WAVE_MOST = 256;
/** All waves together, where the permit is wide. */
const WAVES_CALLS_MAX = 512;
/** Between two bursts. */
export const REST_MS = 1_500;
/** A wave meets a cap when so many of it are shed. */
const SHED_SHARE = 0.05;

const SHED = /^429 (b2b_overloaded|org_overloaded)$/;
export const isShed = ({ outcome }: Answer): boolean => SHED.test(outcome);
export const shedIn = (answers: readonly Answer[]): Answer[] => answers.filter(isShed);

/** The key service, or what a balancer stands before. */
const DOWN = /^(503|edge 50[234])$/;
export const isDown = ({ outcome }: Answer): boolean => DOWN.test(outcome);
/** What no limit is called: something is away. */
export const saysAway = (answer: Answer): boolean => answer.subcode === "limiter_unavailable" || isDown(answer);

const LIMITS =
  /^(2\d\d( error event)?|429 (rate_limited|b2b_overloaded|org_overloaded|limiter_unavailable)|indeterminate)$/;

/** A key service or a balancer's way may be down at any moment; whether that stands for a limit is another question. */
export const requireLimits = (checks: Checks, answers: readonly Answer[]): void => {
  for (const answer of answers) {
    const fits = LIMITS.test(answer.outcome) || isDown(answer);
    checks.require(fits, answer, "2xx or a limit's own subcode", inWords(answer));
  }
};

/** Calls a second that the target file permits. */
const rateOf = ({ permits }: Target): number => permits?.load_max_rps ?? RATE_UNSTATED;
export const rateAllowed = (context: Context): number => rateOf(context.target);

/** The waves that meet the caps. */
export const wavesCost = (target: Target): Cost => ({
  calls: Math.min(WAVES_CALLS_MAX, 4 * rateOf(target)),
  shared: "overload",
});
/** The burst that meets the rate limit of one key. */
export const rateEdgeCost = (target: Target): Cost => ({ calls: EDGE_FOR_S * rateOf(target) + 5, shared: "rate edge" });
/** Two waves, and a rate edge between them. */
export const wavesAroundAnEdgeCost = (target: Target): Cost => ({
  calls: 2 * Math.min(WAVES_CALLS_MAX, rateOf(target)) + EDGE_FOR_S * rateOf(target) + 24,
});

/** Caps on calls in flight that are stated and fixed, or what the target file lacks for it. `needsAll`: the global one as well. */
export const fixedCaps = ({ target }: Context, needsAll = true): { own: number; all: number } | string => {
  const { global_in_flight: all = Number.POSITIVE_INFINITY, org_in_flight: own, replicas = 1 } = target.limits ?? {};
  if (target.shedding !== "fixed" || own === undefined || (needsAll && !Number.isFinite(all)))
    return `fixed shedding with ${needsAll ? "limits.global_in_flight and " : ""}limits.org_in_flight in the target file`;
  return replicas > 1 ? "one replica: with more, nobody knows which of them was full" : { own, all };
};

/** Ever wider waves, one between stated caps, the last as wide as our connections carry. `beside`: calls made meanwhile. */
const wavesFor = (context: Context, beside: number): number[] => {
  const { global_in_flight: all, org_in_flight: own } = context.target.limits ?? {};
  const between = all !== undefined && own !== undefined && own < all ? [Math.floor((own + all) / 2)] : [];
  const carried = inFlightMax(context.target) - beside;
  const widest = carried < Math.min(rateAllowed(context), WAVE_MOST) ? [carried] : [];
  return [...new Set([...WAVES, ...between, ...widest])]
    .filter((size) => size > 0 && size <= Math.min(carried, rateAllowed(context)))
    .sort((a, b) => a - b);
};

/** Why no wave was wider, where that was for want of connections of our own; else empty. */
export const forWantOfConnections = (context: Context, wanted: number = WAVE_MOST): string => {
  const { protocol = "h1", connections } = context.target.transport ?? {};
  if (inFlightMax(context.target) > Math.min(wanted, rateAllowed(context))) return "";
  return `transport.connections is ${connections}${protocol === "h2" ? ", over HTTP/2" : ""}: more at once need more of them`;
};

const serverOrSession = (context: Context, scope: "ai" | "design"): Caller | null => {
  if (context.has("server")) return asServer("-");
  return context.has("publishable") ? inSession(scope === "ai" ? "chat" : "editor", "-") : null;
};

/** A caller of another organization; `null` where the target file names none. */
export const otherCaller = (context: Context, product: "chat" | "editor" = "editor"): Caller | null =>
  context.has("publishable_other_org") ? inSession(product, "-", {}, "publishable_other_org") : null;

/** Everybody who may open streams, one of each organization: organizations have caps of their own. */
export const crowd = (context: Context): Caller[] => {
  const ownRole = context.has("server") ? "server" : "publishable";
  const ours = new Set(([ownRole, "publishable_other_org"] as const).map((name) => context.keyRole(name)?.org));
  const tenants = (context.target.tenants ?? [])
    .filter(({ org, server }) => server !== undefined && !ours.has(org))
    .map(({ org }): Caller => ({ credential: { as: "server", of: `tenant:${org}` }, origin: "none" }));
  const callers = [serverOrSession(context, "ai"), otherCaller(context, "chat"), ...tenants];
  return callers.filter((caller) => caller !== null);
};

const AT_ONCE = { atOnce: true, once: true } as const;

export type Edge = { answers: Answer[]; limited: Answer[]; others: Answer[] };

/** So many such answers are not by chance: another organization is asked as well. */
const OTHERS_ASKED = 3;

/** Cheap calls of one key, as fast as is permitted, until so many were rate limited. */
export const pressRate = async (context: Context, enough: number): Promise<Edge> => {
  const edge: Edge = { answers: [], limited: [], others: [] };
  const ratePerS = rateAllowed(context);
  const atOnce = Math.min(IN_FLIGHT_MAX, Math.max(1, inFlightMax(context.target) - 1));
  const caller = serverOrSession(context, "design");
  if (caller === null) return edge;
  const other = otherCaller(context);
  if (other !== null) await context.send({ ...other, route: "design.themes" });
  const running = new Set<Promise<void>>();
  const beganMs = performance.now();
  let sent = 0;
  let asked = 0;
  const start = (call: TestCall, into: Answer[]): void => {
    const one = context.send({ ...call, ...AT_ONCE }).then((answer) => {
      into.push(answer);
      if (answer.subcode === "rate_limited" && into === edge.answers) edge.limited.push(answer);
      running.delete(one);
    });
    running.add(one);
  };
  const askOther = (): void => {
    if (other !== null) start({ ...other, route: "design.themes" }, edge.others);
    asked += 1;
  };
  while (performance.now() - beganMs < EDGE_FOR_S * 1000 && edge.limited.length < enough) {
    const due = ((performance.now() - beganMs) / 1000) * ratePerS;
    for (; sent < due && running.size < atOnce; sent++) start({ ...caller, route: "design.styles" }, edge.answers);
    const isLimited = edge.limited.length > 0;
    if (isLimited && asked === 0) askOther();
    const looksAway = !isLimited && edge.answers.filter(saysAway).length >= ENOUGH * (asked + 1);
    if (looksAway && asked < OTHERS_ASKED) askOther();
    await wait(TICK_MS, context.signal);
  }
  // The limit may have been met all at once. One call: more could meet the other's own limit.
  if (edge.limited.length > 0 && asked === 0) askOther();
  await Promise.all(running);
  return edge;
};

export const rateEdge = (context: Context): Promise<Edge> =>
  context.once("rate edge", () => pressRate(context, ENOUGH));

/** Streams opened at the same moment. `leaving`: their clients leave early, half of them at the head, half at an event. */
export const wave = (context: Context, size: number, callers: readonly Caller[], leaving = false): Promise<Answer[]> =>
  Promise.all(
    Array.from({ length: size }, (_, i) => {
      const until = !leaving ? { wholeStream: true as const } : i % 2 === 0 ? { leaveAfterMs: 0 } : {};
      return context.send({ ...(callers[i % callers.length] as Caller), route: "chat.control", ...AT_ONCE, ...until });
    }),
  );

/** `size`: of the widest wave; `capacity`: streams that were served side by side in the wave that met the cap. */
type Overload = { reached: boolean; capacity: number; size: number } & {
  answers: Answer[];
  bySize: Map<number, Answer[]>;
  others: Answer[];
  caller: Caller | null;
};

/**
 * Streams side by side, each from its first byte to its last: of a wave that came late, the last streams may have the slots of the
 * first. An edge may pass the end on late (a moderation does), so of a stream with content in between the last event does not count.
 */
export const sideBySide = (answers: readonly Pick<Answer, "outcome" | "line">[]): number =>
  mostAtOnce(
    answers.filter(isAdmitted).flatMap(({ line: { first_us, done_us, gaps_us: gaps = [] } }) => {
      const endUs = gaps.length < 2 ? 0 : (gaps.at(-1) as number);
      return first_us === null ? [] : [[first_us, Math.max(first_us, done_us - endUs)] as const];
    }),
  );

/** Ever more streams of one organization at once, until calls are shed. */
export const overload = (context: Context): Promise<Overload> =>
  context.once("overload", async () => {
    const caller = serverOrSession(context, "ai");
    const none = { answers: [], bySize: new Map(), others: [] };
    const found: Overload = { reached: false, capacity: 0, size: 0, caller, ...none };
    if (caller === null) return found;
    const other = otherCaller(context);
    if (other !== null) await context.send({ ...other, route: "design.themes" });
    for (const size of wavesFor(context, other === null ? 0 : 1)) {
      const streams = wave(context, size, [caller]);
      if (other !== null) {
        await wait(TICK_MS * 2, context.signal);
        found.others.push(await context.send({ ...other, route: "design.themes", ...AT_ONCE }));
      }
      const answers = await streams;
      found.answers.push(...answers);
      found.bySize.set(size, answers);
      found.size = size;
      if (shedIn(answers).length > size * SHED_SHARE) {
        found.reached = true;
        found.capacity = sideBySide(answers);
        break;
      }
      await wait(REST_MS, context.signal);
    }
    return found;
  });

export const capNotMet = (context: Context, { size }: Overload): string =>
  [`no cap was met with ${size} streams at once`, forWantOfConnections(context)].filter(Boolean).join("; ");

/** Two keys of one organization. */
export const twoKeys: readonly Caller[] = [asServer("-"), inSession("chat", "-")];
