/**
 * A small deployment in this process, loaded through the same wire as any other: what a mutant is tried on. Three services,
 * real links, one or two API replicas; the calls' lines, the marks and the witnesses come out as a stage that can be judged.
 */

import { pause, waitUntil } from "../chaos/waiting.ts";
import type { Rate } from "../core/rate-limit.ts";
import { openWire, type Sent, type Wire } from "../drivers/http.ts";
import type { ObservedLine } from "../drivers/observed-line.ts";
import { createRunClock, type RunClock, wallUs } from "../drivers/run-clock.ts";
import { createSecrets } from "../drivers/secrets.ts";
import type { Target } from "../drivers/target.ts";
import { worldOf } from "../drivers/world-of-target.ts";
import type { Line } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import type { Limits, StageFacts, TenantFacts } from "../history/stage-facts.ts";
import { type FaultyLink, startFaultyLink } from "../platform/faulty-link.ts";
import { mintAdminToken } from "../platform/keys/admin-tokens.ts";
import { makeSecret } from "../platform/keys/secret.ts";
import type { Parts } from "../platform/parts.ts";
import { planSeed, type SeedTenant, storeSeed } from "../platform/seed.ts";
import { type Running, startRole } from "../platform/start-role.ts";
import type { Step } from "../workload/step.ts";
import type { World } from "../workload/world.ts";
import { controlSend, readCounts, readGauges, readLedger } from "./control.ts";

export type BenchOptions = {
  tenants: SeedTenant[];
  globalInFlight?: number;
  orgInFlight?: number;
  serviceMs?: number;
  tokens?: number;
  rate?: Rate;
  replicas?: 1 | 2;
  /** Puts links that can be broken between the API and its two services. */
  breakable?: true;
};

export type Bench = {
  stage: string;
  target: Target;
  world: World;
  clock: RunClock;
  running: Running;
  links: { limiter: FaultyLink; keys: FaultyLink } | null;
  /** Look-ups of key records that the key service has answered so far. */
  lookups(): number;
  /** Sends one step now; the replicas take turns. `id` in place of a fresh one, for a client that repeats itself. */
  send(step: Step, id?: string): Promise<Sent>;
  /** Sends all steps, at most `atOnce` at a time. */
  sendAll(steps: readonly Step[], atOnce?: number): Promise<Sent[]>;
  /** Sends the steps one after the other at a steady rate, whatever becomes of them. */
  press(steps: readonly Step[], ratePerS: number): Promise<Sent[]>;
  /** Waits until so many calls are in flight; goes on after a second, because a mutant may never get there. */
  untilInFlight(calls: number): Promise<void>;
  operate(method: "POST" | "PATCH", path: string, body: unknown): Promise<unknown>;
  add(line: Line): void;
  mark(name: string, more?: { org?: string; detail?: string }): void;
  /** What was judged in the play itself. */
  claim(claims: readonly Claim[]): void;
  claims: Claim[];
  /** Facts that only the play knows. */
  tell(facts: Partial<StageFacts>): void;
  /** The deployment is about to end by itself: its witnesses will not be asked. */
  silence(): void;
  /** Ends what is still under way, as clients that leave. */
  hangUp(): Promise<void>;
  /** Leaves no call under way, reads the witnesses and closes everything. */
  finish(): Promise<{ facts: StageFacts; lines: Line[] }>;
  close(): Promise<void>;
};

/** Short, so that a change of a record can be waited for. */
export const REVOCATION_BUDGET_MS = 200;
export const RECOVERY_DEADLINE_MS = 600;
/** Longer than the default: a busy machine is not to be taken for a slow limiter. */
export const LIMITER_BUDGET_MS = 700;
const MANY = 10_000;
const DRAIN_MS = 5_000;

type Replica = { running: Running; wire: Wire; control: string };

export const openBench = async (stage: string, parts: Parts, options: BenchOptions): Promise<Bench> => {
  const epochUs = wallUs();
  const clock = createRunClock(epochUs);
  const { replicas: replicaCount = 1, serviceMs = 20, tokens = 4, rate } = options;
  const caps = { globalInFlight: options.globalInFlight ?? MANY, orgInFlight: options.orgInFlight ?? MANY };
  const secrets = { sessionSecret: `session-${stage}`.padEnd(32, "s"), adminSecret: `admin-${stage}`.padEnd(32, "a") };
  const lines: Line[] = [];
  const told: Partial<StageFacts> = {};
  const judged: Claim[] = [];
  let log = "";
  let lookups = 0;
  let closed = false;
  let silent = false;
  const closers: (() => unknown)[] = [];
  const close = async (): Promise<void> => {
    if (closed) return;
    closed = true;
    for (const end of closers.reverse()) await end();
  };
  // Counted at the service, whatever the mutant has made of its store.
  const counting: Parts = {
    ...parts,
    keyStore: (healthy) => {
      const store = parts.keyStore(healthy);
      const counted =
        <A, B>(look: (name: A) => B) =>
        (name: A): B => {
          lookups += 1;
          return look(name);
        };
      return { ...store, byHash: counted(store.byHash), byId: counted(store.byId) };
    },
  };
  const apiOptions = {
    ...secrets,
    ...caps,
    controlPort: 0,
    rateLimit: rate ?? { perS: MANY, burst: MANY },
    inference: { slots: Math.min(MANY, caps.globalInFlight), serviceMs, tokens },
    logLevel: "debug" as const,
    logTo: {
      write: (text: string) => {
        log += text;
      },
    },
    limiterBudgetMs: LIMITER_BUDGET_MS,
    stopDeadlineMs: 1_500,
  };

  try {
    let links: Bench["links"] = null;
    const first = await startRole(
      "all",
      {
        ...apiOptions,
        ...(options.breakable === undefined
          ? {}
          : {
              links: async (services: { keys: string; limiter: string }) => {
                links = {
                  keys: await startFaultyLink(services.keys),
                  limiter: await startFaultyLink(services.limiter),
                };
                return { keys: links.keys.url, limiter: links.limiter.url };
              },
            }),
      },
      counting,
    );
    closers.push(first.close, async () => {
      await links?.keys.close();
      await links?.limiter.close();
    });
    const apis = [first];
    if (replicaCount === 2) {
      const { keys, limiter } = first.urls as { keys: string; limiter: string };
      const second = await startRole("api", { ...apiOptions, keys, limiter }, counting);
      closers.push(second.close);
      apis.push(second);
    }

    const { keys, limiter } = first.administration as NonNullable<Running["administration"]>;
    const nowMs = Date.now();
    const adminToken = (org: string): string => mintAdminToken({ secret: secrets.adminSecret, org, nowMs });
    const seed = planSeed(options.tenants, { makeSecret, adminToken, nowMs });
    await storeSeed(seed, keys, limiter);
    const tenants: Record<string, TenantFacts> = {};
    for (const { id, tier, map_load_allowance, map_loads_used } of seed.organizations) {
      tenants[id] = { tier, allowance: map_load_allowance ?? 0, used_at_start: map_loads_used };
    }

    const limits: Limits = {
      replicas: replicaCount,
      slots: Math.min(MANY, caps.globalInFlight),
      service_ms: serviceMs,
      global_in_flight: caps.globalInFlight,
      org_in_flight: caps.orgInFlight,
      ...(rate === undefined ? {} : { rate_per_s: rate.perS, burst: rate.burst }),
      limiter_budget_ms: LIMITER_BUDGET_MS,
      key_service_budget_ms: 1_000,
      revocation_budget_ms: REVOCATION_BUDGET_MS,
    };
    const idRun = `mutants.${stage}`;
    const control = first.urls.control?.api as string;
    const targetOf = (api: Running): Target => ({
      schema: "floodgate/target@1",
      name: stage,
      base_url: api.urls.api as string,
      key_management_url: api.urls.api as string,
      tile_url: `${api.urls.api}/maps/tiles/{z}/{x}/{y}`,
      control: { keys: control, limiter: control, api: [api.urls.control?.api as string] },
      shedding: "fixed",
      limits,
      permits: { writes: true, quota_burn: true },
      tenants: seed.target.tenants,
      credentials: seed.target.credentials as NonNullable<Target["credentials"]>,
    });
    const world = worldOf(targetOf(first));
    const onLine = (line: ObservedLine): void => void lines.push(line);
    const replicas: Replica[] = [];
    for (const [at, running] of apis.entries()) {
      const wire = await openWire({
        target: targetOf(running),
        secrets: createSecrets("."),
        world,
        clock,
        stage,
        driver: "in-process",
        idPrefix: `${idRun}.${at}`,
        timeouts: { callMs: 15_000, firstEventMs: 10_000, idleMs: 10_000 },
        onLine,
      });
      closers.push(wire.close);
      replicas.push({ running, wire, control: running.urls.control?.api as string });
    }

    let sent = 0;
    const send: Bench["send"] = async (step, id, intendedUs = clock.nowUs()) => {
      const number = sent++;
      // Every second call changes the replica, so that callers who take turns meet all of them.
      const { wire } = replicas[(number >> 1) % replicas.length] as Replica;
      const context = { id: id ?? `${idRun}.c-${number}`, stage, driver: "in-process", intendedUs };
      const answer = await wire.send(step, context);
      lines.push(answer.line);
      return answer;
    };
    const controls = replicas.map((replica) => replica.control);

    const hangUp = async (): Promise<void> => {
      for (const { wire } of replicas) await wire.close();
    };

    /** Nobody is connected any more and nothing is to be settled: a slot still held then is held for nobody. */
    const isQuiet = async (): Promise<boolean> => {
      const gauges = await readGauges(controls);
      return gauges.every(({ sockets, unsettled }) => (sockets ?? 0) === 0 && (unsettled ?? 0) === 0);
    };

    return {
      stage,
      target: targetOf(first),
      world,
      clock,
      running: first,
      claims: judged,
      claim: (claims) => void judged.push(...claims),
      links,
      lookups: () => lookups,
      send: (step, id) => send(step, id),
      sendAll: async (steps, atOnce = MANY) => {
        const answers: Sent[] = [];
        let next = 0;
        const work = async (): Promise<void> => {
          while (next < steps.length) {
            const at = next++;
            answers[at] = await send(steps[at] as Step);
          }
        };
        await Promise.all(Array.from({ length: Math.min(atOnce, steps.length) }, work));
        return answers;
      },
      press: (steps, ratePerS) =>
        Promise.all(
          steps.map(async (step, at) => {
            await pause((at * 1000) / ratePerS);
            return send(step);
          }),
        ),
      untilInFlight: async (calls) => {
        const reached = async (): Promise<boolean> =>
          (await readGauges(controls)).reduce((sum, { in_flight }) => sum + in_flight, 0) >= calls;
        await waitUntil(reached, { forMs: 1_000, pollMs: 10 });
      },
      operate: (method, path, body) => controlSend(method, `${control}${path}`, body),
      add: (line) => void lines.push(line),
      mark: (name, more = {}) => void lines.push({ type: "mark", stage, name, at_us: clock.nowUs(), ...more }),
      tell: (facts) => {
        Object.assign(told, facts);
      },
      hangUp,
      silence: () => {
        silent = true;
      },
      finish: async () => {
        await hangUp();
        const drained = silent || (await waitUntil(isQuiet, { forMs: DRAIN_MS, pollMs: 20 })).met;
        const witnesses = silent
          ? {}
          : {
              counts: await readCounts(controls, idRun),
              gauges: await readGauges(controls),
              ledger: await readLedger(control, `${idRun}.`),
            };
        const facts: StageFacts = {
          stage,
          started_at_ms: epochUs / 1000,
          limits,
          shedding: "fixed",
          tenants,
          faults: false,
          drained,
          ...witnesses,
          recovery_deadline_ms: RECOVERY_DEADLINE_MS,
          texts: [{ name: "the platform's log", text: log }],
          ...told,
        };
        await close();
        return { facts, lines };
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
};
