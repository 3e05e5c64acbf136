/** Reads counts, gauges and ledger, independent of the callers' observations. Values of a wrong type are left out. */

import { foreignId, foreignName, shapeOf, shapeOfBody } from "../contract/foreign-text.ts";
import { isListed, parseJson } from "../contract/refusals.ts";
import type { LedgerLine } from "../contract/routes.ts";
import type { Counts, Gauges } from "../history/run-document.ts";
import { eachAtOnce } from "../supervision/waiting.ts";
import { bearer, CONTROL_CALL_MS, type ControlCall, callControl } from "./control-call.ts";

const LEDGER: ControlCall = { withinMs: 30_000, silentMs: CONTROL_CALL_MS, mostBytes: 256 << 20 };
const ALL_ORGS_MS = 20_000;
const ORGS_AT_ONCE = 16;

const controlError = (url: string, what: string): Error =>
  new Error(`the control plane at ${url} did not answer as expected: ${what}`);

const known = new Map<string, string>();

/** Registers the token of a control plane of this process or a child, which is in no file. */
export const knowControlToken = (url: string, token: string): void => void known.set(new URL(url).origin, token);

const call = async (url: string, limits: ControlCall = {}): Promise<string> => {
  const failed = (what: string): Error => controlError(url, what);
  const otherwise = process.env.FLOODGATE_CONTROL_TOKEN;
  const { status, text } = await bearer(url, known.get(new URL(url).origin), { otherwise })
    .then((headers) => callControl(url, { ...limits, headers }))
    .catch((error: Error) => Promise.reject(failed(error.message)));
  if (status === 401) {
    throw failed(
      "status 401: set FLOODGATE_CONTROL_TOKEN to the token of its `serve`; a generated token can be read only by the same user on the same machine",
    );
  }
  if (status >= 300) throw failed(`status ${status} with ${shapeOfBody(text, parseJson(text))}`);
  return text;
};

const jsonOf = <T>(url: string, text: string): T => {
  const json = parseJson(text);
  if (json === undefined) throw controlError(url, shapeOfBody(text, json));
  return json as T;
};

export const controlGet = async <T>(url: string): Promise<T> => jsonOf(url, await call(url));
export const controlSend = async <T>(method: "POST" | "PATCH" | "PUT", url: string, body: unknown): Promise<T> => {
  const text = await call(url, { method, body });
  return text === "" ? ({} as T) : jsonOf(url, text);
};

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

/** More than any deployment has; the rest is dropped. */
const COUNTS_MOST = 1_000;
const ORGS_MOST = 100_000;

/** The outcome in the history's terms, with unlisted codes made safe. */
const countedName = (outcome: string): string => {
  const [, status = "", code = ""] = /^(\d{3})(?: (.*))?$/s.exec(outcome) ?? [];
  if (status === "") return /^(?:edge \d{3}|indeterminate)$/.test(outcome) ? outcome : foreignName(outcome);
  return code === "" || isListed(outcome) ? outcome : `${status} ${foreignName(code)}`;
};

/** Rebuilds a foreign ledger's line from ids, words and numbers. */
export const chargeOf = (line: LedgerLine): LedgerLine => ({
  charge_id: foreignId(String(line.charge_id)),
  request_id: foreignId(String(line.request_id)),
  org: foreignId(String(line.org)),
  key: foreignId(String(line.key)),
  meter: foreignName(String(line.meter)) as LedgerLine["meter"],
  kind: foreignName(String(line.kind)) as LedgerLine["kind"],
  amount: Number(line.amount),
  window: foreignId(String(line.window)),
  at: Number(line.at),
});

export const readCounts = async (apis: readonly string[], run: string): Promise<Counts> => {
  const sum: Counts = {};
  const ofEach = apis.map((api) => controlGet<Counts>(`${api}/counts?run=${encodeURIComponent(run)}`));
  for (const counts of await Promise.all(ofEach)) {
    for (const [outcome, byOrg] of Object.entries(counts).slice(0, COUNTS_MOST)) {
      const name = countedName(outcome);
      sum[name] ??= {};
      const row = sum[name];
      for (const [org, n] of Object.entries(byOrg ?? {}).slice(0, ORGS_MOST)) {
        if (isNumber(n)) row[foreignId(org)] = (row[foreignId(org)] ?? 0) + n;
      }
    }
  }
  return sum;
};

type GaugesRead = Gauges & { unsettled?: number };

const GAUGES = [
  ...(["sockets", "open_streams", "link_sockets", "event_loop_lag_ms_p99", "rss_bytes"] as const),
  ...(["heap_bytes", "timers", "open_files", "unsettled"] as const),
];

const gaugesAt = async (url: string): Promise<GaugesRead> => {
  const said = (await controlGet<Partial<GaugesRead> | null>(url)) ?? {};
  if (!isNumber(said.in_flight)) throw controlError(url, `expected in_flight as a number; got ${shapeOf(said)}`);
  const gauges: GaugesRead = { in_flight: said.in_flight, in_flight_by_org: {} };
  for (const [org, n] of Object.entries(said.in_flight_by_org ?? {}).slice(0, ORGS_MOST)) {
    if (isNumber(n)) gauges.in_flight_by_org[foreignId(org)] = n;
  }
  for (const name of GAUGES) {
    const value = said[name];
    if (isNumber(value)) gauges[name] = value;
  }
  return gauges;
};

/** The gauges of each replica; `collected`: after a garbage collection. */
export const readGauges = (apis: readonly string[], { collected = false } = {}): Promise<GaugesRead[]> =>
  Promise.all(apis.map((api) => gaugesAt(`${api}/gauges${collected ? "?gc=true" : ""}`)));

/** Key records looked up so far; `null` if the key service does not say. */
export const readLookups = async (keys: string): Promise<number | null> => {
  const said = await controlGet<{ lookups: number }>(`${keys}/lookups`).catch(() => null);
  return isNumber(said?.lookups) ? said.lookups : null;
};

export const readLedger = async (limiter: string, run: string): Promise<LedgerLine[]> => {
  const url = `${limiter}/ledger?run=${encodeURIComponent(run)}`;
  const lines = (await call(url, LEDGER)).split("\n").filter((line) => line.trim() !== "");
  return lines.map((line) => chargeOf(jsonOf<LedgerLine>(url, line)));
};

/** Map loads used by an organization; `undefined` if the control plane does not say. */
export const readUsed = async (keys: string, org: string, withinMs = CONTROL_CALL_MS): Promise<number | undefined> => {
  const url = `${keys}/orgs/${encodeURIComponent(org)}`;
  const { map_loads_used } = jsonOf<{ map_loads_used?: unknown }>(url, await call(url, { withinMs }));
  return isNumber(map_loads_used) ? map_loads_used : undefined;
};

/** Like `readUsed` for many organizations. A silent control plane costs one deadline in all. */
export const readUsedOf = async (keys: string, orgs: readonly string[]): Promise<Map<string, number>> => {
  const endMs = performance.now() + ALL_ORGS_MS;
  let answeredMs = performance.now();
  const found = new Map<string, number>();
  await eachAtOnce(ORGS_AT_ONCE, orgs, async (org) => {
    const withinMs = Math.min(answeredMs + CONTROL_CALL_MS, endMs) - performance.now();
    const used = withinMs <= 0 ? undefined : await readUsed(keys, org, withinMs).catch(() => undefined);
    if (used === undefined) return;
    found.set(org, used);
    answeredMs = performance.now();
  });
  return found;
};
