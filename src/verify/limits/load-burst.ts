/**
 * Load for a few seconds, inside what `permits.load_max_rps` allows: to meet the request rate limit, and to meet the caps on
 * calls in flight. Each is done once and looked at by several rules.
 */
import { inFlightMax } from "../../client/transport.ts";
import { mostAtOnce } from "../../history/statistics/statistics.ts";
import type { Target } from "../../target/target.ts";
import type { CredentialRef } from "../../workload/step.ts";
import type { Context } from "../context.ts";
import { type Answer, isAdmitted } from "../sending/answer.ts";
import { role, type TestCall } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";

const RATE_UNSTATED = 100;
const EDGE_FOR_MS = 4_000;
const TICK_MS = 25;
export const IN_FLIGHT_MAX = 48;
/** So many rate-limited answers are enough to look at. */
export const ENOUGH = 12;
const WAVES = [8, 16, 32, 64, 128, 256] as const;
/**
 * Where the caps are stated, a wave between them as well: there only one of the two can be the reason. The last of them is as
 * wide as may be and as our own connections carry. `beside`: calls that are made meanwhile.
 */
const wavesFor = (context: Context, beside: number): number[] => {
  const { global_in_flight: globalCap, org_in_flight: orgCap } = context.target.limits ?? {};
  const isStated = globalCap !== undefined && orgCap !== undefined && orgCap < globalCap;
  const between = isStated ? [Math.floor((orgCap + globalCap) / 2)] : [];
  const carried = inFlightMax(context.target) - beside;
  const widest = carried < Math.min(rateAllowed(context), WAVES.at(-1) as number) ? [carried] : [];
  return [...new Set([...WAVES, ...between, ...widest])]
    .filter((size) => size > 0 && size <= Math.min(carried, rateAllowed(context)))
    .sort((a, b) => a - b);
};

/** Why no wave was wider, where that was for want of connections of our own. */
export const forWantOfConnections = (context: Context, wanted: number = WAVES.at(-1) as number): string => {
  const { protocol = "h1", connections } = context.target.transport ?? {};
  if (inFlightMax(context.target) > Math.min(wanted, rateAllowed(context))) return "";
  return `transport.connections is ${connections}${protocol === "h2" ? ", over HTTP/2" : ""}: more at once need more of them`;
};

/** A wave meets the caps when so many of it are shed. */
const SHED_SHARE = 0.05;

export const SHED = /^429 (b2b_overloaded|org_overloaded)$/;

/** Calls a second that the target file permits. */
export const rateOf = ({ permits }: Target): number => permits?.load_max_rps ?? RATE_UNSTATED;
export const rateAllowed = (context: Context): number => rateOf(context.target);

export type Caller = Pick<TestCall, "credential" | "origin">;

const serverOrSession = (context: Context, scope: "ai" | "design"): Caller | null => {
  if (context.has("server")) return { credential: { as: "server", of: role("server") }, origin: "none" };
  if (!context.has("publishable")) return null;
  const product = scope === "ai" ? "chat" : "editor";
  return { credential: { as: "session", of: role("publishable"), product }, origin: "listed" };
};

/** A caller of another organization; `null` where the target file names none. */
export const otherCaller = (context: Context, product: "chat" | "editor" = "editor"): Caller | null =>
  context.has("publishable_other_org")
    ? { credential: { as: "session", of: role("publishable_other_org"), product }, origin: "listed" }
    : null;

export type Edge = { answers: Answer[]; limited: Answer[]; others: Answer[] };

/** The key service, or what a balancer stands before. */
export const DOWN = /^(503|edge 50[234])$/;
/** What a limit is not called: something is away. */
export const saysAway = ({ subcode, outcome }: Answer): boolean =>
  subcode === "limiter_unavailable" || DOWN.test(outcome);

/** So many such answers are not by chance: another organization is asked as well. */
const OTHERS_ASKED = 3;

/** Cheap calls of one key, as fast as is permitted, until the rate limit has spoken so often. */
export const pressRate = async (context: Context, enough: number): Promise<Edge> => {
  const edge: Edge = { answers: [], limited: [], others: [] };
  const ratePerS = rateAllowed(context);
  const atOnce = Math.min(IN_FLIGHT_MAX, Math.max(1, inFlightMax(context.target) - 1));
  const caller = serverOrSession(context, "design");
  if (caller === null) return edge;
  const other = otherCaller(context);
  if (other !== null) await context.send({ route: "design.themes", ...other });
  const testCall: TestCall = { route: "design.styles", ...caller, atOnce: true, once: true };
  const running = new Set<Promise<void>>();
  const beganMs = performance.now();
  let sent = 0;
  let asked = 0;
  const start = (what: TestCall, into: Answer[]): void => {
    const one = context.send(what).then((answer) => {
      into.push(answer);
      if (answer.subcode === "rate_limited" && into === edge.answers) edge.limited.push(answer);
      running.delete(one);
    });
    running.add(one);
  };
  const ask = (who: Caller): void => {
    asked += 1;
    start({ route: "design.themes", ...who, atOnce: true, once: true }, edge.others);
  };
  while (performance.now() - beganMs < EDGE_FOR_MS && edge.limited.length < enough) {
    const due = ((performance.now() - beganMs) / 1000) * ratePerS;
    for (; sent < due && running.size < atOnce; sent++) start(testCall, edge.answers);
    const { answers, limited } = edge;
    if (other !== null && limited.length > 0 && asked === 0) ask(other);
    const looksAway = limited.length === 0 && answers.filter(saysAway).length >= ENOUGH * (asked + 1);
    if (other !== null && looksAway && asked < OTHERS_ASKED) ask(other);
    await wait(TICK_MS, context.signal);
  }
  // The limit may have been met all at once. One call: more could meet the other's own limit.
  if (other !== null && edge.limited.length > 0 && asked === 0) ask(other);
  await Promise.all(running);
  return edge;
};

export const rateEdge = (context: Context): Promise<Edge> =>
  context.once("rate edge", () => pressRate(context, ENOUGH));

/** Everybody who may open streams, one of each organization: organizations have caps of their own. */
export const crowd = (context: Context): Caller[] => {
  const own = serverOrSession(context, "ai");
  const other = otherCaller(context, "chat");
  const ownRole = context.has("server") ? "server" : "publishable";
  const ours = new Set(([ownRole, "publishable_other_org"] as const).map((name) => context.keyRole(name)?.org));
  const tenants = (context.target.tenants ?? []).flatMap(({ org, server }) =>
    server === undefined || ours.has(org)
      ? []
      : [{ credential: { as: "server", of: `tenant:${org}` } as CredentialRef, origin: "none" } as const],
  );
  return [own, other, ...tenants].filter((caller) => caller !== null);
};

/** Streams opened at the same moment. `leaving`: their clients leave early, half of them at the head, half at an event. */
export const wave = (context: Context, size: number, callers: readonly Caller[], leaving = false): Promise<Answer[]> =>
  Promise.all(
    Array.from({ length: size }, (_, i) =>
      context.send({
        route: "chat.control",
        ...(callers[i % callers.length] as (typeof callers)[number]),
        atOnce: true,
        once: true,
        ...(leaving ? (i % 2 === 0 ? { leaveAfterMs: 0 } : {}) : { wholeStream: true as const }),
      }),
    ),
  );

export type Overload = {
  /** Whether calls were shed at all. */
  reached: boolean;
  /** How many streams were served side by side in the wave that met the cap. */
  capacity: number;
  /** The largest wave that was tried. */
  size: number;
  answers: Answer[];
  /** What came in each wave, by its size. */
  bySize: Map<number, Answer[]>;
  others: Answer[];
  caller: Caller | null;
};

/**
 * From the first byte to the last: of a wave that came late, the last streams may have the slots of the first. An edge may pass
 * the end on late (a moderation does), so of a stream with content in between the last event does not count.
 */
export const sideBySide = (answers: readonly Pick<Answer, "outcome" | "line">[]): number =>
  mostAtOnce(
    answers.filter(isAdmitted).flatMap(({ line: { first_us, done_us, gaps_us: gaps = [] } }) => {
      const endUs = gaps.length < 2 ? 0 : (gaps.at(-1) as number);
      return first_us === null ? [] : [[first_us, Math.max(first_us, done_us - endUs)] as const];
    }),
  );

const REST_MS = 1_500;

/** Ever more streams of one organization at once, until calls are shed. */
export const overload = (context: Context): Promise<Overload> =>
  context.once("overload", async () => {
    const own = serverOrSession(context, "ai");
    const found: Overload = {
      reached: false,
      capacity: 0,
      size: 0,
      answers: [],
      bySize: new Map(),
      others: [],
      caller: own,
    };
    if (own === null) return found;
    const other = otherCaller(context);
    if (other !== null) await context.send({ route: "design.themes", ...other });
    for (const size of wavesFor(context, other === null ? 0 : 1)) {
      const streams = wave(context, size, [own]);
      if (other !== null) {
        await wait(TICK_MS * 2, context.signal);
        found.others.push(await context.send({ route: "design.themes", ...other, atOnce: true, once: true }));
      }
      const answers = await streams;
      found.answers.push(...answers);
      found.bySize.set(size, answers);
      found.size = size;
      const shed = answers.filter(({ outcome }) => SHED.test(outcome)).length;
      if (shed > size * SHED_SHARE) {
        found.reached = true;
        found.capacity = sideBySide(answers);
        break;
      }
      await wait(REST_MS, context.signal);
    }
    return found;
  });
