/**
 * The one place that sends a call of a story and writes its line: puts host, credential, origin and call id in, sends it,
 * names what came. Everything that acts on a deployment as a client goes through here.
 */
import { routeOf } from "../contract/routes.ts";
import type { Step } from "../workload/step.ts";
import { exchangeStep } from "../workload/step.ts";
import type { SessionWanted } from "../workload/story.ts";
import type { World } from "../workload/world.ts";
import { type CallContext, lineOf } from "./call-line.ts";
import { type CredentialBook, CredentialMissingError, createCredentialBook, UNKNOWN_KEYS } from "./credential-book.ts";
import { type Exchanged, type ExchangeRequest, exchange, TIMEOUTS, type Timeouts } from "./exchange.ts";
import type { ObservedLine } from "./observed-line.ts";
import type { RunClock } from "./run-clock.ts";
import type { Secrets } from "./secrets.ts";
import type { Target } from "./target.ts";
import { openTransport } from "./transport.ts";

export type Sent = { line: ObservedLine; answer: Exchanged };

export type Wire = {
  send(step: Step, context: CallContext, options?: { keepEvents?: boolean }): Promise<Sent>;
  book: CredentialBook;
  connections: number;
  close(): Promise<void>;
};

export type WireOptions = {
  target: Target;
  secrets: Secrets;
  world: World;
  clock: RunClock;
  stage: string;
  driver: string;
  /** Run and stage, by which the platform counts; call ids begin with it. */
  idPrefix: string;
  timeouts?: Partial<Timeouts>;
  /** Where lines go that no step asked for: the minting of sessions. */
  onLine(line: ObservedLine): void;
};

const FOREIGN_ORIGIN = "https://foreign.example";

/** `session_token` and `expires_in` of a successful exchange; an error that says what came otherwise. */
const mintedFrom = (wanted: SessionWanted, { line, answer }: Sent): { token: string; expiresInS: number } => {
  let token: unknown;
  let expiresIn: unknown;
  try {
    ({ session_token: token, expires_in: expiresIn } = JSON.parse(answer.text) as Record<string, unknown>);
  } catch {
    token = undefined;
  }
  if (line.outcome !== "200" && line.outcome !== "201") {
    throw new Error(
      `no session for ${wanted.of}, product ${wanted.product}: expected 200 from the exchange, got ${line.outcome}`,
    );
  }
  if (typeof token !== "string") {
    throw new Error(`no session for ${wanted.of}, product ${wanted.product}: the answer has no \`session_token\``);
  }
  return { token, expiresInS: typeof expiresIn === "number" && expiresIn > 0 ? expiresIn : 60 };
};

/** Where a step goes: tiles and key management may live elsewhere than the rest (interface.md section 2). */
export const addressOf = (target: Target, step: Step): { origin: string; path: string } => {
  let url = `${target.base_url}${step.path}`;
  const tile = /^\/maps\/tiles\/(\d+)\/(\d+)\/(\d+)$/.exec(step.path);
  if (step.route === "maps.tiles" && target.tile_url !== undefined && tile !== null) {
    const [, z, x, y] = tile as unknown as [string, string, string, string];
    url = target.tile_url.replaceAll("{z}", z).replaceAll("{x}", x).replaceAll("{y}", y);
  } else if (step.route.startsWith("keys.") && target.key_management_url !== undefined) {
    url = `${target.key_management_url.replace(/\/+$/, "")}${step.path}`;
  }
  const { origin, pathname, search } = new URL(url);
  return { origin, path: pathname + search };
};

export const openWire = async (options: WireOptions): Promise<Wire> => {
  const { target, secrets, world, clock } = options;
  const timeouts: Timeouts = { ...TIMEOUTS, ...options.timeouts };
  const transport = await openTransport(target.transport ?? {}, secrets);
  const shared = Object.entries({ "user-agent": "floodgate", accept: "application/json", ...transport.headers });
  let minted = 0;

  const headersOf = (step: Step, id: string, credential: string | null): string[] => {
    const headers = new Map<string, string>(shared);
    if (step.route !== "-" && routeOf(step.route).stream !== undefined) headers.set("accept", "text/event-stream");
    if (step.body !== undefined) headers.set("content-type", "application/json");
    headers.set("x-request-id", id);
    if (credential !== null) {
      if (step.via === "authorization") headers.set("authorization", `Bearer ${credential}`);
      else headers.set("x-api-key", credential);
    }
    if (step.origin === "foreign") headers.set("origin", FOREIGN_ORIGIN);
    else if (step.origin === "null") headers.set("origin", "null");
    else if (step.origin === "listed") {
      const of = "of" in step.credential ? step.credential.of : undefined;
      // Without a caller there is no allowlist; any origin of a browser will do.
      const listed = of === undefined ? FOREIGN_ORIGIN : book.originOf(of);
      if (listed === undefined) throw new CredentialMissingError(of ?? "-", "origin");
      headers.set("origin", listed);
    }
    for (const [name, value] of Object.entries(step.headers ?? {})) headers.set(name.toLowerCase(), value);
    return [...headers].flat();
  };

  // 401 for a credential that should be good: it may have been exchanged or have ended meanwhile.
  const mayBeStale = (step: Step, outcome: string): boolean => outcome === "401" && step.facts.state === "valid";

  const credentialOf = (step: Step): string | null | Promise<string | null> => {
    if (step.credential.as === "unknown" && step.route === "sdk.sessions") return UNKNOWN_KEYS.publishable;
    const known = book.peek(step.credential);
    return known === undefined ? book.fetch(step.credential) : known;
  };

  const send: Wire["send"] = async (step, context, { keepEvents } = {}) => {
    const credential = await credentialOf(step);
    const request: ExchangeRequest = {
      ...addressOf(target, step),
      method: step.method,
      headers: headersOf(step, context.id, credential),
      ...(step.body === undefined ? {} : { body: step.body }),
      ...(step.abort === undefined ? {} : { abort: step.abort }),
      ...(step.slowReadMs === undefined ? {} : { slowReadMs: step.slowReadMs }),
      ...(keepEvents === true ? { keepEvents } : {}),
    };
    const stream = step.route === "-" ? undefined : routeOf(step.route).stream;
    if (stream !== undefined) request.stream = stream;
    const answer = await exchange(transport.dispatcher, request, clock, timeouts);
    const line = lineOf(step, answer, context, clock.errorUs);
    if (mayBeStale(step, line.outcome)) book.refused(step.credential);
    return { line, answer };
  };

  const book = createCredentialBook(target, secrets, async (wanted) => {
    const step = exchangeStep(world, minted, wanted.of, wanted.product);
    const id = `${options.idPrefix}-s${minted++}`;
    const context = { id, stage: options.stage, driver: options.driver, intendedUs: clock.nowUs() };
    const sent = await send(step, context);
    options.onLine(sent.line);
    return mintedFrom(wanted, sent);
  });

  return { send, book, connections: transport.connections, close: transport.close };
};
