/**
 * A tiny honest platform in virtual time, to hunt for judges that accuse the innocent: caps, a shared rate limit and an
 * allowance kept exactly, seen through everything that blurs a history: slow lines, clocks that are off, readers that
 * pause, requests and replies that are lost, clients that leave. Written for the judges alone and sharing nothing with the
 * platform. Each `Spoils` breaks one promise, to see that the same history would then be condemned.
 */
import type { LedgerLine } from "../../contract/routes.ts";
import { Heap } from "../../history/heap.ts";
import type { CallLine, Line } from "../../history/line.ts";
import type { Counts, StageFacts } from "../../history/run-document.ts";
import { PUBLISHABLE, SERVER } from "./specimen.fixture.ts";

export type World = {
  seed: number;
  replicas: number;
  /** In flight: of a replica, of an organization on it; running at once. */
  globalCap: number;
  orgCap: number;
  slots: number;
  serviceMs: number;
  ratePerS: number;
  burst: number;
  allowance: number;
  usedAtStart: number;
  callsPerS: number;
  seconds: number;
  /** How far the clocks of the two drivers may be off, in milliseconds. */
  clockErrorMs: number;
  /** Longest way of a request or a reply, and longest pause of a reader. */
  wayMs: number;
  pauseMs: number;
  /** Shares of calls whose request or reply is lost, and whose client leaves. */
  lostShare: number;
  leavingShare: number;
  /** What a deployment of somebody else's may do besides; without it, it behaves as the reference. */
  foreign?: Foreign;
};

/** What is honest in somebody else's deployment and looks like a broken promise to who takes it for ours. */
export type Foreign = {
  /** Calls of others, in the names of the same organizations, that no history has. */
  hiddenPerS: number;
  /** Shares of calls that it answers with 503 or limiter_unavailable for reasons of its own, and a gateway in its place. */
  ownRefusals: number;
  edgeShare: number;
  /** By how much it gives slots back late, and for how long a call that is shed counts as in flight. */
  lateMs: number;
  shedCountsMs: number;
  /** Every other call of organization `a` comes under a role whose organization is not stated. */
  hasRoles: boolean;
  /** What its owner states or shows. */
  shedding: StageFacts["shedding"];
  showsCounts: boolean;
  showsUse: boolean;
  statesLimits: boolean;
  statesTenants: boolean;
  /** Whether its store knows our ids. */
  knowsIds: boolean;
};

export type Spoils = {
  shedsAt?: number;
  neverSheds?: true;
  neverShedsOrgs?: true;
  swapsSheds?: true;
  limitsPerReplica?: true;
  admitsMore?: number;
  refusesEarlier?: number;
  keepsSlots?: true;
};

/** mulberry32: a small seeded generator, uniform in [0, 1). */
const seeded = (seed: number): (() => number) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
};

type Replica = { total: number; byOrg: Map<string, number>; running: number; queue: (() => void)[] };
const TIMEOUT_US = 3_000_000;
const ORGS = ["a", "b", "f"];
const EVENTS = 8;

export const play = (world: World, spoils: Spoils = {}): { facts: StageFacts; lines: Line[] } => {
  const random = seeded(world.seed);
  const upTo = (ms: number): number => Math.floor(random() * ms * 1000);
  const agenda = new Heap<() => void>();
  let nowUs = 0;
  const at = (us: number, act: () => void): void => agenda.push(Math.max(us, nowUs), act);
  const replicas: Replica[] = Array.from({ length: world.replicas }, () => ({
    total: 0,
    byOrg: new Map(),
    running: 0,
    queue: [],
  }));
  const lines: CallLine[] = [];
  const counts: Counts = {};
  const ledger: LedgerLine[] = [];
  const tat = new Map<string, number>();
  const used = new Map<string, number>(ORGS.map((org) => [org, org === "f" ? world.usedAtStart : 0]));
  const clockUs = [0, 1].map(() => Math.round((random() * 2 - 1) * world.clockErrorMs * 1000));
  const capOf = (org: string): number => (org === "f" ? world.allowance : world.allowance * 5);
  /** Readers pause now and then; what comes meanwhile is read at the end, within a millisecond, in any order. */
  const readAt = (us: number): number => {
    const period = 400_000;
    const pause = world.pauseMs * 1000;
    const into = us % period;
    return into < pause ? us - into + pause + upTo(1) : us;
  };

  const takeRate = (bucket: string): number | null => {
    const step = 1_000_000 / world.ratePerS;
    const now = Math.max(tat.get(bucket) ?? nowUs, nowUs);
    const waitUs = now - step * (world.burst - 1) - nowUs;
    if (waitUs > 0) return waitUs;
    tat.set(bucket, now + step);
    return null;
  };

  const { foreign } = world;
  const arrive = (id: number, sentUs: number, isHidden = false): void => {
    const org = ORGS[Math.floor(random() ** 2 * ORGS.length)] as string;
    const kind = random();
    const isLoad = kind < 0.3;
    const anonymous = kind > 0.95;
    const driver = Math.floor(random() * 2);
    const index = Math.floor(random() * world.replicas);
    const replica = replicas[index] as Replica;
    const wayUs = upTo(world.wayMs);
    const leaves = !isLoad && random() < world.leavingShare;
    const fate = random();
    const losesRequest = fate < world.lostShare / 2;
    const losesReply = !losesRequest && fate < world.lostShare;
    const clock = clockUs[driver] as number;
    const line: CallLine = {
      type: "call",
      id: `${id}`,
      stage: "s",
      driver: `d${driver}`,
      org: anonymous ? "-" : foreign?.hasRoles && org === "a" && random() < 0.5 ? "role:server" : org,
      bucket: org,
      route: isLoad ? "maps.loads" : "chat.control",
      intended_us: sentUs + clock,
      started_us: sentUs + clock,
      connect_us: 0,
      sent_us: sentUs + clock,
      attempt: 0,
      first_us: null,
      done_us: sentUs + TIMEOUT_US + clock,
      outcome: "indeterminate",
      clock_error_us: world.clockErrorMs * 1000,
      facts: anonymous ? { credential: "none", origin: "none", body: "ok" } : SERVER,
    };
    // The tier of `f` is Free for its map loads alone here: its key is a publishable one's session.
    if (org === "f" && !anonymous)
      line.facts = {
        ...PUBLISHABLE,
        credential: "session",
        tier: isLoad ? "Free" : "Pro",
        product: isLoad ? "tile" : "chat",
      };
    if (!isHidden) lines.push(line);
    if (losesRequest) return;

    let holds = false;
    let holdsOrg = false;
    const giveBack = (): void => {
      if (holdsOrg) replica.byOrg.set(org, (replica.byOrg.get(org) ?? 0) - 1);
      if (holds) replica.total -= 1;
      holds = false;
      holdsOrg = false;
    };
    const release = (): void => {
      if (foreign === undefined) giveBack();
      else at(nowUs + upTo(foreign.lateMs), giveBack);
    };
    const count = (outcome: string): void => {
      if (isHidden) return;
      const known = outcome === "401" || outcome === "429 b2b_overloaded" ? "-" : org;
      const byOrg = counts[outcome] ?? {};
      counts[outcome] = byOrg;
      byOrg[known] = (byOrg[known] ?? 0) + 1;
    };
    const backUs = upTo(world.wayMs);
    /** The head was written at `headUs`, the last byte now. */
    const answer = (outcome: string, headUs: number, more: Partial<CallLine> = {}): void => {
      const doneUs = readAt(nowUs + backUs);
      if (losesReply || doneUs > sentUs + TIMEOUT_US * 10) return;
      if (foreign !== undefined && random() < foreign.edgeShare) {
        Object.assign(line, { outcome: "edge 502", first_us: doneUs + clock, done_us: doneUs + clock });
        return;
      }
      Object.assign(line, more, {
        outcome,
        first_us: Math.min(readAt(headUs + backUs), doneUs) + clock,
        done_us: doneUs + clock,
      });
    };
    const refuse = (outcome: string, more: Partial<CallLine> = {}): void => {
      count(outcome);
      release();
      answer(outcome, nowUs, {
        envelope:
          outcome === "401" || outcome === "503" ? "none" : /overloaded|exceeded/.test(outcome) ? "flat" : "detail",
        ...more,
      });
    };

    const serve = (): void => {
      replica.running += 1;
      const takesUs = Math.max(1000, Math.floor(-Math.log(1 - random()) * world.serviceMs * 1000));
      const startUs = nowUs;
      const headUs = startUs + Math.floor(takesUs / EVENTS);
      let left = false;
      const free = (): void => {
        if (left && spoils.keepsSlots) return;
        release();
      };
      const stop = (): void => {
        replica.running -= 1;
        replica.queue.shift()?.();
      };
      if (leaves) {
        left = true;
        const leftUs = Math.max(readAt(headUs + backUs), startUs + Math.floor(takesUs / 2));
        at(leftUs + upTo(300), () => {
          free();
          stop();
        });
        count("200");
        if (!losesReply)
          Object.assign(line, {
            outcome: "200",
            first_us: readAt(headUs + backUs) + clock,
            done_us: leftUs + clock,
            events: 3,
            ended: "closed_by_client",
            aborted: true,
          });
        return;
      }
      at(startUs + takesUs, () => {
        count("200");
        free();
        answer("200", headUs, { events: EVENTS, ended: "done", event_names: ["token", "done"] });
        const [first, done] = [line.first_us ?? 0, line.done_us];
        if (line.outcome !== "200") return stop();
        line.first_event_us = first;
        line.gaps_us = Array.from({ length: EVENTS - 1 }, () => (done - first) / (EVENTS - 1));
        stop();
      });
    };

    const decide = (): unknown => {
      if (foreign !== undefined && random() < foreign.ownRefusals) {
        return refuse(random() < 0.5 ? "503" : "429 limiter_unavailable");
      }
      const bucket = spoils.limitsPerReplica ? `${org}/${index}` : org;
      const waitUs = takeRate(bucket);
      if (waitUs !== null)
        return refuse("429 rate_limited", { retry_after: `${Math.max(1, Math.ceil(waitUs / 1_000_000))}` });
      if (!isLoad) {
        if (replica.running < world.slots) serve();
        else replica.queue.push(serve);
        return;
      }
      const was = used.get(org) as number;
      if (was >= capOf(org) + (spoils.admitsMore ?? 0) - (spoils.refusesEarlier ?? 0)) {
        // The token was not taken: rate and meter are one question.
        tat.set(bucket, (tat.get(bucket) as number) - 1_000_000 / world.ratePerS);
        return org === "f"
          ? refuse("429 map_load_quota_exceeded", { quota: { meter: "map_loads", limit: world.allowance, used: was } })
          : refuse("429 map_load_hard_stop");
      }
      used.set(org, was + 1);
      ledger.push({
        charge_id: `c${isHidden ? "-hidden-" : ""}${id}`,
        request_id: isHidden || foreign?.knowsIds === false ? `theirs-${id}` : `${id}`,
        org,
        key: org,
        meter: "map_loads",
        kind: "charge",
        amount: 1,
        window: "2026-11",
        at: nowUs / 1000,
      });
      at(nowUs + upTo(2), () => {
        count("200");
        release();
        answer("200", nowUs);
      });
    };

    at(sentUs + wayUs, () => {
      const cap = spoils.shedsAt ?? world.globalCap;
      const [b2b, own] = spoils.swapsSheds
        ? ["429 org_overloaded", "429 b2b_overloaded"]
        : ["429 b2b_overloaded", "429 org_overloaded"];
      if (replica.total >= cap && spoils.neverSheds !== true) {
        if (foreign !== undefined) {
          replica.total += 1;
          at(nowUs + upTo(foreign.shedCountsMs), () => {
            replica.total -= 1;
            refuse(b2b as string);
          });
          return;
        }
        return refuse(b2b as string, { retry_after: "1" });
      }
      replica.total += 1;
      holds = true;
      if (anonymous) return refuse("401");
      if ((replica.byOrg.get(org) ?? 0) >= world.orgCap && spoils.neverShedsOrgs !== true)
        return refuse(own as string, { retry_after: "1" });
      replica.byOrg.set(org, (replica.byOrg.get(org) ?? 0) + 1);
      holdsOrg = true;
      at(nowUs + upTo(3), decide);
    });
  };

  const callers = (perS: number, isHidden: boolean): void => {
    const total = Math.floor(perS * world.seconds);
    for (let id = 0; id < total; id += 1) {
      const sentUs = Math.floor((id / perS) * 1_000_000 + random() * 20_000);
      at(sentUs, () => arrive(id, sentUs, isHidden));
    }
  };
  callers(world.callsPerS, false);
  callers(foreign?.hiddenPerS ?? 0, true);
  while (agenda.size > 0) {
    nowUs = agenda.least;
    agenda.pop()?.();
  }
  lines.sort((one, other) => one.sent_us - other.sent_us);
  const facts: StageFacts = {
    stage: "s",
    reference: true,
    exclusive: true,
    limits: {
      replicas: world.replicas,
      slots: world.slots,
      service_ms: world.serviceMs,
      global_in_flight: world.globalCap,
      org_in_flight: world.orgCap,
      rate_per_s: world.ratePerS,
      burst: world.burst,
      revocation_budget_ms: 1000,
    },
    shedding: "fixed",
    tenants: {
      a: { tier: "Pro", allowance: world.allowance, used_at_start: 0 },
      b: { tier: "Pro", allowance: world.allowance, used_at_start: 0 },
      f: { tier: "Free", allowance: world.allowance, used_at_start: world.usedAtStart },
    },
    faults: false,
    drained: true,
    counts,
    ledger,
    gauges: replicas.map(({ total: in_flight, byOrg }) => ({ in_flight, in_flight_by_org: Object.fromEntries(byOrg) })),
  };
  return { facts: foreign === undefined ? facts : shownBy(foreign, facts), lines };
};

/** What is known of a stage on somebody else's deployment. */
const shownBy = (foreign: Foreign, { reference: _, counts, limits, tenants, ...facts }: StageFacts): StageFacts => {
  const known = Object.entries(tenants).map(([org, { used_at_start: used = 0, ...tenant }]) => [
    org,
    foreign.showsUse ? { ...tenant, used_at_start: used } : tenant,
  ]);
  return {
    ...facts,
    exclusive: foreign.hiddenPerS === 0,
    shedding: foreign.shedding,
    limits: foreign.statesLimits ? limits : {},
    tenants: foreign.statesTenants ? Object.fromEntries(known) : {},
    ...(foreign.showsCounts && counts !== undefined ? { counts } : {}),
    // Others go on calling after the stage.
    ...(foreign.hiddenPerS === 0 ? {} : { gauges: [{ in_flight: 2, in_flight_by_org: { a: 2 } }] }),
  };
};
