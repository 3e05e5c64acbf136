/** Commands of the operator, the clock and the faults, and one that reads the meters. */
import { expect } from "vitest";
import type { Organization, Tier } from "../../src/core/call.ts";
import type { Fault, Link } from "../rigs/real-api.ts";
import { type Command, command, MINUTE_MS, orgIdAt, pick, type Real, replace } from "./command-frame.ts";
import { CAPS, type Model } from "./model.ts";

export const setTier = (which: number, tier: Tier | null): Command =>
  command(`setTier(${which}, ${tier})`, async (model, real) => {
    const id = orgIdAt(model, which);
    await real.api.operate("PATCH", `/orgs/${id}`, { tier });
    model.orgs.set(id, { ...model.org(id), tier });
  });

/** Lets a key expire by its status or by `expires_at`. */
export const expire = (which: number, byStatus: boolean): Command =>
  command(`expire(${which}, ${byStatus})`, async (model, real) => {
    const known = pick(model.keys, which);
    const change = byStatus ? { status: "expired" as const } : { expires_at: model.nowMs() - 1 };
    await real.api.operate("PATCH", `/keys/${known.key.id}`, change);
    replace(model, known, { ...known.key, ...change });
  });

export const setDeployment = (
  fields: Partial<Pick<Model, "sessions">> & { full?: "replica" | "organizations" | null },
): Command =>
  command(`setDeployment(${JSON.stringify(fields)})`, async (model, real) => {
    if (fields.sessions !== undefined) model.sessions = fields.sessions;
    if (fields.full !== undefined) {
      model.caps = {
        globalInFlight: fields.full === "replica" ? 0 : CAPS.globalInFlight,
        orgInFlight: fields.full === "organizations" ? 0 : CAPS.orgInFlight,
      };
    }
    const { globalInFlight: global_in_flight, orgInFlight: org_in_flight } = model.caps;
    await real.api.operate("PATCH", "/deployment", { sessions: model.sessions, global_in_flight, org_in_flight });
  });

export const setClock = async (model: Model, real: Real, offsetMs: number): Promise<void> => {
  model.offsetMs = Math.round(offsetMs);
  await real.api.operate("PATCH", "/deployment", { clock_offset_ms: model.offsetMs });
};
/** Noon of the 15th, far from the month's ends. */
export const middleOfMonth = (nowMs: number, monthsOn: number): number => {
  const date = new Date(nowMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + monthsOn, 15, 12);
};
export const newMonth = (): Command =>
  command("newMonth()", (model, real) => setClock(model, real, middleOfMonth(model.nowMs(), 1) - Date.now()));
export const tenMinutesOn = (): Command =>
  command("tenMinutesOn()", (model, real) => setClock(model, real, model.offsetMs + 10 * MINUTE_MS));

export const fault = (link: Link, kind: Fault): Command =>
  command(
    `fault(${link}, ${kind})`,
    async (model, real) => {
      await real.api.setFault(link, kind);
      model.faults[link] = kind;
    },
    (model) => model.faults[link] === "none",
  );
export const heal = async (model: Model, real: Real): Promise<void> => {
  for (const link of ["keys", "limiter"] as const) {
    await real.api.setFault(link, "none");
    model.faults[link] = "none";
  }
  await real.api.settled();
};
export const healing = (): Command =>
  command("heal()", heal, ({ faults }) => faults.keys !== "none" || faults.limiter !== "none");

export const readMeters = (): Command =>
  command(
    "readMeters()",
    async (model, real) => {
      for (const id of model.orgs.keys()) {
        const { map_loads_used: used, ...org } = (await real.api.operate("GET", `/orgs/${id}`)).json as Organization & {
          map_loads_used: number;
        };
        expect(used, "map loads used, by the control plane").toBe(model.used(id, "map_loads"));
        expect(org).toEqual(model.org(id));
      }
    },
    // While answers are lost, a refund may be under way.
    ({ faults }) => faults.limiter === "none",
  );
