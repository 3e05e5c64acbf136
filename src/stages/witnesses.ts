/**
 * Reads what shows a stage beside the driver's lines: what tenants had used before; after it counts, gauges and charges.
 * What a deployment does not show is absent.
 */

import { queryPrometheus } from "../client/control-call.ts";
import { chargeOf, readCounts, readGauges, readLedger, readLookups, readUsedOf } from "../client/control-planes.ts";
import { parseJson } from "../contract/envelopes.ts";
import { shapeOfBody } from "../contract/foreign-text.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { RunContext } from "../deployments/run-context.ts";
import type { LedgerLine } from "../history/line.ts";
import type { Measurement } from "../history/run-document.ts";
import { bareFacts, type Gauges, type StageFacts, type TenantFacts } from "../history/stage-facts.ts";
import { holdsMore } from "../invariants/given-back.ts";
import { runShellCommand } from "../supervision/bounded-child.ts";
import { pause, waitUntil } from "../supervision/waiting.ts";
import type { Target } from "../target/target.ts";
import { ROLE_POWERS } from "../workload/callers/target-view.ts";

type Stating = Pick<Deployment, "target" | "exclusive"> & { reference?: boolean };

export const statedFacts = (stage: string, { target, exclusive, reference }: Stating): StageFacts => ({
  ...bareFacts(stage),
  limits: target.limits ?? {},
  ...(target.stream_end === undefined ? {} : { stream_end: target.stream_end }),
  shedding: target.shedding ?? "unknown",
  ...(reference === true ? { reference } : {}),
  exclusive,
});

const LEDGER_MS = 60_000;
/** Output cut off here ends in half a line, which is rejected. */
const LEDGER_MOST_CHARS = 256 << 20;

export type Observed = Readonly<Record<string, number>>;

/** A JSON parser's message would quote the text. */
const jsonOf = <T>(text: string): T => {
  const json = parseJson(text);
  if (typeof json !== "object" || json === null)
    throw new Error(`expected a JSON object; got ${shapeOfBody(text, json)}`);
  return json as T;
};

type Observing = { values: Observed; troubles: string[] };

/** Reads every query once. What cannot be read becomes a note. */
export const observe = async ({ target }: Pick<Deployment, "target">): Promise<Observing> => {
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
  // Concurrently: one that does not answer costs its deadline once.
  await Promise.all(Object.entries(queries).map(look));
  return { values, troubles };
};

export const observedStage = (stage: string, after: Observing): { measurements: Measurement[]; notes: string[] } => ({
  measurements: Object.entries(after.values).map(([name, value]) => ({
    name: `observed_${name}`,
    stage,
    value,
    unit: "1",
    low: null,
    high: null,
    n: 1,
  })),
  notes: after.troubles.map((trouble) => `${stage}: ${trouble}`),
});

/**
 * Charges that the deployment's own command prints, as lines of `GET /ledger`: ours, and how many others since `sinceMs`.
 */
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
    what: "command of observers.ledger",
    cwd: folder,
    signal: AbortSignal.any([signal, AbortSignal.timeout(LEDGER_MS)]),
    onOutput: (text, from) => {
      if (from === "output" && printed.length < LEDGER_MOST_CHARS) printed += text;
    },
  });
  const lines = printed
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => chargeOf(jsonOf<LedgerLine>(line)));
  const isOurs = ({ request_id }: LedgerLine): boolean => request_id.startsWith(idPrefix);
  return { ours: lines.filter(isOurs), others: lines.filter((line) => !isOurs(line) && line.at >= sinceMs).length };
};

const DRAIN_DEADLINE_MS = 15_000;
const SHARED_DRAIN_MS = 1_000;

/**
 * Nothing unsettled, and nothing in flight or nobody connected: slots held for nobody are a leak, not a reason to wait.
 */
const isDrained = ({ in_flight, sockets, unsettled }: Gauges & { unsettled?: number }): boolean =>
  (in_flight === 0 || sockets === 0) && (unsettled ?? 0) === 0;

/** A pool lets go of what it no longer needs some seconds after it was last used. */
const LET_GO_MS = 6_000;

export const heldNow = async ({ target }: Pick<Deployment, "target">): Promise<Gauges[] | null> => {
  const apis = target.control?.api ?? [];
  return apis.length === 0 ? null : readGauges(apis).catch(() => null);
};

/** Waits until as little is open as before; otherwise the judge sees it. */
const untilLetGo = async (deployment: Pick<Deployment, "target">, before: readonly Gauges[]): Promise<void> => {
  const isLetGo = async (): Promise<boolean> => !holdsMore(before, (await heldNow(deployment)) ?? []);
  await waitUntil(isLetGo, { forMs: LET_GO_MS, pollMs: 100 });
};

/** Counts the key service's lookups from now on; `undefined` where it does not say or was restarted. */
export const watchLookups = async (
  { nowUs }: Pick<RunContext, "nowUs">,
  { control }: Target,
): Promise<() => Promise<StageFacts["key_lookups"]>> => {
  const read = async (): Promise<number | null> => (control?.keys ? readLookups(control.keys) : null);
  const [from_us, before] = [nowUs(), await read()];
  return async () => {
    const after = await read();
    if (before === null || after === null || after < before) return undefined;
    return [{ from_us, to_us: nowUs(), count: after - before }];
  };
};

const drain = async (apis: readonly string[], exclusive: boolean): Promise<boolean> => {
  const deadline = performance.now() + (exclusive ? DRAIN_DEADLINE_MS : SHARED_DRAIN_MS);
  for (;;) {
    const gauges = await readGauges(apis).catch(() => null);
    if (gauges?.every(isDrained)) return true;
    if (performance.now() > deadline) return false;
    await pause(50);
  }
};

export const readTenants = async (target: Target): Promise<Record<string, TenantFacts>> => {
  const known = new Map<string, { tier: TenantFacts["tier"]; allowance: number | undefined }>();
  for (const { org, tier, limit } of target.tenants ?? []) known.set(org, { tier: tier ?? null, allowance: limit });
  for (const [role, credential] of Object.entries(target.credentials ?? {})) {
    if (credential.org === undefined || known.has(credential.org) || !("key" in credential)) continue;
    if (credential.limit === undefined) continue;
    const tier = credential.tier ?? ROLE_POWERS[role]?.tier ?? null;
    known.set(credential.org, { tier, allowance: credential.limit });
  }
  const keys = target.control?.keys;
  const used = keys ? await readUsedOf(keys, [...known.keys()]) : new Map<string, number>();
  return Object.fromEntries(
    [...known].map(([org, { tier, allowance }]) => {
      const usedAtStart = used.get(org);
      return [org, { tier, allowance, used_at_start: usedAtStart }];
    }),
  );
};

type Witnesses = Pick<StageFacts, "drained" | "counts" | "gauges" | "ledger"> & {
  /** Entries of the ledger that are not of our calls; `null` where it shows ours alone. */
  others: number | null;
};

/** `idRun`: what the ids of the stage's calls begin with, up to the last dot; `sinceMs`: when it began, since 1970. */
export const readAllWitnesses = async (
  deployment: Pick<Deployment, "target" | "folder" | "exclusive">,
  idRun: string,
  sinceMs: number,
  signal: AbortSignal,
  heldBefore: readonly Gauges[] | null = null,
): Promise<Witnesses> => {
  const { target } = deployment;
  const apis = target.control?.api ?? [];
  const limiter = target.control?.limiter;
  const drained = apis.length > 0 && (await drain(apis, deployment.exclusive));
  if (drained && heldBefore !== null && deployment.exclusive) await untilLetGo(deployment, heldBefore);
  // Concurrently: each has a deadline of its own.
  const [counts, gauges, printed, shown] = await Promise.all([
    apis.length > 0 ? readCounts(apis, idRun).catch(() => null) : null,
    apis.length > 0 ? readGauges(apis).catch(() => null) : null,
    limiter ? null : readLedgerByCommand(deployment, `${idRun}.`, sinceMs, signal).catch(() => null),
    limiter ? readLedger(limiter, `${idRun}.`).catch(() => null) : null,
  ]);
  const ledger = shown ?? printed?.ours ?? null;
  return {
    others: printed?.others ?? null,
    drained,
    ...(counts === null ? {} : { counts }),
    ...(gauges === null ? {} : { gauges }),
    ...(ledger === null ? {} : { ledger }),
  };
};

export const readWitnesses = async (
  deployment: Pick<Deployment, "target" | "folder" | "exclusive">,
  idRun: string,
  signal: AbortSignal,
): Promise<Omit<Witnesses, "others">> => {
  const { others: _, ...own } = await readAllWitnesses(deployment, idRun, Number.POSITIVE_INFINITY, signal);
  return own;
};
