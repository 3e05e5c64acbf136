/**
 * The model-based law as a function of the server: whatever is done to a deployment in whatever order, the real server over
 * real sockets answers as the model does, which decides with the core. Once the deployment is healed, its meters, ledger and
 * counts equal the model's, and its log holds no credential. For the test and for mutants (mutant-laws.ts).
 */

import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect } from "vitest";
import { findSecrets } from "../../src/contract/credentials.ts";
import type { KeyRecord, Organization } from "../../src/core/call.ts";
import { mint } from "../model/call-commands.ts";
import { ORIGIN, type Real } from "../model/command-frame.ts";
import { commandArb } from "../model/commands.ts";
import { CAPS, Model } from "../model/model.ts";
import { heal, middleOfMonth, setClock } from "../model/operator-commands.ts";
import type { RealApi } from "../rigs/real-api.ts";
import { unlessStalled } from "../rigs/stalls.ts";

/** Short, because lost answers are waited for; long enough that a busy machine does not look like a slow limiter. */
export const MODEL_OPTIONS = { keyServiceBudgetMs: 400, limiterBudgetMs: 400 };

/** Makes two organizations with tiny allowances, a publishable key each, a server key for the Pro one, and two sessions. */
const setup = async (api: RealApi): Promise<{ model: Model; real: Real }> => {
  const model = new Model();
  const real: Real = { api, run: `run-${randomUUID()}`, sent: 0 };
  await heal(model, real);
  await setClock(model, real, middleOfMonth(Date.now(), 1) - Date.now());
  const caps = { global_in_flight: CAPS.globalInFlight, org_in_flight: CAPS.orgInFlight };
  await api.operate("PATCH", "/deployment", { sessions: "enabled", ...caps });
  for (const [tier, style] of [
    ["Pro", "svc-dusk"],
    ["Free", null],
  ] as const) {
    const fields = { tier, map_load_allowance: 2, key_limit: 4, basemap_style_id: style };
    const { map_loads_used: _, ...org } = (await api.operate("POST", "/orgs", fields)).json as Organization & {
      map_loads_used: number;
    };
    model.orgs.set(org.id, org);
    for (const kind of ["publishable", "server"] as const) {
      if (kind === "server" && tier === "Free") continue;
      const record = { org_id: org.id, kind, scopes: ["ai", "design", "maps"], allowed_origins: [ORIGIN] };
      const { key: secret, ...key } = (await api.operate("POST", "/keys", record)).json as KeyRecord & { key: string };
      model.keys.push({ key, secret });
    }
  }
  for (const product of ["chat", "editor"] as const) await mint(0, product, "app", false).run(model, real);
  return { model, real };
};

/** Formats counts by outcome and organization as one text, so that a failure shows them whole. */
const told = (counts: unknown): string =>
  Object.entries(counts as Record<string, Record<string, number>>)
    .flatMap(([outcome, byOrg]) => Object.entries(byOrg).map(([org, n]) => `${n} of ${outcome} for ${org}`))
    .sort()
    .join(", ");

/** Heals, then checks that meters and counts equal the model's and that each admitted metered call is charged once. */
const agree = async (model: Model, real: Real): Promise<void> => {
  const { api } = real;
  await heal(model, real);
  for (const id of model.orgs.keys()) {
    const { map_loads_used: used } = (await api.operate("GET", `/orgs/${id}`)).json as { map_loads_used: number };
    expect(used, "map loads used, after healing").toBe(model.used(id, "map_loads"));
  }
  const charged = await api.netCharges(real.run);
  expect(charged, "what admitted metered calls were charged").toEqual(new Array(model.charged).fill(1));
  const counts = (await api.operate("GET", `/counts?run=${real.run}`)).json;
  expect(told(counts), "what the platform says it answered").toBe(told(model.answered()));
};

/** P11 on the real log: it holds none of the credentials that the run used. */
const logIsClean = (model: Model, log: string): void => {
  expect(log, "the log").not.toBe("");
  expect(findSecrets(log).length, "credentials in the log").toBe(0);
  const secrets = [...model.keys.map(({ secret }) => secret), ...model.tokens.map(({ token }) => token)];
  expect(secrets.filter((secret) => log.includes(secret)).length, "credentials of this run in the log").toBe(0);
};

export const serverAnswersAsModel = (open: () => RealApi, replayPath?: string) =>
  fc.asyncProperty(
    fc.commands([commandArb], { maxCommands: 40, size: "max", ...(replayPath === undefined ? {} : { replayPath }) }),
    (commands) =>
      unlessStalled(async () => {
        const { model, real } = await setup(open());
        await fc.asyncModelRun(() => ({ model, real }), commands);
        await agree(model, real);
        logIsClean(model, real.api.takeLog());
      }),
  );
