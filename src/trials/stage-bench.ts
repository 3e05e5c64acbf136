/**
 * What a mutant is tried on: a small deployment, loaded through the same client as any other. The calls' lines, the marks
 * and what the deployment reports of itself come out as a stage that can be judged.
 */
import { type ApiClient, openApiClient, type Sent } from "../client/api-client.ts";
import { createRunClock, type RunClock, wallUs } from "../client/clock.ts";
import { controlSend, readCounts, readGauges, readLedger } from "../client/control-planes.ts";
import { REFERENCE_STREAM_ENDS } from "../contract/streams.ts";
import type { Line } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import type { Gauges, StageFacts } from "../history/stage-facts.ts";
import type { Parts } from "../platform/parts.ts";
import type { Running } from "../platform/start-role.ts";
import { pause, waitUntil } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import type { Step } from "../workload/step.ts";
import { type DeploymentOptions, type Links, MANY, startSmallDeployment } from "./deployment.ts";

export type Bench = {
  stage: string;
  target: Target;
  view: TargetView;
  clock: RunClock;
  running: Running;
  links: Links | null;
  /** Look-ups of key records that the key service has answered so far. */
  lookups(): number;
  /** Sends one step now; the replicas take turns. `id` in place of a fresh one, for a client that repeats itself. */
  send(step: Step, id?: string): Promise<Sent>;
  /** Sends all steps, at most `atOnce` at a time. */
  sendAll(steps: readonly Step[], atOnce?: number): Promise<Sent[]>;
  /** Sends the steps one after the other at a steady rate, whatever becomes of them. */
  press(steps: readonly Step[], ratePerS: number): Promise<Sent[]>;
  /** Waits until so many calls are in flight, for a second at most: a mutant may never get there. */
  untilInFlight(calls: number): Promise<void>;
  operate(method: "POST" | "PATCH", path: string, body: unknown): Promise<unknown>;
  add(line: Line): void;
  mark(name: string, more?: { org?: string; detail?: string }): void;
  /** What is judged in the play itself. */
  claims: Claim[];
  /** Facts that only the play knows. */
  tell(facts: Partial<StageFacts>): void;
  /** The deployment is about to end by itself: its control planes are not read. */
  silence(): void;
  /** Disconnects, as clients that leave. */
  hangUp(): Promise<void>;
  /** Disconnects, reads what the control planes show, and closes everything. */
  finish(): Promise<{ facts: StageFacts; lines: Line[] }>;
  close(): Promise<void>;
};

export const RECOVERY_DEADLINE_MS = 600;
const IN_FLIGHT_MS = 1_000;
const DRAIN_MS = 5_000;
const TIMEOUTS = { callMs: 15_000, firstEventMs: 10_000, idleMs: 10_000 };
const DRIVER = "in-process";

type Observed = Pick<StageFacts, "counts" | "gauges" | "ledger">;

/** Timers and files are those of this process, in which other stages are played beside this one. */
const gaugesOf = async (controls: readonly string[]): Promise<Gauges[]> =>
  (await readGauges(controls)).map(({ timers: _, open_files: __, ...own }) => own);

export const openBench = async (stage: string, parts: Parts, options: DeploymentOptions): Promise<Bench> => {
  const epochUs = wallUs();
  const clock = createRunClock(epochUs);
  const deployment = await startSmallDeployment(stage, parts, options);
  const { apis, targets, limits, tenants, links } = deployment;
  const controls = apis.map(({ urls }) => urls.control?.api as string);
  const control = controls[0] as string;
  const view = viewOf(targets[0] as Target);
  const idRun = `mutants.${stage}`;
  const lines: Line[] = [];
  const claims: Claim[] = [];
  const stated: Partial<StageFacts> = {};
  const clients: ApiClient[] = [];
  let silent = false;
  let sent = 0;

  const hangUp = async (): Promise<void> => {
    for (const client of clients) await client.close();
  };
  const close = async (): Promise<void> => {
    await hangUp();
    await deployment.close();
  };
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

  const send: Bench["send"] = async (step, id) => {
    const number = sent++;
    // Every second call changes the replica, so that callers who take turns meet all of them.
    const client = clients[(number >> 1) % clients.length] as ApiClient;
    const context = { id: id ?? `${idRun}.c-${number}`, stage, driver: DRIVER, intendedUs: clock.nowUs() };
    const answer = await client.send(step, context);
    lines.push(answer.line);
    return answer;
  };

  /** No caller is connected and nothing is left to settle: a slot that is still held then has leaked. */
  const isQuiet = async (): Promise<boolean> => {
    const gauges = await readGauges(controls);
    return gauges.every(({ sockets, unsettled }) => sockets === 0 && (unsettled ?? 0) === 0);
  };

  const readObserved = async (): Promise<Observed & { drained: boolean }> => {
    if (silent) return { drained: true };
    const { met: drained } = await waitUntil(isQuiet, { forMs: DRAIN_MS, pollMs: 20 });
    const [counts, gauges] = [await readCounts(controls, idRun), await gaugesOf(controls)];
    return { drained, counts, gauges, ledger: await readLedger(control, `${idRun}.`) };
  };

  return {
    stage,
    view,
    clock,
    links,
    claims,
    send,
    target: targets[0] as Target,
    running: apis[0] as Running,
    lookups: () => deployment.lookupsMs.length,
    sendAll: async (steps, atOnce = MANY) => {
      const answers: Sent[] = [];
      const next = steps.entries();
      const work = async (): Promise<void> => {
        for (const [at, step] of next) answers[at] = await send(step);
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
      await waitUntil(reached, { forMs: IN_FLIGHT_MS, pollMs: 10 });
    },
    operate: (method, path, body) => controlSend(method, `${control}${path}`, body),
    add: (line) => void lines.push(line),
    mark: (name, more = {}) => void lines.push({ type: "mark", stage, name, at_us: clock.nowUs(), ...more }),
    tell: (facts) => void Object.assign(stated, facts),
    silence: () => {
      silent = true;
    },
    hangUp,
    close,
    finish: async () => {
      await hangUp();
      const observed = await readObserved();
      await deployment.close();
      const facts: StageFacts = {
        stage,
        limits,
        tenants,
        shedding: "fixed",
        stream_end: REFERENCE_STREAM_ENDS,
        faults: false,
        reference: true,
        exclusive: true,
        started_at_ms: epochUs / 1000,
        recovery_deadline_ms: RECOVERY_DEADLINE_MS,
        texts: [{ name: "the platform's log", text: deployment.log() }],
        ...observed,
        ...stated,
      };
      return { facts, lines };
    },
  };
};

type About = {
  about: string;
  /** Invariants, `verify/<rule>` or `gate/<measurement>`: each passes on the healthy platform, or the stage proves nothing. */
  proves: readonly string[];
};

/** A deployment, loaded, and judged by all invariants and whatever else the play itself asks. */
export type MiniStage = About & {
  options: DeploymentOptions;
  /** A black box: no invariant is asked, because they see a ledger and counts that the caller does not. */
  rulesAlone?: true;
  play(bench: Bench): Promise<void>;
};

/** Two deployments, side by side. */
export type ComparedStage = About & {
  compare(base: Parts, head: Parts, deciding: readonly string[]): Promise<Claim[]>;
};
