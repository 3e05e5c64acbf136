/** Runs the reference deployment in this process: for trials, which spoil its parts, and for virtual time. */

import { knowControlToken } from "../client/control-planes.ts";
import type { LedgerLine } from "../contract/routes.ts";
import { REFERENCE_STREAM_ENDS } from "../contract/streams.ts";
import type { Limits, StageFacts, TenantFacts } from "../history/run-document.ts";
import type { LimiterStore } from "../platform/limiter/store.ts";
import type { Parts } from "../platform/parts.ts";
import { type SeedTenant, storeSeed } from "../platform/seed.ts";
import { type RoleOptions, type Running, startRole } from "../platform/start-role.ts";
import type { Target } from "../target/target.ts";
import { linkBefore, type StandInLink } from "../tools/stand-in-proxy.ts";
import { referenceTarget, seedNow } from "./tenants.ts";

export type InProcess = Awaited<ReturnType<typeof startInProcess>>;

/** Links between the API and its two services, which can be broken like those of a toxiproxy. */
type Breakable = { keys: StandInLink; limiter: StandInLink };

export const startInProcess = async (options: {
  name: string;
  parts: Parts;
  limits: Limits;
  /** Further options of every replica and service; `inference` adds to `slots` and `service_ms` of `limits`. */
  role: RoleOptions;
  breakable?: boolean;
  tenants: readonly SeedTenant[];
  /** What the target states besides addresses and credentials. */
  target: Partial<Target>;
  nowMs?: () => number;
}) => {
  const { name, limits, nowMs = () => performance.now() } = options;
  let store: LimiterStore | undefined;
  const lookupsMs: number[] = [];
  // Wraps the stores, so that judges can read what the parts keep, even those of a mutant.
  const parts: Parts = {
    ...options.parts,
    limiterStore: (healthy) => {
      store = options.parts.limiterStore(healthy);
      return store;
    },
    keyStore: (healthy) => {
      const keys = options.parts.keyStore(healthy);
      const find: typeof keys.find = (lookup) => {
        lookupsMs.push(nowMs());
        return keys.find(lookup);
      };
      return { ...keys, find };
    },
  };
  const log: string[] = [];
  const adminSecret = `admin-${name}`.padEnd(32, "a");
  const { inference, network } = options.role;
  const role: RoleOptions = {
    sessionSecret: `session-${name}`.padEnd(32, "s"),
    adminSecret,
    logTo: { write: (text) => void log.push(text) },
    ...{ globalInFlight: limits.global_in_flight, orgInFlight: limits.org_in_flight },
    ...{ limiterBudgetMs: limits.limiter_budget_ms, keyServiceBudgetMs: limits.key_service_budget_ms },
    ...options.role,
    inference: { slots: limits.slots, serviceMs: limits.service_ms, ...inference },
  };
  const apis: Running[] = [];
  await using starting = new AsyncDisposableStack();
  let links: Breakable | null = null;
  const breakable = async (services: Record<keyof Breakable, string>): Promise<Record<keyof Breakable, string>> => {
    const keys = await linkBefore(services.keys, "keys", network);
    const limiter = await linkBefore(services.limiter, "limiter", network);
    links = { keys, limiter };
    for (const link of [keys, limiter]) starting.defer(() => link.setEnabled(false));
    return { keys: keys.url(), limiter: limiter.url() };
  };
  const start = async (...what: Parameters<typeof startRole>): Promise<Running> => {
    const running = await startRole(...what);
    apis.push(running);
    starting.defer(() => running.close());
    const control = running.urls.control?.api;
    if (control !== undefined) knowControlToken(control, running.controlToken as string);
    return running;
  };
  const first = await start("all", { ...role, links: options.breakable ? breakable : undefined }, parts);
  const { keys, limiter } = first.urls as { keys: string; limiter: string };
  while (apis.length < (limits.replicas ?? 1)) await start("api", { ...role, keys, limiter }, parts);
  const seed = seedNow(options.tenants, adminSecret);
  await storeSeed(seed, first.administration as NonNullable<Running["administration"]>);
  const control = first.urls.control?.api;
  const targetOf = ({ urls }: Running): Target =>
    referenceTarget(urls.api as string, seed, {
      name,
      control:
        control === undefined ? undefined : { keys: control, limiter: control, api: [urls.control?.api as string] },
      ...options.target,
    });
  const tenants = seed.organizations.map((org) => {
    const { id, tier, map_load_allowance: allowance = 0, map_loads_used: used_at_start } = org;
    return [id, { tier, allowance, used_at_start } as TenantFacts] as const;
  });
  const started = starting.move();
  return {
    /** The replicas; the first one also runs the services. */
    apis: apis as readonly Running[],
    targets: apis.map(targetOf),
    /** `null` unless `breakable`. */
    links: links as Breakable | null,
    /** What judges know of the deployment beside what a stage observes. */
    facts: (): Omit<StageFacts, "stage" | "shedding" | "faults" | "drained"> => ({
      ...{ reference: true, exclusive: true, limits, stream_end: REFERENCE_STREAM_ENDS },
      tenants: Object.fromEntries(tenants),
      texts: [{ name: "the platform's log", text: log.join("") }],
    }),
    /** When the API looked up a key record, in milliseconds by `nowMs`. */
    lookupsMs,
    counts: (idRun: string): NonNullable<StageFacts["counts"]> => first.api?.counts(idRun) ?? {},
    ledger: (idRun: string) => [...((store as LimiterStore).ledger(`${idRun}.`) as Iterable<LedgerLine>)],
    close: () => started.disposeAsync(),
  };
};
