/** What the other addresses of the file answer: control planes, toxiproxy, Prometheus. Read only; no fault, no change. */
import { queryPrometheus } from "../../client/control-call.ts";
import { readGauges, readLedger, readUsed } from "../../client/control-planes.ts";
import { foreignId } from "../../contract/foreign-text.ts";
import type { Target } from "../../target/target.ts";
import { openToxiproxy } from "../../tools/toxiproxy.ts";
import { type Finding, finding } from "./finding.ts";
import { failedTrial } from "./key-trial.ts";
import type { SingleCalls } from "./single-calls.ts";

const TODO = "mend the address, or leave it out: what needs it is skipped then";

type Look = { readonly name: string; readonly calls: number; look(): Promise<string> };

const organizationOf = ({ credentials = {}, tenants = [] }: Target): string | undefined =>
  Object.values(credentials).find(({ org }) => org !== undefined)?.org ?? tenants[0]?.org;

const controlLooks = (target: Target): Look[] => {
  const { keys, limiter, api = [] } = target.control ?? {};
  const org = organizationOf(target);
  const looks: Look[] = api.map((url, at) => ({
    name: `control.api[${at}]`,
    calls: 1,
    look: async () => {
      const [gauges] = await readGauges([url]);
      return `gauges: ${gauges?.in_flight} in flight`;
    },
  }));
  if (typeof limiter === "string") {
    looks.push({
      name: "control.limiter",
      calls: 1,
      look: async () => `the ledger can be read (${(await readLedger(limiter, "doctor")).length} lines of ours)`,
    });
  }
  if (typeof keys === "string" && org !== undefined) {
    looks.push({
      name: "control.keys",
      calls: 1,
      look: async () => {
        return `knows ${org} (${(await readUsed(keys, org)) ?? "unknown"} map loads used)`;
      },
    });
  }
  return looks;
};

const NAMES_SHOWN = 20;
const namesShown = (names: readonly string[]): string => {
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  return names.length === 0 ? "none" : names.slice(0, NAMES_SHOWN).map(foreignId).join(", ") + more;
};

const toxiproxyLook = ({ toxiproxy }: Target): Look[] => {
  if (toxiproxy === undefined) return [];
  const look = async (): Promise<string> => {
    const server = openToxiproxy(toxiproxy.api_url);
    try {
      const [version, proxies] = [await server.version(), await server.list()];
      const there = new Map(proxies.map((proxy) => [proxy.name, proxy]));
      const wished = Object.entries(toxiproxy.proxies ?? {}).filter(([, name]) => name !== undefined);
      const absent = wished.filter(([, name]) => !there.has(name)).map(([link, name]) => `${link} (${name})`);
      if (absent.length > 0)
        throw new Error(`it has no proxy for ${absent.join(", ")}; it has ${namesShown([...there.keys()])}`);
      const faulty = wished.filter(([, name]) => {
        const proxy = there.get(name);
        return proxy !== undefined && (!proxy.enabled || proxy.toxics.length > 0);
      });
      if (faulty.length > 0) {
        throw new Error(`a fault is left on ${faulty.map(([, name]) => name).join(", ")}: remove it before a run`);
      }
      return `${version}, proxies ${wished.map(([, name]) => name).join(", ") || "none"} are whole`;
    } finally {
      await server.close();
    }
  };
  return [{ name: "toxiproxy", calls: 2, look }];
};

const prometheusLooks = ({ observers }: Target): Look[] =>
  Object.entries(observers?.prometheus?.queries ?? {}).map(([name, query]) => ({
    name: `prometheus, ${name}`,
    calls: 1,
    look: async () => {
      const { length: series } = await queryPrometheus(observers?.prometheus?.url ?? "", query);
      if (series === 0) throw new Error("the query finds no series");
      return `${series} series`;
    },
  }));

/** Commands of the file are its owner's to run: only named here. */
const notRun = ({ faults, fixtures, observers }: Target): Finding[] => {
  const named = [
    ...Object.keys(faults ?? {}).map((name) => `faults.${name}`),
    ...Object.entries(fixtures ?? {}).flatMap(([name, command]) => (command === null ? [] : [`fixtures.${name}`])),
    ...(observers?.ledger === undefined ? [] : ["observers.ledger"]),
  ];
  return named.length === 0 ? [] : [finding("skipped", "commands", `${named.join(", ")}: not run by doctor`)];
};

export const lookAtOthers = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const findings: Finding[] = [];
  for (const { name, calls: count, look } of [
    ...controlLooks(target),
    ...toxiproxyLook(target),
    ...prometheusLooks(target),
  ]) {
    try {
      calls.take(count);
    } catch (error) {
      findings.push(failedTrial(name, name, error));
      continue;
    }
    try {
      findings.push(finding("ok", name, await look()));
    } catch (error) {
      findings.push(finding("wrong", name, error instanceof Error ? error.message : String(error), TODO));
    }
  }
  return [...findings, ...notRun(target)];
};
