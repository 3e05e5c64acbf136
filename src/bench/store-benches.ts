/** Benchmarks without a network, in this process: charges into SQLite, and decisions of the core alone. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { routeOf } from "../contract/routes.ts";
import { type Ask, Call, type Deployment, type KeySnapshot } from "../core/call.ts";
import { advance, HEALTHY_ORDERS } from "../core/order.ts";
import { fixedShedder } from "../core/shedding.ts";
import { openLimiterStore } from "../platform/limiter/store.ts";
import { shiftableClock, type Take } from "../platform/ports.ts";
import { type Bench, type Block, blockOf, compare, inTurn, paired } from "./comparison.ts";

/** Measures a block that repeats `step`, which does `n` operations; its value is operations per second. */
const repeated = (durationMs: number, n: number, step: () => void): Promise<Block> =>
  blockOf(async () => {
    const beganMs = performance.now();
    let done = 0;
    for (; performance.now() - beganMs < durationMs; done += n) step();
    return (done / (performance.now() - beganMs)) * 1_000;
  });

/** Charges per transaction: about as many as a busy link sends in one batch. */
const BATCH = 64;
const ORGANIZATIONS = 50;

const takeOf = (n: number): Take => ({
  charge_id: `0123456789abcdef0123456789abcdef-${n.toString(36)}`,
  request_id: `bench.${n}`,
  org: `org_${n % ORGANIZATIONS}`,
  key: `key_${n % ORGANIZATIONS}`,
  rate: null,
  meter: { name: "map_loads", amount: 1, cap: 1_000_000_000 },
});

type Writer = (takes: Take[]) => void;

const storeWriter = (path: string): Writer => {
  const store = openLimiterStore(path);
  const clock = shiftableClock();
  return (takes) => {
    const answers = store.take(takes, clock.instant()) as { verdict: string }[];
    if (answers.some(({ verdict }) => verdict !== "taken")) throw new Error("a charge was refused");
  };
};

const bareWriter = (path: string): Writer => {
  const db = new DatabaseSync(path);
  db.exec(`
    PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
    CREATE TABLE used (org TEXT, meter TEXT, month TEXT, used INTEGER, PRIMARY KEY (month, org, meter)) WITHOUT ROWID;
    CREATE TABLE charge (id TEXT PRIMARY KEY, org TEXT, key TEXT, meter TEXT, amount INTEGER, month TEXT, used INTEGER,
      refunded INTEGER) WITHOUT ROWID;
    CREATE TABLE line (n INTEGER PRIMARY KEY AUTOINCREMENT, charge TEXT, request TEXT, org TEXT, key TEXT, meter TEXT,
      kind TEXT, amount INTEGER, month TEXT, at INTEGER);
  `);
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  const count = db.prepare("INSERT INTO used VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET used = used + 1");
  const charge = db.prepare("INSERT INTO charge VALUES (?, ?, ?, ?, ?, ?, ?, 0)");
  const line = db.prepare("INSERT INTO line VALUES (NULL, ?, ?, ?, ?, ?, 'charge', ?, ?, ?)");
  const month = "2026-01";
  return (takes) => {
    begin.run();
    for (const { charge_id, request_id, org, key } of takes) {
      count.run(org, "map_loads", month);
      charge.run(charge_id, org, key, "map_loads", 1, month, 1);
      line.run(charge_id, request_id, org, key, "map_loads", 1, month, Date.now());
    }
    commit.run();
  };
};

const ledger: Bench = {
  name: "ledger",
  what: `charges a second in batches of ${BATCH}: the limiter's SQLite store against plain inserts of the same rows`,
  run: async (settings, { folder }) => {
    let n = 0;
    const batch = (): Take[] => Array.from({ length: BATCH }, () => takeOf(n++));
    const played = (write: Writer) => (durationS: number) => repeated(durationS * 1_000, BATCH, () => write(batch()));
    const [store, bare] = [storeWriter(join(folder, "store.db")), bareWriter(join(folder, "bare.db"))];
    const pairs = await inTurn(settings, played(store), played(bare));
    return [compare({ ...ledger, unit: "charges/s", target: null }, pairs)];
  },
};

const ORIGIN = "https://app.example";
const NOW_MS = 1_767_225_600_000;
const DEPLOYMENT: Deployment = { sessions: "enabled", rate: { perS: 50, burst: 100 }, designCap: null };

const snapshot = (kind: "server" | "publishable"): KeySnapshot =>
  ({
    key: {
      ...{ id: "key_bench", org_id: "org_bench", kind, env: "live", name: "bench", status: "valid", expires_at: null },
      ...{ scopes: ["ai", "design", "maps"], products: [], vendor_acknowledged: true },
      ...{ allowed_origins: kind === "publishable" ? [ORIGIN] : [], allowed_ips: [] },
    },
    org: {
      ...{ id: "org_bench", tier: "Pro", map_load_allowance: 100_000 },
      ...{ key_limit: null, basemap_style_id: null, in_flight_cap: null },
    },
  }) as unknown as KeySnapshot;

const PUBLISHABLE = snapshot("publishable");
const SERVER = snapshot("server");
const SESSION = { keyId: "key_bench", orgId: "org_bench", product: "chat", expiresAtS: 1e10, id: "s" } as const;
const TAKEN = { verdict: "taken", used: 1, window: "2026-01" } as const;

/** The calls that are decided; all are admitted but `shed`. */
const CASES = {
  "runtime-server": { route: routeOf("design.styles"), secret: "svc_sk_live_x", body: null },
  "runtime-session": { route: routeOf("chat.control"), secret: "svc_sess_live_a.b.c", body: {} },
  "exchange-chat": { route: routeOf("sdk.sessions"), secret: "svc_pk_live_x", body: { product: "chat" } },
  "exchange-tile": { route: routeOf("sdk.sessions"), secret: "svc_pk_live_x", body: { product: "tile" } },
  shed: { route: routeOf("design.styles"), secret: "svc_sk_live_x", body: null },
};
type Decision = keyof typeof CASES;
export const DECISIONS = Object.keys(CASES) as Decision[];

const answer = (call: Call, { ask }: Ask, body: unknown): void => {
  if (ask === "session") call.session = SESSION;
  else if (ask === "body") call.body = { ok: true, value: body };
  else if (ask === "take") call.taken = TAKEN;
  else call.lookup = call.kind === "server" ? SERVER : PUBLISHABLE;
};

/** Runs whole orders of checks with fixed answers. Throws on a wrong decision. */
export const decide = (decision: Decision, times: number): void => {
  const { route, secret, body } = CASES[decision];
  const refusal = decision === "shed" ? "b2b_overloaded" : null;
  const shedder = fixedShedder({ globalInFlight: decision === "shed" ? 0 : 64, orgInFlight: 32 });
  const origin = secret.startsWith("svc_sk") ? null : ORIGIN;
  const head = { readCaller: () => ({ credential: secret, origin, address: "127.0.0.1" }), nowMs: () => NOW_MS };
  for (let i = 0; i < times; i += 1) {
    const call = new Call(route, head, DEPLOYMENT, shedder);
    let next = advance(call, HEALTHY_ORDERS);
    for (; next !== null && "ask" in next; next = advance(call, HEALTHY_ORDERS)) answer(call, next, body);
    const came = next?.refuse ?? null;
    if (came !== refusal) throw new Error(`${decision}: expected ${refusal ?? "admitted"}, got ${came ?? "admitted"}`);
    call.leave();
  }
};

const DECISIONS_PER_S = 1_000_000;
const AT_ONCE = 10_000;

const core: Bench = {
  name: "core",
  what: `decisions a second of the core alone, over ${DECISIONS_PER_S}`,
  run: async ({ rounds, blockS }) => {
    const blocks = new Map<Decision, Block[]>(DECISIONS.map((name) => [name, []]));
    // The first round warms up.
    for (let round = -1; round < rounds; round += 1) {
      for (const [name, of] of blocks) {
        const durationMs = (blockS * 1_000) / DECISIONS.length;
        const block = await repeated(durationMs, AT_ONCE, () => decide(name, AT_ONCE));
        if (round >= 0) of.push(block);
      }
    }
    const about = { what: core.what, unit: "decisions/s", target: { atLeast: 1 } };
    return [...blocks].map(([name, of]) => compare({ ...about, name: `core ${name}` }, paired(of, DECISIONS_PER_S)));
  },
};

export const STORE_BENCHES: readonly Bench[] = [ledger, core];
