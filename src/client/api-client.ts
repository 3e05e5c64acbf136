/**
 * The one place that sends a call of a story and writes its line: puts host, credential, origin and call id in, sends it,
 * names what came. Everything that acts on a deployment as a client goes through here.
 */

import { routeOf } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import type { Charging, LeaseKeeper, Taken } from "../workload/lease.ts";
import { headersOf, nobodysCredential, urlOf } from "../workload/request.ts";
import type { Step } from "../workload/step.ts";
import { exchangeStep } from "../workload/step.ts";
import type { SessionWanted } from "../workload/story.ts";
import { TIMEOUTS, type Timeouts } from "../workload/timeouts.ts";
import { type CallContext, lineOf } from "./call-line.ts";
import type { RunClock } from "./clock.ts";
import { type CredentialBook, CredentialMissingError, createCredentialBook } from "./credential-book.ts";
import { type OutgoingRequest, type Received, sendRequest } from "./send-request.ts";
import { openTransport } from "./transport.ts";

export type Sent = { line: CallLine; answer: Received };

export type ApiClient = {
  send(step: Step, context: CallContext, options?: { keepEvents?: boolean }): Promise<Sent>;
  book: CredentialBook;
  connections: number;
  close(): Promise<void>;
};

/** The call was not sent: the budget is spent, or the run's stop condition is met. */
export class NotSentError extends Error {
  override name = "NotSentError";
}

type ApiClientOptions = {
  target: Target;
  secrets: Secrets;
  view: TargetView;
  clock: RunClock;
  stage: string;
  driver: string;
  /** Run and stage, by which the platform counts; call ids begin with it. */
  idPrefix: string;
  timeouts?: Partial<Timeouts>;
  /** Asked before each call leaves; not bounded where absent. */
  lease?: LeaseKeeper;
  /** How connections are made, in place of TCP. */
  connect?: Parameters<typeof openTransport>[2];
  /** Where lines go that no step asked for: the minting of sessions. */
  onLine(line: CallLine): void;
};

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

const addressOf = (target: Target, step: Step): { origin: string; path: string } => {
  const { origin, pathname, search } = new URL(urlOf(target, step));
  return { origin, path: pathname + search };
};

export const openApiClient = async (options: ApiClientOptions): Promise<ApiClient> => {
  const { target, secrets, view, clock, lease } = options;
  const timeouts: Timeouts = { ...TIMEOUTS, ...options.timeouts };
  const transport = await openTransport(target.transport ?? {}, secrets, options.connect);
  let minted = 0;

  const headersFor = (step: Step, id: string, credential: string | null): string[] => {
    const listedOrigin = "of" in step.credential ? book.originOf(step.credential.of) : undefined;
    const headers = headersOf(step, { id, credential, listedOrigin, shared: transport.headers });
    if (headers !== null) return Object.entries(headers).flat();
    throw new CredentialMissingError("of" in step.credential ? step.credential.of : "-", "origin");
  };

  // 401 for a credential that should be good: it may have been exchanged or have ended meanwhile.
  const mayBeStale = (step: Step, outcome: string): boolean => outcome === "401" && step.facts.state === "valid";

  const credentialOf = (step: Step): string | null | Promise<string | null> => {
    const nobodys = nobodysCredential(step);
    if (nobodys !== undefined) return nobodys;
    return book.peek(step.credential) ?? book.fetch(step.credential);
  };

  /** Waits until nothing in flight reserves what the call would be charged, and for its turn; throws when it must not leave. */
  const leave = async ({ meter }: Step, stream: boolean): Promise<{ taken?: Taken; heldUs: number }> => {
    if (lease === undefined) return { heldUs: 0 };
    const charge = meter === "design_analyses" ? "analyses" : meter;
    const askedUs = clock.nowUs();
    let leavesUs = askedUs;
    const charging: Charging = { stream, ...(charge === undefined ? {} : { charge }) };
    let taken = lease.take(askedUs, charging);
    while (taken === null) {
      if (lease.stopped !== null) throw new NotSentError(lease.stopped);
      await lease.settled();
      leavesUs = clock.nowUs();
      taken = lease.take(leavesUs, charging);
    }
    const { waitUs } = taken;
    const heldUs = leavesUs - askedUs + waitUs;
    if (waitUs > 0) await new Promise((resolve) => setTimeout(resolve, waitUs / 1000));
    if (taken.mayLeave()) return { taken, heldUs };
    const nowUs = clock.nowUs();
    taken.settle(nowUs, { outcome: "indeterminate", sent: false, sentUs: nowUs, doneUs: nowUs });
    throw new NotSentError(lease.stopped ?? "nothing more may be sent");
  };

  const send: ApiClient["send"] = async (step, context, { keepEvents } = {}) => {
    const credential = await credentialOf(step);
    const request: OutgoingRequest = {
      ...addressOf(target, step),
      method: step.method,
      headers: headersFor(step, context.id, credential),
      ...(step.body === undefined ? {} : { body: step.body }),
      ...(step.abort === undefined ? {} : { abort: step.abort }),
      ...(step.slowReadMs === undefined ? {} : { slowReadMs: step.slowReadMs }),
      ...(keepEvents === true ? { keepEvents } : {}),
    };
    const stream = step.route === "-" ? undefined : routeOf(step.route).stream;
    if (stream !== undefined) request.stream = stream;
    const { taken, heldUs } = await leave(step, stream !== undefined);
    // A call that the lease held back was not due before it might leave.
    const dueUs = context.intendedUs + heldUs;
    const answer = await sendRequest(transport.dispatcher, request, clock, timeouts);
    const line = lineOf(step, answer, { ...context, intendedUs: dueUs }, clock.errorUs);
    taken?.settle(clock.nowUs(), { ...answer, outcome: line.outcome });
    if (mayBeStale(step, line.outcome)) book.refused(step.credential);
    return { line, answer };
  };

  const book = createCredentialBook(target, secrets, async (wanted) => {
    const step = exchangeStep(view, minted, wanted.of, wanted.product);
    const id = `${options.idPrefix}-s${minted++}`;
    const context = {
      id,
      stage: options.stage,
      driver: options.driver,
      intendedUs: clock.nowUs(),
      unscheduled: "mint" as const,
    };
    const sent = await send(step, context);
    options.onLine(sent.line);
    return mintedFrom(wanted, sent);
  });

  return { send, book, connections: transport.connections, close: transport.close };
};
