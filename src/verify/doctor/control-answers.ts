/** What the other addresses of the file answer: control planes, toxiproxy, Prometheus. Read only; no fault, no change. */
import { queryPrometheus } from "../../client/control-call.ts";
import { readGauges, readLedger, readUsed } from "../../client/control-planes.ts";
import { foreignId } from "../../contract/foreign-text.ts";
import type { Target } from "../../target/target.ts";
import { openToxiproxy } from "../../tools/toxiproxy.ts";
import { failedTrial } from "./advice.ts";
import { type Finding, finding } from "./finding.ts";
import type { SingleCalls } from "./single-calls.ts";

const TODO = "mend the address, or leave it out: what needs it is skipped then";

/** Sends `calls` calls and returns what they show; throws what is wrong. */
type Look = readonly [name: string, calls: number, look: () => Promise<string>];

const controlLooks = ({ control, credentials = {}, tenants = [] }: Target): Look[] => {
  const { keys, limiter, api = [] } = control ?? {};
  const org = Object.values(credentials).find((one) => one.org !== undefined)?.org ?? tenants[0]?.org;
  const looks = api.map((url, at): Look => {
    return [`control.api[${at}]`, 1, async () => `gauges: ${(await readGauges([url]))[0]?.in_flight} in flight`];
  });
  if (typeof limiter === "string") {
    const lines = async (): Promise<number> => (await readLedger(limiter, "doctor")).length;
    looks.push(["control.limiter", 1, async () => `the ledger can be read (${await lines()} lines of ours)`]);
  }
  if (typeof keys === "string" && org !== undefined) {
    const used = async (): Promise<unknown> => (await readUsed(keys, org)) ?? "unknown";
    looks.push(["control.keys", 1, async () => `knows ${org} (${await used()} map loads used)`]);
  }
  return looks;
};

const NAMES_SHOWN = 20;
const namesShown = (names: readonly string[]): string => {
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  return names.length === 0 ? "none" : names.slice(0, NAMES_SHOWN).map(foreignId).join(", ") + more;
};

const toxiproxyLook = async ({ api_url, proxies = {} }: NonNullable<Target["toxiproxy"]>): Promise<string> => {
  const server = openToxiproxy(api_url);
  try {
    const version = await server.version();
    const there = new Map((await server.list()).map((proxy) => [proxy.name, proxy]));
    const wished = Object.entries(proxies).filter(([, name]) => name !== undefined);
    const absent = wished.filter(([, name]) => !there.has(name)).map(([link, name]) => `${link} (${name})`);
    if (absent.length > 0)
      throw new Error(`it has no proxy for ${absent.join(", ")}; it has ${namesShown([...there.keys()])}`);
    const names = wished.map(([, name]) => name);
    const faulty = names.filter((name) => there.get(name)?.enabled !== true || there.get(name)?.toxics.length !== 0);
    if (faulty.length > 0) throw new Error(`a fault is left on ${faulty.join(", ")}: remove it before a run`);
    return `${version}, proxies ${names.join(", ") || "none"} are whole`;
  } finally {
    await server.close();
  }
};

const prometheusLooks = ({ observers }: Target): Look[] =>
  Object.entries(observers?.prometheus?.queries ?? {}).map(([name, query]) => {
    const look = async (): Promise<string> => {
      const { length: series } = await queryPrometheus(observers?.prometheus?.url ?? "", query);
      if (series === 0) throw new Error("the query finds no series");
      return `${series} series`;
    };
    return [`prometheus, ${name}`, 1, look];
  });

const notRun = ({ faults, fixtures, observers }: Target): Finding[] => {
  const named = [
    ...Object.keys(faults ?? {}).map((name) => `faults.${name}`),
    ...Object.entries(fixtures ?? {}).flatMap(([name, command]) => (command === null ? [] : [`fixtures.${name}`])),
    ...(observers?.ledger === undefined ? [] : ["observers.ledger"]),
  ];
  return named.length === 0 ? [] : [finding("skipped", "commands", `${named.join(", ")}: not run by doctor`)];
};

export const lookAtOthers = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const { toxiproxy } = target;
  const looks: Look[] = [
    ...controlLooks(target),
    ...(toxiproxy === undefined ? [] : [["toxiproxy", 2, () => toxiproxyLook(toxiproxy)] as const]),
    ...prometheusLooks(target),
  ];
  const findings: Finding[] = [];
  for (const [name, count, look] of looks) {
    try {
      calls.take(count);
    } catch (error) {
      findings.push(failedTrial(name, name, error));
      continue;
    }
    const looked = look().then((text) => finding("ok", name, text));
    findings.push(
      await looked.catch((error) =>
        finding("wrong", name, error instanceof Error ? error.message : String(error), TODO),
      ),
    );
  }
  return [...findings, ...notRun(target)];
};
