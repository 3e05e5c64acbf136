/**
 * Map loads and their allowance: what is charged, when the allowance ends, and the refusals. Defects of counting, of the soft
 * band or of a stop belong here; `exchange.ts`, and `load` below, decide which calls are charged.
 */
import type { IncomingMessage } from "node:http";
import type { Reply } from "./replies.ts";
import { admitRuntime } from "./runtime.ts";
import { type ApiState, type Org, orgOf } from "./state.ts";

const COUNTED_AFTER_MS = 300;

const quotaBody = ({ has }: ApiState, of: Org): object => ({
  meter: has("wrong-meter") ? "tiles" : "map_loads",
  limit: of.limit,
  used: has("used-as-text") ? String(of.used) : of.used,
});

const capOf = ({ is, has }: ApiState, of: Org): number => {
  if (of.tier === "Free" || is("stops-paid-at-allowance") || has("no-band-at-all")) return of.limit;
  if (has("stops-hard-at-twice")) return of.limit * 2;
  if (has("stops-hard-at-four-times")) return of.limit * 4;
  if (has("stops-at-the-soft-band")) return of.limit;
  return of.limit * 5 + (is("over-means-over") ? 1 : 0);
};

const stop = (api: ApiState, of: Org): Reply => {
  const { is, has, detail, flat } = api;
  const quota = is("stops-paid-at-allowance") || has("no-band-at-all") || has("quota-code-at-hard-stop");
  if (of.tier === "Free" || quota) {
    return has("quota-as-403")
      ? detail(403, "map_load_quota_exceeded")
      : flat("map_load_quota_exceeded", quotaBody(api, of));
  }
  return has("flat-hard-stop") ? flat("map_load_hard_stop") : detail(429, "map_load_hard_stop");
};

/** `null`: admitted and charged. */
export const charge = async (api: ApiState, from: Org, id: string): Promise<Reply | null> => {
  const { is, has, flat, loads } = api;
  let of = from;
  if (has("charges-whoever-comes-last")) {
    api.charged = from;
    await new Promise((resolve) => setTimeout(resolve, 3));
    of = api.charged;
  }
  if (has("one-stop-for-all") && of.id === "acme") return flat("map_load_quota_exceeded", quotaBody(api, of));
  // Each of two replicas counts alone.
  const replicas = has("counts-by-replica") ? 2 : 1;
  const late = has("admits-one-too-many") ? 1 : has("hard-stops-two-late") && of.tier === "Pro" ? 2 : 0;
  const cap = replicas * capOf(api, of) + late - (has("stops-one-early") ? 1 : 0);
  if (has("loses-counts") && of.used < cap) {
    const read = of.used;
    await new Promise((resolve) => setTimeout(resolve, 15));
    of.used = read + 1;
    return null;
  }
  const endless = (has("never-hard-stops") && of.tier === "Pro") || has("never-counts");
  if (of.used < cap || endless) {
    if (has("checks-then-charges")) await new Promise((resolve) => setTimeout(resolve, 15));
    if (is("mints-are-free") || has("counts-nothing")) return null;
    if (is("counts-late")) {
      setTimeout(() => {
        of.used += 1;
      }, COUNTED_AFTER_MS);
      return null;
    }
    if (!(has("trusts-the-client-id") && loads.has(id))) of.used += 1;
    loads.add(id);
    return null;
  }
  if (has("charges-the-refused")) of.used += 1;
  if (is("new-month-after-a-stop") && !api.monthHasTurned) {
    api.monthHasTurned = true;
    // This call is still answered by the old month's use.
    setImmediate(() => {
      for (const each of api.orgs.values()) each.used = 0;
    });
  }
  return stop(api, of);
};

/** Answers `POST /maps/loads`, if the route is offered. */
export const load = async (api: ApiState, req: IncomingMessage, route: string): Promise<Reply> => {
  const { is, has } = api;
  const admitted = admitRuntime(api, req, route, true);
  if (!("key" in admitted)) return admitted;
  const of = orgOf(api, admitted.key);
  // A8, the other reading: the soft band is only for sessions that exist already.
  const inBand = is("stops-paid-at-allowance") && of.tier === "Pro" && of.used < of.limit * 5;
  if (!is("loads-count-nothing") && !has("never-stops-loads") && !inBand) {
    return (await charge(api, of, `load-${api.ids++}`)) ?? { status: 200, body: {} };
  }
  if (has("never-stops-loads") || inBand) of.used += 1;
  return { status: 200, body: {} };
};
