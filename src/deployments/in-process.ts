/** The reference deployment in this process, and what a judge may know of it: for trials, which spoil its parts, and virtual time. */
import { knowControlToken } from "../client/control-planes.ts";
import type { LedgerLine } from "../history/line.ts";
import type { StageFacts, TenantFacts } from "../history/stage-facts.ts";
import type { LimiterStore } from "../platform/limiter/store.ts";
import type { Parts } from "../platform/parts.ts";
import { type SeedTenant, storeSeed } from "../platform/seed.ts";
import { type Links, type RoleOptions, type Running, startRole } from "../platform/start-role.ts";
import type { Target } from "../target/target.ts";
import { referenceTarget, seedNow } from "./tenants.ts";

export type InProcess = Awaited<ReturnType<typeof startInProcess>>;

export const startInProcess = async (options: {
  name: string;
  parts: Parts;
  /** Options of every replica, and of the services. */
  role: RoleOptions;
  links?: (services: { keys: string; limiter: string }) => Links | Promise<Links>;
  replicas?: number;
  tenants: readonly SeedTenant[];
  /** What the target states besides addresses and credentials. */
  target: Partial<Target>;
  nowMs?: () => number;
}) => {
  const { name, replicas = 1, nowMs = () => performance.now() } = options;
  let store: LimiterStore | undefined;
  const lookupsMs: number[] = [];
  // Wraps the stores, so that judges can read what the parts keep, whatever a mutant has made of them.
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
  let log = "";
  const adminSecret = `admin-${name}`.padEnd(32, "a");
  const role: RoleOptions = {
    sessionSecret: `session-${name}`.padEnd(32, "s"),
    adminSecret,
    logTo: {
      write: (text) => {
        log += text;
      },
    },
    ...options.role,
  };
  const apis: Running[] = [];
  const start = async (...what: Parameters<typeof startRole>): Promise<Running> => {
    const running = await startRole(...what);
    apis.push(running);
    const control = running.urls.control?.api;
    if (control !== undefined) knowControlToken(control, running.controlToken as string);
    return running;
  };
  const close = async (): Promise<void> => {
    for (const api of apis.toReversed()) await api.close();
  };
  try {
    const first = await start("all", { ...role, links: options.links }, parts);
    const { keys, limiter } = first.urls as { keys: string; limiter: string };
    while (apis.length < replicas) await start("api", { ...role, keys, limiter }, parts);
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
    return {
      /** The replicas; the first one also runs the services. */
      apis: apis as readonly Running[],
      targets: apis.map(targetOf),
      tenants: Object.fromEntries(
        seed.organizations.map(({ id, tier, map_load_allowance: allowance = 0, map_loads_used: used_at_start }) => [
          id,
          { tier, allowance, used_at_start } as TenantFacts,
        ]),
      ),
      log: () => log,
      /** The moments at which the key service was asked for a record, by `nowMs`. */
      lookupsMs,
      counts: (idRun: string): NonNullable<StageFacts["counts"]> => first.api?.counts(idRun) ?? {},
      ledger: (idRun: string) => [...((store as LimiterStore).ledger(`${idRun}.`) as Iterable<LedgerLine>)],
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
};
