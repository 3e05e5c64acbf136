/**
 * Plays schedules of faults in virtual time: real deployment, client, driver and stories on a virtual network and clock, in a worker
 * thread, whose clock is replaced. This file starts the thread and runs in it.
 */
import { once } from "node:events";
import { parentPort, Worker, workerData } from "node:worker_threads";
import { openApiClient } from "../client/api-client.ts";
import { type InProcess, startInProcess } from "../deployments/in-process.ts";
import { EMBEDDED_LIMITS as LIMITS, loadTenants } from "../deployments/tenants.ts";
import { startPressing } from "../drivers/open-loop/play-schedule.ts";
import { durationS, type FaultEvent, type FaultSchedule, RECOVERY_MS } from "../faults/fault-schedule.ts";
import { faultTeller, makeFault } from "../faults/link-faults.ts";
import type { FaultLine, Line } from "../history/line.ts";
import type { Gauges, Limits, StageFacts } from "../history/run-document.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { inOrder, judgeStage } from "../invariants/invariant.ts";
import { mutantNamed } from "../mutants/catalogue.ts";
import { connectorOf } from "../platform/links/http-service.ts";
import { HEALTHY, type Parts } from "../platform/parts.ts";
import { NODE_ARGUMENTS } from "../supervision/child.ts";
import { inTime, type RunClock } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { ProxyControl } from "../tools/toxiproxy.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { storyCalled } from "../workload/catalogue.ts";
import { constant, type Profile } from "../workload/load-profiles.ts";
import type { PlaySchedule, Trial } from "./search-schedules.ts";
import { createVirtualNetwork, installVirtualTime, type VirtualTime } from "./virtual-time.ts";

const VIRTUAL_START_MS = Date.UTC(2026, 4, 14, 12);

/** A load in place of a schedule's own, and the platform that it is played on. */
export type VirtualLoad = Required<Pick<Limits, "slots" | "service_ms" | "global_in_flight" | "org_in_flight">> & {
  profile: Profile;
  shedding: "fixed" | "adaptive";
  tenants: number;
};

const STAGE = "explore";
const DRIVER = "virtual";
const LEAD_US = 100_000;
const DRAIN_MS = 20_000;
const POLL_MS = 20;
/**
 * Bounds a trial, in virtual time and in real time. With recovery and drain a schedule takes some thirty seconds of virtual time,
 * and a fraction of a second of real time.
 */
const TRIAL_MS = 600_000;

/** Injects each fault at its moment, heals it after its time, and reports each step as a line. */
const breakLinks = (
  time: VirtualTime,
  links: InProcess["links"],
  events: readonly FaultEvent[],
  beginMs: number,
  onLine: (line: FaultLine) => void,
): Promise<unknown> =>
  Promise.all(
    events.map(async ({ link, fault: name, atMs, forMs }) => {
      const proxy = links?.[link] as ProxyControl;
      const budgetMs = link === "limiter" ? LIMITS.limiter_budget_ms : LIMITS.key_service_budget_ms;
      const fault = makeFault(name, { budgetMs });
      const say = faultTeller(STAGE, link, fault, () => Math.round(time.nowMs() * 1000), onLine);
      await time.pause(beginMs + atMs - time.nowMs());
      say("injecting");
      await fault.put(proxy);
      const state = await proxy.read();
      say("injected", { took_effect: !state.enabled || state.toxics.length > 0 });
      await time.pause(forMs);
      say("healing");
      await fault.take(proxy);
      say("healed");
    }),
  );

const play = async (time: VirtualTime, parts: Parts, schedule: FaultSchedule, number: number, load?: VirtualLoad) => {
  const story = storyCalled(schedule.story);
  const isScheduled = load === undefined;
  const { profile, tenants: count, shedding = "fixed", ...stated }: Partial<VirtualLoad> = load ?? LIMITS;
  const network = createVirtualNetwork(time);
  const platform = await startInProcess({
    ...{ name: "virtual", parts, limits: { ...LIMITS, ...stated }, breakable: true, nowMs: time.nowMs },
    role: {
      ...{ network, shedding, stopDeadlineMs: 1_000, logLevel: isScheduled ? "info" : "error" },
      rateLimit: isScheduled ? { perS: LIMITS.rate_per_s, burst: LIMITS.burst } : null,
      inference: { seed: schedule.seed, tokens: isScheduled ? 6 : 2 },
    },
    tenants: loadTenants(count),
    target: { exclusive: true },
  });
  const clock: RunClock = { nowUs: () => Math.round(time.nowMs() * 1000), errorUs: 0 };
  const [target] = platform.targets as [Target];
  const view = viewOf(target);
  const lines: Line[] = [];
  const onLine = (line: Line): void => void lines.push(line);
  const idRun = `explore.${number}`;
  const how = { stage: STAGE, driver: DRIVER, idPrefix: `${idRun}.c`, onLine };
  const connect = connectorOf(network);
  const client = await openApiClient({ ...how, target, view, clock, secrets: createSecrets("."), connect });
  await client.book.prepare(story.sessions(view));
  time.waitsForReal = false;
  const startUs = clock.nowUs() + LEAD_US;
  const pressing = startPressing(
    {
      ...{ ...how, target, view },
      ...{ story: story.name, seed: schedule.seed, epochUs: 0, arrivals: "poisson" },
      profile: profile ?? constant(schedule.ratePerS, durationS(schedule)),
    },
    ...([story, client, clock, startUs, how] as const),
  );
  await Promise.all([breakLinks(time, platform.links, schedule.events, startUs / 1000, onLine), pressing.finished]);
  const { end, firstUnmade } = await pressing.finished;
  await client.close();
  const endMs = time.nowMs();
  const isDrained = (): boolean => {
    const gauges = platform.apis[0]?.gauges();
    return gauges !== undefined && gauges.unsettled === 0 && (gauges.in_flight === 0 || gauges.sockets === 0);
  };
  while (!isDrained() && time.nowMs() < endMs + DRAIN_MS) await time.pause(POLL_MS);
  const known = platform.facts();
  for (const org of story.noisy(view)) if (known.tenants[org] !== undefined) known.tenants[org].noisy = true;
  // Counts look-ups after the last heal, when no fault explains many of them.
  const healedUs = Math.max(0, ...lines.flatMap((line) => (line.type === "fault" ? [line.at_us] : [])));
  const lookups = platform.lookupsMs.filter((ms) => ms * 1000 > healedUs).length;
  const facts: StageFacts = {
    ...{ ...known, stage: STAGE, incidental: true, shedding, limits: { replicas: 1, ...stated } },
    ...{ started_at_ms: VIRTUAL_START_MS, recovery_deadline_ms: RECOVERY_MS },
    faults: schedule.events.length > 0,
    drained: isDrained(),
    counts: platform.counts(idRun),
    gauges: [platform.apis[0]?.gauges() as Gauges],
    ledger: platform.ledger(idRun),
    key_lookups: [{ from_us: healedUs, to_us: Math.round(endMs * 1000), count: lookups }],
  };
  await platform.close();
  const ordered = inOrder(lines);
  const claims = isScheduled ? judgeStage(INVARIANTS, facts, ordered, "") : [];
  const byOutcome: Trial["byOutcome"] = {};
  for (const line of ordered) if (line.type === "call") byOutcome[line.outcome] = (byOutcome[line.outcome] ?? 0) + 1;
  return {
    failed: claims.filter(({ verdict, level }) => verdict === "fail" && level === "must"),
    byOutcome,
    stage: STAGE,
    lines: ordered,
    facts,
    doubt: end.unmade === 0 ? null : `${end.unmade} of ${end.offered} calls could not be made: ${firstUnmade}`,
  };
};

export type Player = { play: PlaySchedule; close(): Promise<void> };

/** `mutant`: replaces the healthy platform. `load`: replaces the load of schedules; nothing is judged then. */
type Trials = { mutant: string | null; load?: VirtualLoad };

type Asked = Trials & { schedule: FaultSchedule };
type Said = { trial: Trial } | { trouble: string };

const MARK = "floodgate-virtual-trials";

const startThread = () => {
  const worker = new Worker(new URL(import.meta.url), { workerData: MARK, execArgv: [...NODE_ARGUMENTS] });
  const over = Promise.withResolvers<never>();
  over.promise.catch(() => undefined);
  worker.on("error", over.reject);
  worker.on("exit", () => over.reject(new Error("the thread of the trials has ended")));
  return { worker, over: over.promise };
};

/** Threads of closed players. The platform is loaded and compiled there, which halves the time of the next trial. */
const idle: ReturnType<typeof startThread>[] = [];

export const startVirtualPlayer = (trials: Trials): Player => {
  const thread = idle.pop() ?? startThread();
  const { worker, over } = thread;
  worker.ref();
  let [isPlaying, isClosed] = [false, false];
  return {
    play: async (schedule) => {
      isPlaying = true;
      worker.postMessage({ ...trials, schedule } satisfies Asked);
      const came = await inTime(Promise.race([once(worker, "message") as Promise<[Said]>, over]), TRIAL_MS);
      if (came === "late") throw new Error(`a trial took longer than ${TRIAL_MS} ms`);
      isPlaying = false;
      if ("trouble" in came[0]) throw new Error(came[0].trouble);
      return came[0].trial;
    },
    close: async () => {
      if (isPlaying) return void (await worker.terminate());
      if (!isClosed) idle.push(thread);
      isClosed = true;
      worker.unref();
    },
  };
};

if (workerData === MARK) {
  const time = installVirtualTime(VIRTUAL_START_MS);
  let number = 0;
  parentPort?.on("message", async ({ mutant, load, schedule }: Asked) => {
    number += 1;
    // Modules that load in the background load during the first trial.
    time.waitsForReal = number === 1;
    const parts = mutant === null ? HEALTHY : mutantNamed(mutant).spoil(HEALTHY);
    const said = await time.until(play(time, parts, schedule, number, load), TRIAL_MS).then(
      (trial): Said => ({ trial }),
      (error: Error): Said => ({ trouble: error.message }),
    );
    time.clear();
    parentPort?.postMessage(said);
  });
}
