/**
 * Hand-written histories to try judges on: good ones that must be acquitted, bad ones that must be condemned for the
 * reason meant, thin ones from which nothing may be concluded. No judge is believed that has no bad one.
 */

import type { CallFacts } from "../../contract/call-facts.ts";
import type { LedgerLine } from "../../contract/routes.ts";
import { REFERENCE_STREAM_ENDS, type StatedStreamEnds } from "../../contract/streams.ts";
import type { CallLine, FaultLine, Line, MarkLine } from "../../history/line.ts";
import type { Counts, StageFacts } from "../../history/run-document.ts";

export type Specimen = { name: string; facts?: Partial<StageFacts>; lines: Line[]; says?: RegExp };
type Bad = Specimen & { says: RegExp };
type Thin = Specimen & { verdict: "inconclusive" | "skipped"; says: RegExp };
export type Specimens = { good: Specimen[]; bad: Bad[]; thin: Thin[] };

/** A small deployment of ours: two slots for each organization, four in all. */
export const stageOf = (more: Partial<StageFacts> = {}): StageFacts => ({
  stage: "s",
  reference: true,
  exclusive: true,
  limits: {
    replicas: 1,
    slots: 4,
    service_ms: 200,
    global_in_flight: 4,
    org_in_flight: 2,
    rate_per_s: 10,
    burst: 5,
    limiter_budget_ms: 250,
    key_service_budget_ms: 1000,
    revocation_budget_ms: 1000,
  },
  stream_end: REFERENCE_STREAM_ENDS,
  shedding: "fixed",
  tenants: { a: { tier: "Pro", allowance: 2, used_at_start: 0 }, f: { tier: "Free", allowance: 3, used_at_start: 0 } },
  faults: false,
  drained: true,
  counts: {},
  ...more,
});

/** Somebody else's deployment, which nobody else calls: held to no reading of ours, whatever it shows. */
export const foreignStage = (more: Partial<StageFacts> = {}): Partial<StageFacts> => ({
  ...stageOf(more),
  reference: undefined as unknown as true,
  stream_end: more.stream_end as unknown as StatedStreamEnds,
  counts: more.counts as unknown as Counts,
});

/** Somebody else's deployment, which others call as well, unseen. */
export const sharedStage = (more: Partial<StageFacts> = {}): Partial<StageFacts> =>
  foreignStage({ ...more, exclusive: false });

const ALL_SCOPES: CallFacts["scopes"] = ["ai", "design", "maps"];

export const PUBLISHABLE: CallFacts = {
  credential: "publishable",
  state: "valid",
  origin: "listed",
  tier: "Pro",
  scopes: ALL_SCOPES,
  products: [],
  product: "chat",
  body: "ok",
};
export const SERVER: CallFacts = {
  credential: "server",
  state: "valid",
  origin: "none",
  ip: "allowed",
  tier: "Pro",
  scopes: ALL_SCOPES,
  products: [],
  body: "ok",
};
export const SESSION: CallFacts = { ...PUBLISHABLE, credential: "session" };

type Shape = Partial<CallLine> & { atMs?: number; tookMs?: number; firstMs?: number };

/** A call of organization `a`, by default answered 200 in a millisecond. Times in milliseconds; ids as given. */
export const call = (id: string, { atMs = 0, tookMs = 1, firstMs, ...more }: Shape = {}): CallLine => ({
  type: "call",
  id,
  stage: "s",
  driver: "open-loop",
  org: "a",
  route: "design.styles",
  intended_us: atMs * 1000,
  started_us: atMs * 1000,
  connect_us: 0,
  sent_us: atMs * 1000,
  attempt: 0,
  first_us: (atMs + (firstMs ?? tookMs)) * 1000,
  done_us: (atMs + tookMs) * 1000,
  outcome: "200",
  clock_error_us: 0,
  ...more,
});

/** A chat stream whose first event came after 10 ms, and the others evenly until its end. */
export const stream = (id: string, shape: Shape = {}): CallLine => {
  const line = call(id, {
    route: "chat.control",
    tookMs: 200,
    firstMs: 10,
    events: 8,
    ended: "done",
    first_event_us: ((shape.atMs ?? 0) + (shape.firstMs ?? 10)) * 1000,
    ...shape,
  });
  const gaps = (line.events ?? 1) - 1;
  return { gaps_us: many(gaps, () => (line.done_us - (line.first_event_us ?? 0)) / gaps), ...line };
};

export const lost = (id: string, shape: Shape = {}): CallLine => ({
  ...call(id, { tookMs: 1000, outcome: "indeterminate", error: "timeout", ...shape }),
  first_us: null,
});

export const load = (id: string, shape: Shape = {}): CallLine => call(id, { route: "maps.loads", ...shape });

export const many = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));

export const mark = (name: string, atMs: number, more: Partial<MarkLine> = {}): MarkLine => ({
  type: "mark",
  stage: "s",
  name,
  at_us: atMs * 1000,
  ...more,
});

export const fault = (link: string, name: string, phase: FaultLine["phase"], atMs: number, took = true): FaultLine => ({
  type: "fault",
  stage: "s",
  experiment: `${link}.${name}`,
  link,
  fault: name,
  stream: "both",
  phase,
  at_us: atMs * 1000,
  ...(phase === "injected" ? { took_effect: took } : {}),
});

/** Lines of a fault that bites from `fromMs` to `toMs`. */
export const faultSpan = (link: string, name: string, fromMs: number, toMs: number, took = true): FaultLine[] => [
  fault(link, name, "injecting", fromMs - 10),
  fault(link, name, "injected", fromMs, took),
  fault(link, name, "healing", toMs),
  fault(link, name, "healed", toMs + 10),
];

export const charge = (charge_id: string, request_id: string, more: Partial<LedgerLine> = {}): LedgerLine => ({
  charge_id,
  request_id,
  org: "a",
  key: "k",
  meter: "map_loads",
  kind: "charge",
  amount: 1,
  window: "2026-11",
  at: 0,
  ...more,
});

export const refund = (charge_id: string, request_id: string, more: Partial<LedgerLine> = {}): LedgerLine =>
  charge(charge_id, request_id, { kind: "refund", ...more });

/** In the order in which a judge is shown them. */
export const inOrder = (...lines: Line[]): Line[] =>
  lines.sort((a, b) => (a.type === "call" ? a.sent_us : a.at_us) - (b.type === "call" ? b.sent_us : b.at_us));
