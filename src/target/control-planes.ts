/**
 * Reads a deployment's control planes (interface.md section 4): counts, gauges and the ledger, the independent witnesses
 * of a stage. Every request has a deadline; what cannot be read is absent, and the judges say so. Where the environment has
 * `FLOODGATE_CONTROL_TOKEN`, every request carries it.
 */
import { request } from "undici";
import type { LedgerLine } from "../history/line.ts";
import type { Counts, Gauges } from "../history/stage-facts.ts";
import { redactor } from "../supervision/redaction.ts";

const DEADLINE_MS = 5_000;

class ControlError extends Error {
  constructor(url: string, what: string) {
    super(`the control plane at ${url} did not answer as expected: ${what}`);
    this.name = "ControlError";
  }
}

let masked = "";

/** Masked from its first use on, wherever it may be repeated. */
const bearer = (): Record<string, string> => {
  const token = process.env.FLOODGATE_CONTROL_TOKEN ?? "";
  if (token === "") return {};
  if (token !== masked) redactor.register(token);
  masked = token;
  return { authorization: `Bearer ${token}` };
};

const call = async (method: "GET" | "POST" | "PATCH" | "PUT", url: string, body?: unknown): Promise<string> => {
  try {
    const answer = await request(url, {
      method,
      headersTimeout: DEADLINE_MS,
      bodyTimeout: DEADLINE_MS,
      signal: AbortSignal.timeout(DEADLINE_MS * 2),
      headers: { ...bearer(), ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.body.text();
    if (answer.statusCode === 401) {
      throw new ControlError(
        url,
        "status 401: set FLOODGATE_CONTROL_TOKEN to the token that its `serve` was started with",
      );
    }
    if (answer.statusCode >= 300) throw new ControlError(url, `status ${answer.statusCode}: ${text.slice(0, 200)}`);
    return text;
  } catch (error) {
    if (error instanceof ControlError) throw error;
    throw new ControlError(url, error instanceof Error ? error.message : String(error));
  }
};

export const controlGet = async <T>(url: string): Promise<T> => JSON.parse(await call("GET", url)) as T;
export const controlSend = async <T>(method: "POST" | "PATCH" | "PUT", url: string, body: unknown): Promise<T> => {
  const text = await call(method, url, body);
  return (text === "" ? {} : JSON.parse(text)) as T;
};

/** Counts of all replicas added up, for one run id. */
export const readCounts = async (apis: readonly string[], run: string): Promise<Counts> => {
  const sum: Counts = {};
  for (const api of apis) {
    const counts = await controlGet<Counts>(`${api}/counts?run=${encodeURIComponent(run)}`);
    for (const [outcome, byOrg] of Object.entries(counts)) {
      sum[outcome] ??= {};
      const row = sum[outcome];
      for (const [org, n] of Object.entries(byOrg)) row[org] = (row[org] ?? 0) + n;
    }
  }
  return sum;
};

export const readGauges = (apis: readonly string[]): Promise<(Gauges & { unsettled?: number })[]> =>
  Promise.all(apis.map((api) => controlGet<Gauges & { unsettled?: number }>(`${api}/gauges`)));

/** Records that the key service has looked up so far; `null` where it does not show that. */
export const readLookups = (keys: string): Promise<number | null> =>
  controlGet<{ lookups: number }>(`${keys}/lookups`).then(
    ({ lookups }) => lookups,
    () => null,
  );

/** After a collection of garbage: what each replica holds on to. */
export const readHeld = (apis: readonly string[]): Promise<Gauges[]> =>
  Promise.all(apis.map((api) => controlGet<Gauges>(`${api}/gauges?gc=true`)));

export const readLedger = async (limiter: string, run: string): Promise<LedgerLine[]> => {
  const text = await call("GET", `${limiter}/ledger?run=${encodeURIComponent(run)}`);
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => JSON.parse(line) as LedgerLine);
};

/** Map loads that an organization has used, `undefined` where the control plane does not show it. */
export const readUsed = async (keys: string, org: string): Promise<number | undefined> => {
  const found = await controlGet<{ map_loads_used?: number }>(`${keys}/orgs/${encodeURIComponent(org)}`);
  return found.map_loads_used;
};
