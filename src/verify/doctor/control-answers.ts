/** Reads what the file's other addresses answer: control planes, toxiproxy, Prometheus. Changes nothing. */
import { queryPrometheus } from "../../client/control-call.ts";
import { readGauges, readLedger, readUsed } from "../../client/control-planes.ts";
import { foreignId } from "../../contract/foreign-text.ts";
import type { Target } from "../../target/target.ts";
import { openToxiproxy } from "../../tools/toxiproxy.ts";
import { type Finding, finding } from "./finding.ts";
import { type SingleCalls, tried } from "./single-calls.ts";

const TODO = "mend the address, or leave it out: what needs it is skipped then";

const NAMES_SHOWN = 20;

const toxiproxyLook = async ({ api_url, proxies = {} }: NonNullable<Target["toxiproxy"]>): Promise<string> => {
  const server = openToxiproxy(api_url);
  try {
    const version = await server.version();
    const there = new Map((await server.list()).map((proxy) => [proxy.name, proxy]));
    const wished = Object.entries(proxies).filter(([, name]) => name !== undefined);
    const absent = wished.filter(([, name]) => !there.has(name)).map(([link, name]) => `${link} (${name})`);
    const shown = [...there.keys()].slice(0, NAMES_SHOWN).map(foreignId).join(", ") || "none";
    const more = there.size > NAMES_SHOWN ? ` and ${there.size - NAMES_SHOWN} more` : "";
    if (absent.length > 0) throw new Error(`it has no proxy for ${absent.join(", ")}; it has ${shown}${more}`);
    const names = wished.map(([, name]) => name);
    const faulty = names.filter((name) => there.get(name)?.enabled !== true || there.get(name)?.toxics.length !== 0);
    if (faulty.length > 0) throw new Error(`a fault is left on ${faulty.join(", ")}: remove it before a run`);
    return `${version}, proxies ${names.join(", ") || "none"} are whole`;
  } finally {
    await server.close();
  }
};

const notRun = ({ faults, fixtures, observers }: Target): Finding[] => {
  const named = [
    ...Object.keys(faults ?? {}).map((name) => `faults.${name}`),
    ...Object.entries(fixtures ?? {}).flatMap(([name, command]) => (command === null ? [] : [`fixtures.${name}`])),
    ...(observers?.ledger === undefined ? [] : ["observers.ledger"]),
  ];
  return named.length === 0 ? [] : [finding("skipped", "commands", `${named.join(", ")}: not run by doctor`)];
};

export const lookAtOthers = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const { control = {}, toxiproxy, observers, credentials = {}, tenants = [] } = target;
  const { keys, limiter, api = [] } = control;
  const findings: Finding[] = [];
  /** `count`: the calls that `seen` sends. `seen` returns what they show and throws what is wrong. */
  const look = async (name: string, count: number, seen: () => Promise<string>): Promise<void> => {
    const counted = async (): Promise<Finding[]> => {
      calls.take(count);
      const wrong = (error: Error): Finding => finding("wrong", name, error.message, TODO);
      return [await seen().then((text) => finding("ok", name, text), wrong)];
    };
    findings.push(...(await tried(name, name, counted)));
  };
  for (const [at, url] of api.entries())
    await look(`control.api[${at}]`, 1, async () => `gauges: ${(await readGauges([url]))[0]?.in_flight} in flight`);
  if (typeof limiter === "string") {
    const lines = async (): Promise<number> => (await readLedger(limiter, "doctor")).length;
    await look("control.limiter", 1, async () => `the ledger can be read (${await lines()} lines of ours)`);
  }
  const org = Object.values(credentials).find((one) => one.org !== undefined)?.org ?? tenants[0]?.org;
  if (typeof keys === "string" && org !== undefined) {
    const used = async (): Promise<unknown> => (await readUsed(keys, org)) ?? "unknown";
    await look("control.keys", 1, async () => `knows ${org} (${await used()} map loads used)`);
  }
  if (toxiproxy !== undefined) await look("toxiproxy", 2, () => toxiproxyLook(toxiproxy));
  const { url, queries } = observers?.prometheus ?? { url: "", queries: {} };
  for (const [name, query] of Object.entries(queries)) {
    await look(`prometheus, ${name}`, 1, async () => {
      const { length: series } = await queryPrometheus(url, query);
      if (series === 0) throw new Error("the query finds no series");
      return `${series} series`;
    });
  }
  return [...findings, ...notRun(target)];
};
