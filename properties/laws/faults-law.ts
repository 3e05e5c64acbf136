/**
 * P12 as a function of the deployment and of the states that its two links go through. For the tests, with links in this
 * process and with a real toxiproxy, and for mutants (mutant-laws.ts).
 */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect } from "vitest";
import { readAnswer } from "../../src/contract/refusals.ts";
import type { Link, RealApi, Request } from "../rigs/real-api.ts";
import { unlessStalled } from "../rigs/stalls.ts";

export type State = Record<Link, string>;
export type Kind = { request: Request; normal: string; needs: readonly Link[] };

const ORIGIN = "https://app.example";
export const CALM: State = { keys: "none", limiter: "none" };
/** Short, because lost answers are waited for; long enough that a busy machine does not look like a slow limiter. */
export const FAULTS_OPTIONS = { keyServiceBudgetMs: 400, limiterBudgetMs: 400 };
/**
 * How long a call may take before it counts as hanging: several times both budgets, for a machine that is busy with other
 * tests. A call that waits for a dependency without a budget takes longer.
 */
export const TIME_BUDGET_MS = 3_000;
/** States of a link in which a request can still be answered in time. */
const CAN_ANSWER = ["none", "slow-within-budget", "trickle", "flapping"];
const MINTS_MORE = 10;
const POST = { method: "POST" as const, path: "/sdk/sessions", origin: ORIGIN };

/** Makes one organization, and a call for each way of needing the two dependencies. */
export const prepare = async (api: RealApi): Promise<Record<string, Kind>> => {
  const { id } = (await api.operate("POST", "/orgs", { tier: "Pro" })).json as { id: string };
  const key = async (kind: string, status = "valid"): Promise<string> => {
    const record = { org_id: id, kind, scopes: ["ai", "design", "maps"], allowed_origins: [ORIGIN], status };
    return ((await api.operate("POST", "/keys", record)).json as { key: string }).key;
  };
  const [publishable, server, revoked] = [
    await key("publishable"),
    await key("server"),
    await key("server", "revoked"),
  ];
  const mint = () => api.call({ ...POST, credential: publishable, body: { product: "editor" } });
  let minted = await mint();
  // Both links are whole: only a machine that stalls makes a dependency look away, and it does so for a moment.
  for (let more = MINTS_MORE; more > 0 && minted.status !== 200; more -= 1) minted = await mint();
  const { session_token: token } = minted.json as { session_token: string };
  const styles = { method: "GET" as const, path: "/design/styles" };
  const both = ["keys", "limiter"] as const;
  return {
    chat: { request: { ...POST, credential: publishable, body: { product: "chat" } }, normal: "200", needs: both },
    tile: { request: { ...POST, credential: publishable, body: { product: "tile" } }, normal: "200", needs: both },
    session: { request: { ...styles, credential: token, origin: ORIGIN }, normal: "200", needs: both },
    server: { request: { ...styles, credential: server }, normal: "200", needs: both },
    revoked: { request: { ...styles, credential: revoked }, normal: "401", needs: ["keys"] },
    unknown: { request: { ...styles, credential: "svc_sk_live_nobody0000000000" }, normal: "401", needs: ["keys"] },
    nobody: { request: styles, normal: "401", needs: [] },
  };
};

const AWAY: Readonly<Record<Link, string>> = { keys: "503", limiter: "429 limiter_unavailable" };

/** Makes one call of each kind in each state, heals the links, and checks what was charged. */
export const judge = async (api: RealApi, kinds: Record<string, Kind>, states: State[]): Promise<void> => {
  const run = `run-${randomUUID()}`;
  let sent = 0;
  let admitted = 0;
  const ask = async (name: string, { request, normal, needs }: Kind, state: State): Promise<void> => {
    sent += 1;
    const heard = await api.call({ ...request, requestId: `${run}-${sent}` });
    const { outcome } = readAnswer(heard.status, heard.text);
    const allowed = [normal, ...needs.filter((link) => state[link] !== "none").map((link) => AWAY[link])];
    const where = `${name} with keys ${state.keys} and limiter ${state.limiter}`;
    if (!allowed.includes(outcome)) throw new Error(`${where}: expected ${allowed.join(" or ")}, got ${outcome}`);
    // An admitted call was charged for certain, so a limiter that cannot answer admits nobody.
    if (outcome === "200" && !CAN_ANSWER.includes(state.limiter)) throw new Error(`${where}: admitted uncharged`);
    // A key service that cannot answer cannot have reported a key as unknown.
    if (name === "unknown" && outcome !== AWAY.keys && !CAN_ANSWER.includes(state.keys)) {
      throw new Error(`${where}: expected ${AWAY.keys}, got ${outcome}`);
    }
    if (name === "tile" && outcome === "200") admitted += 1;
  };
  for (const state of states) {
    for (const link of ["keys", "limiter"] as const) await api.setFault(link, state[link]);
    await Promise.all(Object.entries(kinds).map(([name, kind]) => ask(name, kind, state)));
  }
  for (const link of ["keys", "limiter"] as const) await api.setFault(link, "none");
  for (const [name, kind] of Object.entries(kinds)) await ask(name, kind, CALM);
  await api.settled();
  const charged = await api.netCharges(run);
  expect(charged, "what the mints that were admitted were charged").toEqual(new Array(admitted).fill(1));
};

/** Draws sequences of states from these faults. */
export const anyFaultsLeaveAllowedAnswers = (
  faults: readonly string[],
  open: () => { api: RealApi; kinds: Record<string, Kind> },
) => {
  const faultArb = fc.constantFrom("none", ...faults);
  const statesArb = fc.array(fc.record({ keys: faultArb, limiter: faultArb }), { minLength: 1, maxLength: 4 });
  return fc.asyncProperty(statesArb, (states) => {
    const { api, kinds } = open();
    return unlessStalled(() => judge(api, kinds, states));
  });
};
