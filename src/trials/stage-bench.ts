/** Runs a small deployment for a mutant's trial, through the usual client; what comes of it is judged like a stage. */
import { cpus } from "node:os";
import { type ApiClient, openApiClient, type Sent } from "../client/api-client.ts";
import { controlSend, readCounts, readGauges, readLedger } from "../client/control-planes.ts";
import { type InProcess, startInProcess } from "../deployments/in-process.ts";
import { watchHost } from "../drivers/driver.ts";
import type { Line } from "../history/line.ts";
import type { Claim, Gauges, Limits, StageFacts, StageHost } from "../history/run-document.ts";
import { OTHERS_HALF } from "../history/time-doubts.ts";
import type { Parts } from "../platform/parts.ts";
import type { SeedTenant } from "../platform/seed.ts";
import type { Running } from "../platform/start-role.ts";
import { createRunClock, eachAtOnce, pause, waitUntil, wallUs } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import type { Step } from "../workload/step.ts";

/** Short, so that stages can wait for a changed record. */
export const REVOCATION_BUDGET_MS = 200;
/** Longer than the default, so that a busy machine does not look like a slow limiter. */
export const LIMITER_BUDGET_MS = 700;
export const RECOVERY_DEADLINE_MS = 600;
/** A limit that no stage reaches. */
const MANY = 10_000;
const UNWATCHED = {
  ...{ cores: cpus().length, target_cores: null, other_cores: null },
  ...{ rate_error: null, generator: [], calibration: [] },
};
/** Longer than any other stage keeps the limiter away, plus the longest pause between refund attempts. */
const STOP_DEADLINE_MS = 4_000;

export type DeploymentOptions = {
  tenants: SeedTenant[];
  /** The limits that differ from those of `startSmallDeployment`. */
  limits?: Limits;
  tokens?: number;
  breakable?: true;
  /** For a stage whose API has work left when it is stopped. */
  stopDeadlineMs?: number;
};

/** Three services over real links, one or two API replicas, demo data, in this process. */
export const startSmallDeployment = (name: string, parts: Parts, options: DeploymentOptions): Promise<InProcess> => {
  const { tenants, tokens = 4, breakable, limits: own = {}, stopDeadlineMs = STOP_DEADLINE_MS } = options;
  const limits: Limits = {
    ...{ replicas: 1, slots: own.global_in_flight ?? MANY, service_ms: 20 },
    ...{ global_in_flight: MANY, org_in_flight: MANY, revocation_budget_ms: REVOCATION_BUDGET_MS },
    ...{ limiter_budget_ms: LIMITER_BUDGET_MS, key_service_budget_ms: 1_000 },
    ...own,
  };
  return startInProcess({
    ...{ name, parts, limits, tenants, breakable },
    role: {
      ...{ controlPort: 0, stopDeadlineMs, logLevel: "debug", inference: { tokens } },
      rateLimit: { perS: limits.rate_per_s ?? MANY, burst: limits.burst ?? MANY },
    },
    target: { limits, permits: { writes: true, quota_burn: true } },
  });
};

const IN_FLIGHT_LOOKS = 100;
const DRAIN_MS = 5_000;
const TIMEOUTS = { callMs: 15_000, firstEventMs: 10_000, idleMs: 10_000 };
const DRIVER = "in-process";

/** Without timers and files, which belong to this process and other stages in it. */
const gaugesOf = async (controls: readonly string[]): Promise<Gauges[]> =>
  (await readGauges(controls)).map(({ timers: _, open_files: __, ...own }) => own);

export type Bench = Awaited<ReturnType<typeof openBench>>;

export const openBench = async (stage: string, parts: Parts, options: DeploymentOptions) => {
  const epochUs = wallUs();
  const clock = createRunClock(epochUs);
  const watched = watchHost();
  const deployment = await startSmallDeployment(stage, parts, options);
  const { apis, targets, links } = deployment;
  const controls = apis.map(({ urls }) => urls.control?.api as string);
  const control = controls[0] as string;
  const view = viewOf(targets[0] as Target);
  const idRun = `mutants.${stage}`;
  const lines: Line[] = [];
  /** Claims that the stage adds itself while it is played. */
  const claims: Claim[] = [];
  const stated: Partial<StageFacts> = {};
  const clients: ApiClient[] = [];
  let silent = false;
  let sent = 0;

  const hangUp = async (): Promise<void> => {
    for (const client of clients) await client.close();
  };
  const close = (): Promise<void> => hangUp().then(() => deployment.close());
  try {
    for (const [at, target] of targets.entries()) {
      const shared = { secrets: createSecrets("."), view, clock, stage, driver: DRIVER, timeouts: TIMEOUTS };
      const onLine = (line: Line): void => void lines.push(line);
      clients.push(await openApiClient({ ...shared, target, idPrefix: `${idRun}.${at}`, onLine }));
    }
    stated.gauges_before = await gaugesOf(controls);
  } catch (error) {
    await close();
    throw error;
  }

  /** Sends one step now, alternating replicas. `id` replaces the generated one, for a client that repeats its id. */
  const send = async (step: Step, id?: string): Promise<Sent> => {
    const number = sent++;
    // The replica changes every second call, so that two callers that take turns each reach all replicas.
    const client = clients[(number >> 1) % clients.length] as ApiClient;
    const context = { id: id ?? `${idRun}.c-${number}`, stage, driver: DRIVER, intendedUs: clock.nowUs() };
    const answer = await client.send(step, context);
    lines.push(answer.line);
    return answer;
  };

  const readObserved = async (): Promise<Pick<StageFacts, "drained" | "counts" | "gauges" | "ledger">> => {
    if (silent) return { drained: true };
    // Once no caller is connected and nothing is unsettled, a slot that is still held is a leak.
    const isQuiet = async (): Promise<boolean> =>
      (await readGauges(controls)).every(({ sockets, unsettled = 0 }) => sockets === 0 && unsettled === 0);
    const { met: drained } = await waitUntil(isQuiet, { forMs: DRAIN_MS, pollMs: 20 });
    const [counts, gauges] = [await readCounts(controls, idRun), await gaugesOf(controls)];
    return { drained, counts, gauges, ledger: await readLedger(control, `${idRun}.`) };
  };

  return {
    ...{ stage, view, clock, links, claims, send, hangUp, close },
    target: targets[0] as Target,
    running: apis[0] as Running,
    lookups: (): number => deployment.lookupsMs.length,
    sendAll: (steps: readonly Step[], atOnce = MANY) => eachAtOnce(atOnce, steps, (step) => send(step)),
    /** Sends steps at a steady rate without waiting for answers. */
    press: (steps: readonly Step[], ratePerS: number): Promise<Sent[]> =>
      Promise.all(
        steps.map(async (step, at) => {
          await pause((at * 1000) / ratePerS);
          return send(step);
        }),
      ),
    /** Waits until so many calls are in flight. It gives up after a number of looks, which a stall of the process does not use up. */
    untilInFlight: async (calls: number): Promise<void> => {
      for (let left = IN_FLIGHT_LOOKS; left > 0; left -= 1) {
        if ((await readGauges(controls)).reduce((sum, { in_flight }) => sum + in_flight, 0) >= calls) return;
        await pause(10);
      }
    },
    operate: (path: string, body: unknown): Promise<unknown> => controlSend("PATCH", `${control}${path}`, body),
    add: (line: Line): void => void lines.push(line),
    mark: (name: string, more: { org?: string } = {}): void =>
      void lines.push({ type: "mark", stage, name, at_us: clock.nowUs(), ...more }),
    /** Adds facts that only the play knows. */
    tell: (facts: Partial<StageFacts>): void => void Object.assign(stated, facts),
    /** Leaves the control planes unread, because the deployment ends by itself. */
    silence: (): void => {
      silent = true;
    },
    /** Disconnects, reads the control planes, and closes everything. */
    finish: async (): Promise<{ facts: StageFacts; lines: Line[] }> => {
      await hangUp();
      const observed = await readObserved();
      await deployment.close();
      const host = watched();
      // Generator and deployment share this process: what its loop was late, its calls left late as well.
      const lateMs = host.event_loop_lag_ms_p99 ?? 0;
      const stoodStill = lateMs > LIMITER_BUDGET_MS / 2 || (host.throttled_share ?? 0) > OTHERS_HALF;
      // The longest stall delays every call that waits for its answer during it, and the sending of hardly any call. So it puts
      // failures in doubt, and no passes.
      const lag_ms: StageHost["lag_ms"] = [
        [0.9, stoodStill ? lateMs : 0],
        [0.99, host.event_loop_lag_ms_max ?? 0],
      ];
      const facts: StageFacts = {
        ...{ ...deployment.facts(), stage, shedding: "fixed", faults: false },
        ...{ started_at_ms: epochUs / 1000, recovery_deadline_ms: RECOVERY_DEADLINE_MS },
        host: { ...UNWATCHED, host: stoodStill ? host : null, calls: lines.length, lag_ms },
        ...observed,
        ...stated,
      };
      return { facts, lines };
    },
  };
};

export type MiniStage = {
  options: DeploymentOptions;
  /** Skips the invariants, for a black-box stage: they see a ledger and counts that the caller does not. */
  rulesAlone?: true;
  play(bench: Bench): Promise<void>;
};

/** A deployment in virtual time, in its own thread, with the mutant of this name; `null` for the healthy platform. */
export type VirtualStage = { inVirtualTime(mutant: string | null): Promise<Claim[]> };
