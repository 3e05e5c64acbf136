/** Stages about streams, and about records that change while sessions live. */
import { pause } from "../../supervision/waiting.ts";
import type { CallerName, TargetView } from "../../workload/callers/target-view.ts";
import { type Step, stepOf } from "../../workload/step.ts";
import { type MiniStage, REVOCATION_BUDGET_MS } from "../stage-bench.ts";
import { callOf, callsOf, paid } from "./load.ts";

/** All three kinds of stream, readers that leave, and streams that fail by order. */
export const streams: MiniStage = {
  options: { tenants: paid(4), serviceMs: 250, tokens: 8 },
  play: async ({ view, sendAll, operate }) => {
    const fail_next = { route: "chat.control", mode: "error_event", after_events: 2, count: 3 };
    await operate("PATCH", "/deployment", { fail_next });
    await sendAll(callsOf(view, "chat.control", 3));
    const leaving = Array.from({ length: 4 }, (_, n) => ({
      ...callOf(view, "org_t1", "chat.control", n),
      abort: { afterEvents: 1 + (n % 2) },
    }));
    await sendAll([
      ...callsOf(view, "chat.control", 8),
      ...callsOf(view, "chat.summary", 4),
      ...callsOf(view, "chat.button", 4),
      ...leaving,
    ]);
  },
};

/** Enough for a cut of one in fifty to be certain. */
const HUNDREDS = 600;

/** Six hundred short streams, of all three kinds. */
export const manyStreams: MiniStage = {
  options: { tenants: paid(4), serviceMs: 10, tokens: 2 },
  play: async ({ view, sendAll }) => {
    for (const route of ["chat.control", "chat.summary", "chat.button"] as const) {
      await sendAll(callsOf(view, route, HUNDREDS / 3), 40);
    }
  },
};

/** The service is asked to stop while streams run. */
export const deploy: MiniStage = {
  options: { tenants: paid(4), serviceMs: 400, tokens: 8 },
  play: async ({ view, sendAll, untilInFlight, running, silence }) => {
    const open = sendAll(callsOf(view, "chat.control", 8));
    await untilInFlight(8);
    silence();
    await Promise.all([running.close(), open]);
  },
};

/** A judge counts a change as arrived this long after the revocation budget. */
const ARRIVED_MS = REVOCATION_BUDGET_MS + 150;

const session = (of: CallerName) => ({ as: "session", of, product: "chat" }) as const;

/** Calls of one organization by a session and its two keys. */
const callsBy = (view: TargetView, org: string): Step[] => {
  const of: CallerName = `tenant:${org}`;
  return [
    stepOf(view, 0, { route: "poi.enrich", credential: session(of), origin: "listed" }),
    stepOf(view, 1, { route: "chat.control", credential: session(of), origin: "listed" }),
    stepOf(view, 2, { route: "poi.enrich", credential: { as: "server", of } }),
    stepOf(view, 3, {
      route: "sdk.sessions",
      credential: { as: "publishable", of },
      origin: "listed",
      product: "chat",
    }),
  ];
};

/** Keys are revoked and an organization is downgraded while their sessions live. */
export const recordChanges: MiniStage = {
  options: { tenants: paid(3) },
  play: async ({ view, sendAll, operate, mark }) => {
    const [revoked, downgraded, untouched] = ["org_t1", "org_t2", "org_t3"];
    for (const org of [revoked, downgraded, untouched]) await sendAll(callsBy(view, org), 2);
    for (const kind of ["publishable", "server"]) {
      await operate("PATCH", `/keys/key_${revoked}_${kind}`, { status: "revoked" });
    }
    await operate("PATCH", `/orgs/${downgraded}`, { tier: "Free" });
    mark("revoked", { org: revoked });
    mark("tier-changed", { org: downgraded });
    await pause(ARRIVED_MS);
    const free: TargetView = {
      ...view,
      tenants: view.tenants.map((tenant) => (tenant.org === downgraded ? { ...tenant, tier: "Free" } : tenant)),
    };
    const over = callsBy(view, revoked).map(
      (step): Step => ({ ...step, org: "-", facts: { ...step.facts, state: "revoked" } }),
    );
    for (let round = 0; round < 2; round += 1) {
      await sendAll([...over, ...callsBy(free, downgraded), ...callsBy(view, untouched)], 4);
    }
  },
};
