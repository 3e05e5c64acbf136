/** The core alone: whole orders run with answers from a table, no sockets, no waiting. */
import { routeOf } from "../../contract/routes.ts";
import { type Ask, Call, type Deployment } from "../../core/call.ts";
import { advance, HEALTHY_ORDERS } from "../../core/order.ts";
import type { KeySnapshot } from "../../core/records.ts";
import { fixedShedder } from "../../core/shedding.ts";
import { serveParent } from "./child.ts";

export type DecisionQuestion = { decision: keyof typeof CASES; durationMs: number };

const ORIGIN = "https://app.example";
const NOW_MS = 1_767_225_600_000;
const DEPLOYMENT: Deployment = { sessions: "enabled", rate: { perS: 50, burst: 100 }, designCap: null };

const snapshot = (kind: "server" | "publishable"): KeySnapshot =>
  ({
    key: {
      id: "key_bench",
      org_id: "org_bench",
      kind,
      env: "live",
      name: "bench",
      status: "valid",
      expires_at: null,
      scopes: ["ai", "design", "maps"],
      products: [],
      vendor_acknowledged: true,
      allowed_origins: kind === "publishable" ? [ORIGIN] : [],
      allowed_ips: [],
    },
    org: {
      id: "org_bench",
      tier: "Pro",
      map_load_allowance: 100_000,
      key_limit: null,
      basemap_style_id: null,
      in_flight_cap: null,
    },
  }) as unknown as KeySnapshot;

const PUBLISHABLE = snapshot("publishable");
const SERVER = snapshot("server");
const SESSION = { keyId: "key_bench", orgId: "org_bench", product: "chat", expiresAtS: 1e10, id: "s" } as const;
const TAKEN = { verdict: "taken", used: 1, window: "2026-01" } as const;

/** What one decision is made about; the calls are admitted, but for `shed`. */
const CASES = {
  "runtime-server": { route: routeOf("design.styles"), secret: "svc_sk_live_x", body: null },
  "runtime-session": { route: routeOf("chat.control"), secret: "svc_sess_live_a.b.c", body: {} },
  "exchange-chat": { route: routeOf("sdk.sessions"), secret: "svc_pk_live_x", body: { product: "chat" } },
  "exchange-tile": { route: routeOf("sdk.sessions"), secret: "svc_pk_live_x", body: { product: "tile" } },
  shed: { route: routeOf("design.styles"), secret: "svc_sk_live_x", body: null },
};

const answer = (call: Call, { ask }: Ask, body: unknown): void => {
  if (ask === "session") call.session = SESSION;
  else if (ask === "body") call.body = { ok: true, value: body };
  else if (ask === "take") call.taken = TAKEN;
  else call.lookup = call.kind === "server" ? SERVER : PUBLISHABLE;
};

const decide = (decision: DecisionQuestion["decision"], times: number): void => {
  const { route, secret, body } = CASES[decision];
  const refusal = decision === "shed" ? "b2b_overloaded" : null;
  const shedder = fixedShedder({ globalInFlight: decision === "shed" ? 0 : 64, orgInFlight: 32 });
  const origin = secret.startsWith("svc_sk") ? null : ORIGIN;
  const head = { readCaller: () => ({ credential: secret, origin, address: "127.0.0.1" }), nowMs: () => NOW_MS };
  for (let i = 0; i < times; i += 1) {
    const call = new Call(route, head, DEPLOYMENT, shedder);
    for (;;) {
      const next = advance(call, HEALTHY_ORDERS);
      if (next !== null && "ask" in next) {
        answer(call, next, body);
        continue;
      }
      const came = next === null ? null : next.refuse;
      if (came !== refusal)
        throw new Error(`${decision}: expected ${refusal ?? "admitted"}, got ${came ?? "admitted"}`);
      break;
    }
    call.leave();
  }
};

const AT_ONCE = 10_000;

serveParent(() => ({
  made: Object.keys(CASES),
  answer: ({ decision, durationMs }: DecisionQuestion): number => {
    let decided = 0;
    const beganMs = performance.now();
    while (performance.now() - beganMs < durationMs) {
      decide(decision, AT_ONCE);
      decided += AT_ONCE;
    }
    return (decided / (performance.now() - beganMs)) * 1_000;
  },
}));
