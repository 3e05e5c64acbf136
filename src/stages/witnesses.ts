/** Reads what a deployment, its observers and this machine show of a stage, and what others did meanwhile. The rest is absent. */

import { readdirSync, readlinkSync } from "node:fs";
import { cpus } from "node:os";
import { objectIn, queryPrometheus } from "../client/control-call.ts";
import { chargeOf, readCounts, readGauges, readLedger, readLookups, readUsedOf } from "../client/control-planes.ts";
import { isLoopbackHost } from "../contract/address.ts";
import type { LedgerLine } from "../contract/routes.ts";
import type { Deployment, RunContext } from "../deployments/deployment.ts";
import type { Driven } from "../drivers/driver.ts";
import type { Line } from "../history/line.ts";
import * as doc from "../history/run-document.ts";
import type { Sample } from "../history/series.ts";
import type { Histogram } from "../history/statistics/histogram.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { OTHERS_TENTH } from "../history/time-doubts.ts";
import { holdsMore } from "../invariants/given-back.ts";
import { mayHoldUntilUs } from "../invariants/in-flight-caps.ts";
import { runShellCommand } from "../supervision/child.ts";
import * as proc from "../supervision/processes.ts";
import { clockSetUs, pause, waitUntil, wallUs } from "../supervision/waiting.ts";
import type { Target } from "../target/target.ts";
import { ROLE_POWERS } from "../workload/callers/target-view.ts";

type Stating = Pick<Deployment, "target" | "exclusive"> & { reference?: boolean };

export const statedFacts = (stage: string, { target, exclusive, reference }: Stating): doc.StageFacts => ({
  ...doc.bareFacts(stage),
  limits: target.limits ?? {},
  stream_end: target.stream_end,
  shedding: target.shedding ?? "unknown",
  reference: reference === true ? true : undefined,
  exclusive,
});

export type Observed = Readonly<Record<string, number>>;

/** Reads every query of the observers once. What cannot be read becomes a note. */
export const observe = async ({ target }: Pick<Deployment, "target">) => {
  const { url, queries = {} } = target.observers?.prometheus ?? {};
  const values: Record<string, number> = {};
  const troubles: string[] = [];
  if (url === undefined) return { values, troubles };
  const look = async ([name, query]: [string, string]): Promise<void> => {
    try {
      const found = (await queryPrometheus(url, query)).filter(Number.isFinite);
      if (found.length === 0) troubles.push(`observers.prometheus.queries.${name} has no value`);
      else values[name] = found.reduce((sum, one) => sum + one, 0);
    } catch (error) {
      troubles.push(`observers.prometheus.queries.${name} could not be read: ${(error as Error).message}`);
    }
  };
  // Queries run concurrently, so that silent ones together cost one deadline.
  await Promise.all(Object.entries(queries).map(look));
  return { values, troubles };
};

const LEDGER_MS = 60_000;
/** The longest output of a ledger command; a longer one ends in half a line, which is rejected. */
const LEDGER_MOST_CHARS = 256 << 20;

/** Charges that the deployment's own command prints, as in `GET /ledger`: ours, and how many others since `sinceMs`. */
export const readLedgerByCommand = async (
  { target, folder }: Pick<Deployment, "target" | "folder">,
  idPrefix: string,
  sinceMs: number,
  signal: AbortSignal,
): Promise<{ ours: LedgerLine[]; others: number } | null> => {
  const command = target.observers?.ledger;
  if (command === undefined) return null;
  let printed = "";
  await runShellCommand(command, {
    ...{ what: "command of observers.ledger", cwd: folder },
    signal: AbortSignal.any([signal, AbortSignal.timeout(LEDGER_MS)]),
    onOutput: (text, from) => {
      if (from === "output" && printed.length < LEDGER_MOST_CHARS) printed += text;
    },
  });
  const lines = printed.split("\n").filter((line) => line.trim() !== "");
  const charges = lines.map((line) => chargeOf(objectIn(line) as LedgerLine));
  const { ours = [], others = [] } = Object.groupBy(charges, ({ request_id }) =>
    request_id.startsWith(idPrefix) ? "ours" : "others",
  );
  return { ours, others: others.filter(({ at }) => at >= sinceMs).length };
};

/** Deadline for connection pools to close idle connections, which takes some seconds after the last use. */
const LET_GO_MS = 6_000;

const heldNow = async ({ target }: Pick<Deployment, "target">, unread: (error: Error) => null = () => null) => {
  const apis = target.control?.api ?? [];
  return apis.length === 0 ? null : readGauges(apis).catch(unread);
};

/** Counts the key service's lookups from now on; `undefined` if it shows none or was restarted. */
const watchLookups = async ({ nowUs }: Pick<RunContext, "nowUs">, { control }: Target) => {
  const read = async (): Promise<number | null> => (control?.keys ? readLookups(control.keys) : null);
  const [from_us, before] = [nowUs(), await read()];
  return async (): Promise<doc.StageFacts["key_lookups"]> => {
    const after = await read();
    if (before === null || after === null || after < before) return undefined;
    return [{ from_us, to_us: nowUs(), count: after - before }];
  };
};

const DRAIN_MS = { exclusive: 15_000, shared: 1_000 };

/** Reports whether no charge is unsettled and no call or no connection is open: a slot without one is a leak. */
const isDrained = ({ in_flight, sockets, unsettled = 0 }: doc.Gauges & { unsettled?: number }): boolean =>
  (in_flight === 0 || sockets === 0) && unsettled === 0;

export const readTenants = async (target: Target): Promise<Record<string, doc.TenantFacts>> => {
  const known = new Map<string, doc.TenantFacts>();
  for (const { org, tier = null, limit } of target.tenants ?? []) known.set(org, { tier, allowance: limit });
  for (const [role, credential] of Object.entries(target.credentials ?? {})) {
    if (!("key" in credential)) continue;
    const { org, limit, tier = ROLE_POWERS[role]?.tier ?? null } = credential;
    if (org !== undefined && limit !== undefined && !known.has(org)) known.set(org, { tier, allowance: limit });
  }
  const keys = target.control?.keys;
  const used = keys ? await readUsedOf(keys, [...known.keys()]) : new Map<string, number>();
  return Object.fromEntries([...known].map(([org, facts]) => [org, { ...facts, used_at_start: used.get(org) }]));
};

/**
 * `idRun`: what the ids of the stage's calls begin with, up to the last dot; `sinceMs`: when the stage began, since
 * 1970. Returns in `others` the number of ledger entries that are not ours; `null` if the ledger shows ours alone; in
 * `troubles` what the target file names and could not be read: judges take it for absent, so a note tells it.
 */
export const readAllWitnesses = async (
  deployment: Pick<Deployment, "target" | "folder" | "exclusive">,
  idRun: string,
  sinceMs: number,
  signal: AbortSignal,
  heldBefore: readonly doc.Gauges[] | null = null,
) => {
  const { api: apis = [], limiter } = deployment.target.control ?? {};
  const until = async (isMet: (held: readonly doc.Gauges[]) => boolean, forMs: number): Promise<boolean> => {
    let held: readonly doc.Gauges[] | null = null;
    const look = async (): Promise<boolean> => {
      held = await heldNow(deployment);
      // A cancelled job ends the API as well: once the run is stopped, nothing waits for what is gone.
      return held === null ? signal.aborted : isMet(held);
    };
    if (apis.length === 0) return false;
    // The first look may take longer than `forMs`, as long as its own deadline allows.
    return ((await look()) || (await waitUntil(look, { forMs, pollMs: 50 })).met) && held !== null;
  };
  const drained = await until((held) => held.every(isDrained), DRAIN_MS[deployment.exclusive ? "exclusive" : "shared"]);
  if (drained && heldBefore !== null && deployment.exclusive) {
    await until((held) => !holdsMore(heldBefore, held), LET_GO_MS);
  }
  const troubles: string[] = [];
  const unread = (what: string) => (error: Error) => {
    troubles.push(`${what} could not be read: ${error.message}`);
    return null;
  };
  const [counts, gauges, printed, shown] = await Promise.all([
    apis.length > 0 ? readCounts(apis, idRun).catch(unread("counts of control.api")) : null,
    heldNow(deployment, unread("gauges of control.api")),
    limiter ? null : readLedgerByCommand(deployment, `${idRun}.`, sinceMs, signal).catch(unread("observers.ledger")),
    limiter ? readLedger(limiter, `${idRun}.`).catch(unread("the ledger of control.limiter")) : null,
  ]);
  const ledger = shown ?? printed?.ours;
  const own = { drained, counts: counts ?? undefined, gauges: gauges ?? undefined, ledger };
  return { own, others: printed?.others ?? null, troubles };
};

/** What is stated and shown of calls without a disturbance, read when they have ended; `notes`: what could not be read. */
export const witnessedFacts = async (
  { epochUs, signal }: Pick<RunContext, "epochUs" | "signal">,
  deployment: Deployment,
  stage: string,
  idRun: string,
): Promise<{ facts: doc.StageFacts; notes: string[] }> => {
  const { own, troubles } = await readAllWitnesses(deployment, idRun, Number.POSITIVE_INFINITY, signal);
  const facts = { ...statedFacts(stage, deployment), started_at_ms: (epochUs + clockSetUs()) / 1000, ...own };
  return { facts, notes: troubles.map((trouble) => `${stage}: ${trouble}`) };
};

const CHANGES = ["restarts", "replicas"];

/** Slow Prometheus setups scrape once a minute, so a change of ours may show as late. */
const SHOWN_WITHIN_MS = 60_000;

/** Changes that a disturbance may have caused and the observers had not shown by the end of its stage. */
type OwedChanges = { names: readonly string[]; untilMs: number };

/** A change after a disturbance of ours began is ours, because it may restart processes; any other is external. */
export const changesSeen = (
  /** `atDisturbance`: when a disturbance of ours began; absent where there was none. */
  { before, atDisturbance, after }: { before: Observed; atDisturbance?: Observed; after: Observed },
  owed: OwedChanges | undefined,
  nowMs: number,
): { taints: string[]; notes: string[]; owed?: OwedChanges } => {
  const seen: ReturnType<typeof changesSeen> = { taints: [], notes: [] };
  const stillOwed = new Set(owed === undefined || nowMs > owed.untilMs ? [] : owed.names);
  const unchanged: string[] = [];
  for (const name of CHANGES) {
    const change = (from: Observed, to: Observed): string | null =>
      from[name] === undefined || to[name] === undefined || from[name] === to[name]
        ? null
        : `${name} of the deployment went from ${from[name]} to ${to[name]} meanwhile`;
    const foreign = change(before, atDisturbance ?? after);
    const isLate = foreign !== null && stillOwed.delete(name);
    if (isLate) seen.notes.push(`${foreign}, which a fault of an earlier stage explains`);
    else if (foreign !== null) seen.taints.push(`${foreign}, and not by us`);
    if (atDisturbance === undefined) continue;
    const own = change(atDisturbance, after);
    if (own === null) unchanged.push(name);
    else seen.notes.push(`${own}, which what was done to it explains`);
  }
  if (atDisturbance !== undefined) seen.owed = { names: unchanged, untilMs: nowMs + SHOWN_WITHIN_MS };
  else if (stillOwed.size > 0 && owed !== undefined) seen.owed = { names: [...stillOwed], untilMs: owed.untilMs };
  return seen;
};

/** What ledger and meters show of charges by others, and where they differ; on an exclusive deployment only. */
export const comparedCharges = (
  { exclusive }: Pick<Deployment, "exclusive">,
  seen: {
    before: Record<string, doc.TenantFacts>;
    after: Record<string, doc.TenantFacts>;
    ledger: readonly LedgerLine[] | undefined;
    /** The number of ledger lines during the stage that are not ours; `null` if the ledger shows ours alone. */
    others: number | null;
  },
): { taints: string[]; differ?: doc.StageFacts["charges_differ"] } => {
  if (!exclusive) return { taints: [] };
  if (seen.others !== null && seen.others > 0) {
    const what = `the ledger has ${seen.others} entries with ids that are not ours`;
    return { taints: [`${what}: others call this deployment, stated to be exclusive, or it keeps ids of its own`] };
  }
  const ours = new Map<string, number>();
  for (const { org, meter, kind, amount } of seen.ledger ?? []) {
    if (meter === "map_loads") ours.set(org, (ours.get(org) ?? 0) + (kind === "charge" ? amount : -amount));
  }
  // A ledger may name organizations in its own way.
  if (seen.ledger === undefined || (ours.size > 0 && !ours.keys().some((org) => org in seen.before))) {
    return { taints: [] };
  }
  const differ = Object.entries(seen.before).flatMap(([org, { used_at_start: was = Number.NaN }]) => {
    const metered = (seen.after[org]?.used_at_start ?? Number.NaN) - was;
    const ledger = ours.get(org) ?? 0;
    // A meter that went back began a new month.
    return metered >= 0 && metered !== ledger ? [{ org, metered, ledger }] : [];
  });
  const taints = differ
    .filter(({ metered, ledger }) => metered > ledger)
    .map(({ org, metered, ledger }) => {
      const what = `${org} was charged ${metered} map loads meanwhile, ${ledger} of them by our calls as the ledger has it`;
      return `${what}: others call this deployment, stated to be exclusive, or the ledger or map_loads_used is wrong`;
    });
  return { taints, differ: differ.length === 0 ? undefined : differ };
};

/**
 * For each call that has ended and may hold its slot still: the time of the run at which it is believed to be free. All
 * stages of a deployment share a budget, which is the key.
 */
const heldSlots = new WeakMap<Deployment["budget"], number[]>();

/** Follows which calls may hold a slot when a stage has ended. `before`: those of earlier stages. */
export const watchHeldSlots = async (deployment: Pick<Deployment, "budget" | "target">, nowUs: number) => {
  const { budget } = deployment;
  const open = (heldSlots.get(budget) ?? []).filter((us) => us > nowUs);
  const isFree = open.length > 0 && (await heldNow(deployment))?.every(isDrained) === true;
  const before = isFree ? [] : open;
  const held: number[] = [];
  return {
    before: before.length === 0 ? undefined : before,
    see: (line: Line): void => {
      const untilUs = line.type === "call" ? mayHoldUntilUs(line) : null;
      if (untilUs !== null) held.push(untilUs);
    },
    /** `drained`: gauges showed that nothing is held. */
    end: (drained: boolean): void => void heldSlots.set(budget, drained ? [] : [...before, ...held]),
  };
};

/** Changes that observers have yet to show, keyed by the budget that all stages of a deployment share. */
const owedChanges = new WeakMap<Deployment["budget"], OwedChanges>();

/** Observes a stage from now on. `idRun`: what the ids of its calls begin with, up to the last dot. */
export const openWitness = async (
  context: Pick<RunContext, "nowUs" | "signal">,
  deployment: Deployment,
  idRun: string,
  about: { tenants: Record<string, doc.TenantFacts>; isFaulted: boolean; countsLookups: boolean },
) => {
  const { budget, target, embedded } = deployment;
  const { values: before } = await observe(deployment);
  const heldBefore = about.isFaulted ? await heldNow(deployment) : null;
  const lookups = about.countsLookups ? await watchLookups(context, target) : null;
  const sinceMs = Date.now();
  let atDisturbance: Observed | undefined;
  return {
    /** Call this just before a disturbance acts on the deployment. */
    disturbed: async (): Promise<void> => {
      atDisturbance = (await observe(deployment)).values;
    },
    /** `interference`: what others did meanwhile, as doubts; notes about changes by our own faults and what could not be read. */
    end: async () => {
      const { own, others, troubles } = await readAllWitnesses(deployment, idRun, sinceMs, context.signal, heldBefore);
      const key_lookups = await lookups?.();
      const seen: Partial<doc.StageFacts> = { gauges_before: heldBefore ?? undefined, key_lookups, ...own };
      const observed = await observe(deployment);
      const changes = { before, atDisturbance, after: observed.values };
      const { taints, notes, owed } = changesSeen(changes, owedChanges.get(budget), wallUs() / 1000);
      if (owed === undefined) owedChanges.delete(budget);
      else owedChanges.set(budget, owed);
      if (!embedded && seen.drained) {
        const after = await readTenants(target);
        const charged = comparedCharges(deployment, { before: about.tenants, after, ledger: own.ledger, others });
        taints.push(...charged.taints);
        seen.charges_differ = charged.differ;
      }
      return { seen, observed, interference: { taints, notes: [...notes, ...troubles] } };
    },
  };
};

// Measures from /proc (Linux) who used this machine's cores during a stage: the run, a local deployment or others.

const EVERY_MS = 500;

const gaugeValues = (gauges: readonly doc.Gauges[]): Sample["values"] => {
  const over = (name: "in_flight" | "sockets" | "rss_bytes" | "event_loop_lag_ms_p99", joined = sumOf) => {
    const shown = gauges.flatMap((gauge) => gauge[name] ?? []);
    return shown.length === 0 ? undefined : joined(shown);
  };
  return {
    ...{ in_flight: over("in_flight") ?? 0, sockets: over("sockets"), rss_bytes: over("rss_bytes") },
    event_loop_lag_ms_p99: over("event_loop_lag_ms_p99", (lags) => Math.max(...lags)),
  };
};

const usedNow = (pids: readonly number[]) => {
  const used = pids.map((pid) => [pid, proc.cpuTimeMs(pid)] as const);
  const byPid = new Map(used.filter((one): one is readonly [number, number] => one[1] !== null));
  return { atMs: performance.now(), byPid, machine: proc.machineTime() };
};
type Used = ReturnType<typeof usedNow>;

const share = (part: number, whole: number): number => Math.round((1000 * part) / whole) / 1000;

const usedValues = ({ machine: then, ...was }: Used, { machine: now, ...is }: Used): Sample["values"] => {
  const ms = sumOf([...is.byPid].map(([pid, used]) => used - (was.byPid.get(pid) ?? 0)));
  const all = then === null || now === null ? 0 : now.all - then.all;
  const of = (part: "steal" | "idle"): number => (now?.[part] ?? 0) - (then?.[part] ?? 0);
  return {
    generator_cores: is.byPid.size === 0 ? undefined : share(ms, is.atMs - was.atMs),
    host_steal: all > 0 ? share(of("steal"), all) : undefined,
    host_busy: all > 0 ? share(all - of("idle"), all) : undefined,
  };
};

/** Starts sampling and returns the function that stops it. Leaves out unreadable gauges; judges read their own. */
export const sampleStage = (
  { nowUs, sample }: Pick<RunContext, "nowUs" | "sample">,
  stage: string,
  apis: readonly string[],
  pids: readonly number[],
): (() => void) => {
  const over = new AbortController();
  const { signal } = over;
  const sampling = async (): Promise<void> => {
    for (let was = usedNow(pids); !signal.aborted; ) {
      await pause(EVERY_MS, signal);
      const is = usedNow(pids);
      const at_us = nowUs();
      const gauges = apis.length === 0 ? null : await readGauges(apis).catch(() => null);
      const all = Object.entries({ ...usedValues(was, is), ...(gauges && gaugeValues(gauges)) });
      const values = all.filter(([, value]) => value !== undefined);
      was = is;
      if (!signal.aborted && values.length > 0)
        sample({ type: "sample", stage, at_us, values: Object.fromEntries(values) });
    }
  };
  void sampling();
  return () => over.abort();
};

const SHARES = [0.5, 0.75, 0.9, 0.99, 0.999, 1] as const;

type CoresUsed = Pick<doc.StageHost, "cores" | "target_cores" | "other_cores" | "idle_other_cores">;
type About = {
  driven: Driven;
  used: CoresUsed;
  measurements: readonly doc.Measurement[];
  calibration: doc.Calibration[];
};

/** `lag`: how late calls left, in microseconds. */
export const stageHost = (lag: Histogram, { driven, used, measurements, calibration }: About): doc.StageHost => ({
  host: driven.host,
  ...used,
  calls: lag.n,
  lag_ms: lag.n === 0 ? [] : SHARES.map((share) => [share, (lag.quantile(share) as number) / 1000]),
  rate_error: measurements.find(({ name }) => name === "rate_error")?.value ?? null,
  generator: driven.problems.flatMap(({ about, reason }) => (about === "time" ? [reason] : [])),
  calibration,
});

export const treeOf = (root: number, all: ReadonlyMap<number, proc.ProcessStat>): Set<number> => {
  const tree = new Set([root]);
  for (let before = 0; before !== tree.size; ) {
    before = tree.size;
    for (const [pid, { parent }] of all) if (tree.has(parent)) tree.add(pid);
  }
  return tree;
};

const listenerOn = (port: number, all: ReadonlyMap<number, proc.ProcessStat>): number | null => {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  const listening = new RegExp(`^\\s*\\d+: \\w+:${hex} \\w+:0000 0A (?:\\S+ +){5}(\\d+)`, "m");
  const inode = (listening.exec(proc.readProc("/proc/net/tcp") ?? "") ??
    listening.exec(proc.readProc("/proc/net/tcp6") ?? ""))?.[1];
  if (inode === undefined) return null;
  for (const pid of all.keys()) {
    try {
      for (const fd of readdirSync(`/proc/${pid}/fd`)) {
        if (readlinkSync(`/proc/${pid}/fd/${fd}`) === `socket:[${inode}]`) return pid;
      }
    } catch {}
  }
  return null;
};

export const portHere = (url: string): number | null => {
  const { hostname, port, protocol } = new URL(url);
  return isLoopbackHost(hostname) ? Number(port || (protocol === "https:" ? 443 : 80)) : null;
};

/** The CPU ticks of these processes and of their children that have ended and were waited for. */
const ticksOf = (pids: readonly number[], of: ReadonlyMap<number, proc.ProcessStat>): number =>
  pids.reduce((sum, pid) => sum + (of.get(pid)?.ticks ?? 0) + (of.get(pid)?.childTicks ?? 0), 0);

/** `baseUrl`: the deployment's, `null` if there is none. The returned function tells the cores used since. */
export const watchMachineUse = (baseUrl: string | null) => {
  const before = proc.statsHere();
  const port = baseUrl === null ? null : portHere(baseUrl);
  const listener = port === null ? null : listenerOn(port, before);
  // What others do on cores that neither the run nor the deployment may use takes nothing from them.
  const usable = proc.coresOf("self").union(listener === null ? new Set<number>() : proc.coresOf(listener));
  const cores = usable.size || cpus().length;
  const machineNow = () => proc.machineTime(usable.size === 0 ? undefined : usable);
  const machineBefore = machineNow();
  const beganMs = performance.now();
  return (): CoresUsed => {
    const after = proc.statsHere();
    const machine = machineNow();
    const seconds = (performance.now() - beganMs) / 1000;
    if (machineBefore === null || machine === null || seconds <= 0)
      return { cores, target_cores: null, other_cores: null };
    const inCores = (ticks: number): number => Math.max(0, ticks / proc.TICKS_PER_S / seconds);
    const ours = treeOf(process.pid, after);
    // Processes that started during the stage, such as the generator, are not the deployment's.
    const listening = listener === null ? new Set<number>() : treeOf(listener, before);
    const target = [...listening].filter((pid) => pid !== process.pid && after.has(pid));
    const foreign = target.filter((pid) => !ours.has(pid));
    const since = (part: keyof proc.MachineTime): number => machine[part] - machineBefore[part];
    const usedBy = (pids: Iterable<number>, then = pids) => ticksOf([...pids], after) - ticksOf([...then], before);
    const used = usedBy(ours, treeOf(process.pid, before)) + usedBy(foreign);
    const isCounted = (pid: number): boolean => ours.has(pid) || target.includes(pid);
    // A process of the lowest priority takes no time from others, so it does not count.
    const isHere = (pid: number): boolean => usable.size === 0 || usable.has(after.get(pid)?.core ?? 0);
    const takesNothing = (pid: number): boolean => !isCounted(pid) && isHere(pid);
    const givenWay = proc.givenWayTicks(proc.givingWay(before), proc.givingWay(after), takesNothing);
    return {
      cores,
      target_cores: listener === null ? null : inCores(usedBy(target)),
      other_cores: inCores(since("all") - since("idle") - since("steal") - used - givenWay),
    };
  };
};

export const IDLE_LOOK_MS = 250;
/** A deployment may go on working for this long after its last answer. */
const SETTLE_MS = 750;

/**
 * The share of all cores that other programs use, watched while none of our calls is under way: then it is not the work of a
 * deployment behind a local proxy or in a container, whose processes are not found by the port. If it is more than `most`, a
 * second look counts. `null` if unknown.
 */
export const othersOnIdleMachine = async (baseUrl: string, most: number, signal: AbortSignal) => {
  const look = async (): Promise<number | null> => {
    const ended = watchMachineUse(baseUrl);
    await pause(IDLE_LOOK_MS, signal);
    const { other_cores: used, cores } = ended();
    return used === null ? null : used / cores;
  };
  const first = await look();
  if (first === null || first <= most) return first;
  await pause(SETTLE_MS, signal);
  return look();
};

/** Whose work it was that other programs did in a stage: looks only where it was enough to matter. */
export const idleOtherCores = async ({ other_cores: used, cores }: CoresUsed, baseUrl: string, signal: AbortSignal) => {
  const share = (used ?? 0) > OTHERS_TENTH * cores ? await othersOnIdleMachine(baseUrl, OTHERS_TENTH, signal) : null;
  return share === null ? {} : { idle_other_cores: share * cores };
};
