/** Bursts that reach the rate limit and waves that reach the caps, within `permits.load_max_rps`; rules share them. */
import { inFlightMax } from "../../client/transport.ts";
import { mostAtOnce } from "../../history/statistics/statistics.ts";
import type { Target } from "../../target/target.ts";
import { type Checks, skipped } from "../checks.ts";
import { type Caller, type Context, callerOf } from "../context.ts";
import { type Cost, rulesOf } from "../rule.ts";
import { type Answer, inWords, isAdmitted, isTransient, NO_SUBCODE } from "../sending/answer.ts";
import { inSession, type TestCall } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";

export const NEEDS_LOAD = { permission: "load", anyOf: ["server", "publishable"] } as const;
const RATE_UNSTATED = 100;
const EDGE_FOR_S = 4;
const TICK_MS = 25;
export const IN_FLIGHT_MAX = 48;
export const ENOUGH = 12;
const WAVES = [8, 16, 32, 64, 128, 256];
const WAVE_MOST = 256;
const WAVES_CALLS_MAX = 512;
export const REST_MS = 1_500;
export const WAIT_MAX_MS = 15_000;
export const RECOVER_WITHIN_MS = 12_000;
/** A wave has reached a cap when this share of it is shed. */
const SHED_SHARE = 0.05;

export const isShed = ({ outcome }: Answer): boolean => /^429 (b2b|org)_overloaded$/.test(outcome);
export const shedIn = (answers: readonly Answer[]): Answer[] => answers.filter(isShed);

/** Outcomes that say that the key service or a balancer's upstream is down. */
export const isDown = ({ outcome }: Answer): boolean => /^(503|edge 50[234])$/.test(outcome);
/** Whether the answer reports an outage, which is the wrong name for a limit. */
export const saysAway = (answer: Answer): boolean => answer.subcode === "limiter_unavailable" || isDown(answer);

/** Whether a limit was reported that may be a gateway's. */
export const isLimitElsewhere = ({ outcome }: Answer): boolean => outcome === "edge 429";

/** Requires 2xx or a limit's subcode. Outages pass here; other rules judge whether one stands for a limit. */
export const requireLimits = (checks: Checks, answers: readonly Answer[]): void => {
  for (const answer of answers) {
    const { outcome } = answer;
    // A 429 of a gateway is no limit of the API. One without a subcode does not say which limit it is.
    const isLimit = isTransient(outcome) && !isLimitElsewhere(answer) && outcome !== `429 ${NO_SUBCODE}`;
    const fits = isLimit || /^2\d\d( error event)?$/.test(outcome);
    checks.require(fits, answer, "2xx or a limit's own subcode", inWords(answer));
  }
};

const rateOf = ({ permits }: Target): number => permits?.load_max_rps ?? RATE_UNSTATED;
export const rateAllowed = (context: Context): number => rateOf(context.target);

export const rules = rulesOf("load", { needs: NEEDS_LOAD });
/** Rules about the waves that reach the caps. */
export const ofWaves = rulesOf("load", {
  needs: NEEDS_LOAD,
  cost: (target) => ({ calls: Math.min(WAVES_CALLS_MAX, 4 * rateOf(target)), shared: "overload" }),
});
const edgeCost = (target: Target): Cost => ({ calls: EDGE_FOR_S * rateOf(target) + 5, shared: "rate edge" });
/** Rules about the burst that reaches the rate limit. */
export const ofEdge = rulesOf("load", { needs: NEEDS_LOAD, cost: edgeCost });
export const wavesAroundAnEdgeCost = (target: Target): Cost => ({
  calls: 2 * Math.min(WAVES_CALLS_MAX, rateOf(target)) + EDGE_FOR_S * rateOf(target) + 24,
});

/** Stated fixed caps on calls in flight, or what the target file lacks. `needsAll`: the global cap must be stated. */
export const fixedCaps = ({ target }: Context, needsAll = true): { own: number; all: number } | string => {
  const { global_in_flight: all = Number.POSITIVE_INFINITY, org_in_flight: own, replicas = 1 } = target.limits ?? {};
  if (target.shedding !== "fixed" || own === undefined || (needsAll && !Number.isFinite(all)))
    return `fixed shedding with ${needsAll ? "limits.global_in_flight and " : ""}limits.org_in_flight in the target file`;
  return replicas > 1 ? "one replica: with more, nobody knows which of them was full" : { own, all };
};

/** Sizes of ever wider waves, one between the stated caps, up to our connections. `beside`: other calls at once. */
const wavesFor = (context: Context, beside: number): number[] => {
  const { global_in_flight: all, org_in_flight: own } = context.target.limits ?? {};
  const between = all !== undefined && own !== undefined && own < all ? [Math.floor((own + all) / 2)] : [];
  const carried = inFlightMax(context.target) - beside;
  const widest = carried < Math.min(rateAllowed(context), WAVE_MOST) ? [carried] : [];
  return [...new Set([...WAVES, ...between, ...widest])]
    .filter((size) => size > 0 && size <= Math.min(carried, rateAllowed(context)))
    .sort((a, b) => a - b);
};

/** Why our own connections bound the waves; empty if they do not. */
export const forWantOfConnections = (context: Context, wanted: number = WAVE_MOST): string => {
  const { protocol = "h1", connections } = context.target.transport ?? {};
  if (inFlightMax(context.target) > Math.min(wanted, rateAllowed(context))) return "";
  return `transport.connections is ${connections}${protocol === "h2" ? ", over HTTP/2" : ""}: more at once need more of them`;
};

/** Why a wave may not have `size` calls; `null` if it may. */
export const tooWide = (context: Context, size: number): string | null => {
  if (size > rateAllowed(context)) return `${size} calls at once, and permits.load_max_rps allows fewer`;
  const want = forWantOfConnections(context, size);
  return want === "" ? null : `${size} calls at once; ${want}`;
};

const serverOrSession = (context: Context, scope: "ai" | "design"): Caller => callerOf(context, scope, -1);

export const otherCaller = (context: Context, product: "chat" | "editor" = "editor"): Caller | null =>
  context.has("publishable_other_org") ? inSession(product, "-", {}, "publishable_other_org") : null;

/** One caller for each organization that may open streams, because organizations have their own caps. */
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

export const isLimited = ({ subcode }: Answer): boolean => subcode === "rate_limited";

export type Edge = { answers: readonly Answer[]; limited: readonly Answer[]; others: readonly Answer[] };

/** The most calls to another organization, which tell whether an outage affects only one key. */
const OTHERS_ASKED = 3;

export const pressRate = async (context: Context, enough: number): Promise<Edge> => {
  const [answers, others] = [[] as Answer[], [] as Answer[]];
  const atOnce = Math.min(IN_FLIGHT_MAX, Math.max(1, inFlightMax(context.target) - 1));
  const caller = serverOrSession(context, "design");
  const other = otherCaller(context);
  if (other !== null) await context.send({ ...other, route: "design.themes" });
  const calls: Promise<void>[] = [];
  let [running, sent, asked, isOver] = [0, 0, 0, false];
  const start = (call: TestCall, into: Answer[]): void => {
    running += 1;
    const one = context.send({ ...call, ...AT_ONCE }).then((answer) => {
      into.push(answer);
      running -= 1;
    });
    // A call that may not be sent ends the burst.
    one.catch(() => {
      isOver = true;
    });
    calls.push(one);
  };
  const askOther = (): void => {
    if (other !== null) start({ ...other, route: "design.themes" }, others);
    asked += 1;
  };
  const limitedNow = (): Answer[] => answers.filter(isLimited);
  const beganMs = performance.now();
  const sinceS = (): number => (performance.now() - beganMs) / 1000;
  while (sinceS() < EDGE_FOR_S && limitedNow().length < enough && !isOver) {
    for (const due = sinceS() * rateAllowed(context); sent < due && running < atOnce; sent++)
      start({ ...caller, route: "design.styles" }, answers);
    const isMet = limitedNow().length > 0;
    const looksAway = !isMet && answers.filter(saysAway).length >= ENOUGH * (asked + 1);
    if ((isMet && asked === 0) || (looksAway && asked < OTHERS_ASKED)) askOther();
    await wait(TICK_MS, context.signal);
  }
  // One call only: more could reach the other organization's own limit.
  if (limitedNow().length > 0 && asked === 0) askOther();
  await Promise.all(calls);
  return { answers, limited: limitedNow(), others };
};

export const rateEdge = (context: Context): Promise<Edge> =>
  context.once("rate edge", () => pressRate(context, ENOUGH));

/**
 * Opens streams at once. Callers take turns: if all calls of one left first, they could meet its own cap instead of the
 * global one. `leaving`: clients leave early, half at the head, half at the first event.
 */
export const wave = async (context: Context, size: number, callers: readonly Caller[], leaving = false) => {
  const calls: Promise<Answer>[] = [];
  for (let i = 0; i < size; i++) {
    const until = !leaving ? { wholeStream: true as const } : i % 2 === 0 ? { leaveAfterMs: 0 } : {};
    const left = Promise.withResolvers<void>();
    const call = { ...(callers[i % callers.length] as Caller), route: "chat.control" as const, ...AT_ONCE, ...until };
    const one = context.send({ ...call, beforeSent: left.resolve });
    one.catch(() => left.resolve());
    calls.push(one);
    await left.promise;
  }
  return Promise.all(calls);
};

export const restedWave = async (context: Context, size: number, callers: readonly Caller[]): Promise<Answer[]> => {
  await wait(REST_MS, context.signal);
  return wave(context, size, callers);
};

/** The most streams served at once. A stream's last gap does not count, because a proxy may deliver its end late. */
export const sideBySide = (answers: readonly Pick<Answer, "outcome" | "line">[]): number =>
  mostAtOnce(
    answers.filter(isAdmitted).flatMap(({ line: { first_us, done_us, gaps_us: gaps = [] } }) => {
      const endUs = gaps.length < 2 ? 0 : (gaps.at(-1) as number);
      return first_us === null ? [] : [[first_us, Math.max(first_us, done_us - endUs)] as const];
    }),
  );

/** Opens ever wider waves until calls are shed. `capacity`: streams served at once in the wave that met the cap. */
export const overload = (context: Context) =>
  context.once("overload", async () => {
    const caller = serverOrSession(context, "ai");
    const [bySize, answers, others] = [new Map<number, Answer[]>(), [] as Answer[], [] as Answer[]];
    const found = { reached: false, capacity: 0, size: 0, caller, answers, bySize, others };
    const other = otherCaller(context);
    if (other !== null) await context.send({ ...other, route: "design.themes" });
    for (const size of wavesFor(context, other === null ? 0 : 1)) {
      const beside = async (): Promise<void> => {
        if (other === null) return;
        await wait(TICK_MS * 2, context.signal);
        others.push(await context.send({ ...other, route: "design.themes", ...AT_ONCE }));
      };
      const [came] = await Promise.all([wave(context, size, [caller]), beside()]);
      answers.push(...came);
      bySize.set(size, came);
      found.size = size;
      found.reached = shedIn(came).length > size * SHED_SHARE;
      found.capacity = found.reached ? sideBySide(came) : 0;
      // One refusal may come from other callers' traffic: a wider wave tells.
      if (found.reached && shedIn(came).length > 1) return found;
      await wait(REST_MS, context.signal);
    }
    return found;
  });

export const reasons = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("; ");

export const capNotMet = (context: Context, came: readonly Answer[]): string =>
  reasons(
    `no cap was met by ${came.length} streams, ${sideBySide(came)} of them at once`,
    forWantOfConnections(context),
  );

/** The waves that reached a cap. Ends the rule if none did. */
export const overCap = async (context: Context) => {
  const found = await overload(context);
  if (!found.reached) throw skipped("not-reached", capNotMet(context, found.bySize.get(found.size) ?? []));
  return found;
};
