/**
 * The one place that sends a call of a story and writes its line: puts host, credential, origin and call id in, sends it,
 * names what came. Everything that acts on a deployment as a client goes through here.
 */
import { isObject, parseJson } from "../contract/envelopes.ts";
import { routeOf } from "../contract/routes.ts";
import { lastEventOf } from "../contract/streams.ts";
import type { CallLine } from "../history/line.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { BudgetGuard, Charging, Taken } from "../workload/budget.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { headersOf, nobodysCredential, urlOf } from "../workload/request.ts";
import type { Step } from "../workload/step.ts";
import { exchangeStep } from "../workload/step.ts";
import type { SessionWanted } from "../workload/story.ts";
import { TIMEOUTS, type Timeouts } from "../workload/timeouts.ts";
import { type CallContext, lineOf } from "./call-line.ts";
import type { RunClock } from "./clock.ts";
import { type CredentialBook, CredentialMissingError, createCredentialBook } from "./credential-book.ts";
import { type OutgoingRequest, type Received, startRequest } from "./send-request.ts";
import { openTransport } from "./transport.ts";

export type Sent = { line: CallLine; answer: Received };

export type ApiClient = {
  send(step: Step, context: CallContext, options?: SendOptions): Promise<Sent>;
  /**
   * The same without a promise for each step on its way, for a driver of thousands of calls a second. One of the two is called
   * once, in a turn of its own.
   */
  begin(step: Step, context: CallContext, sent: (sent: Sent) => void, failed: (error: unknown) => void): void;
  book: CredentialBook;
  connections: number;
  close(): Promise<void>;
};

type SendOptions = { keepEvents?: boolean };

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
  budget?: BudgetGuard;
  /** How connections are made, in place of TCP. */
  connect?: Parameters<typeof openTransport>[2];
  /** Where lines go that no step asked for: the minting of sessions. */
  onLine(line: CallLine): void;
};

/** `session_token` and `expires_in` of a successful exchange; an error that says what came otherwise. */
const mintedFrom = ({ of, product }: SessionWanted, { line, answer }: Sent): { token: string; expiresInS: number } => {
  const failed = (why: string): Error => new Error(`no session for ${of}, product ${product}: ${why}`);
  if (line.outcome !== "200" && line.outcome !== "201") {
    throw failed(`expected 200 from the exchange, got ${line.outcome}`);
  }
  const body = parseJson(answer.text);
  const { session_token: token, expires_in: expiresIn } = isObject(body) ? body : {};
  if (typeof token !== "string") throw failed("the answer has no `session_token`");
  return { token, expiresInS: typeof expiresIn === "number" && expiresIn > 0 ? expiresIn : 60 };
};

type Address = { origin: string; path: string };

/** Of one route; paths with numbers in them are as many as the calls. */
const ADDRESSES_MOST = 1_000;

/** Asked for each call: by route, then by path, because a text made of both would have to be hashed each time. */
const addressBook = (target: Target): ((step: Step) => Address) => {
  const routes = new Map<Step["route"], Map<string, Address>>();
  return (step) => {
    let known = routes.get(step.route);
    if (known === undefined) {
      known = new Map();
      routes.set(step.route, known);
    }
    const found = known.get(step.path);
    if (found !== undefined) return found;
    const { origin, pathname, search } = new URL(urlOf(target, step));
    const address = { origin, path: pathname + search };
    if (known.size >= ADDRESSES_MOST) known.clear();
    known.set(step.path, address);
    return address;
  };
};

export const openApiClient = async (options: ApiClientOptions): Promise<ApiClient> => {
  const { target, secrets, view, clock, budget } = options;
  const timeouts: Timeouts = { ...TIMEOUTS, ...options.timeouts };
  const transport = await openTransport(target.transport ?? {}, secrets, options.connect);
  const addressOf = addressBook(target);
  let minted = 0;

  const headersFor = (step: Step, id: string, credential: string | null): string[] => {
    const isListed = step.origin === "listed" && "of" in step.credential;
    const listedOrigin = isListed ? book.originOf(step.credential.of) : undefined;
    const headers = headersOf(step, { id, credential, listedOrigin, shared: transport.headers });
    if (headers !== null) {
      const list: string[] = [];
      for (const name of Object.keys(headers)) list.push(name, headers[name] as string);
      return list;
    }
    throw new CredentialMissingError("of" in step.credential ? step.credential.of : "-", "origin");
  };

  // 401 for a credential that should be good: it may have been exchanged or have ended meanwhile.
  const mayBeStale = (step: Step, outcome: string): boolean => outcome === "401" && step.facts.state === "valid";

  const credentialOf = (step: Step): string | null | Promise<string | null> => {
    const nobodys = nobodysCredential(step);
    if (nobodys !== undefined) return nobodys;
    return book.peek(step.credential) ?? book.fetch(step.credential);
  };

  const chargingOf = ({ meter }: Step, stream: boolean): Charging => {
    if (meter === undefined) return { stream };
    return { stream, charge: meter === "design_analyses" ? "analyses" : meter };
  };

  /** Waits until nothing in flight reserves what the call would be charged, and for its turn; throws when it must not leave. */
  const leave = async (
    budget: BudgetGuard,
    charging: Charging,
    askedUs: number,
    asked: Taken | null,
  ): Promise<{ taken: Taken; heldUs: number }> => {
    let leavesUs = askedUs;
    let taken = asked;
    while (taken === null) {
      if (budget.stopped !== null) throw new NotSentError(budget.stopped.reason);
      await budget.settled();
      leavesUs = clock.nowUs();
      taken = budget.take(leavesUs, charging);
    }
    let heldUs = leavesUs - askedUs;
    for (let { waitUs } = taken; waitUs > 0; waitUs = taken.waitAgainUs(clock.nowUs())) {
      heldUs += waitUs;
      await new Promise((resolve) => setTimeout(resolve, waitUs / 1000));
    }
    if (taken.mayLeave()) return { taken, heldUs };
    const nowUs = clock.nowUs();
    taken.settle(nowUs, { outcome: "indeterminate", sent: false, sentUs: nowUs, doneUs: nowUs });
    throw new NotSentError(budget.stopped?.reason ?? "nothing more may be sent");
  };

  const requestOf = (step: Step, id: string, credential: string | null, keepEvents: boolean): OutgoingRequest => {
    const { origin, path } = addressOf(step);
    const { method, body, abort, slowReadMs } = step;
    const kind = step.route === "-" ? undefined : routeOf(step.route).stream;
    const stream = kind === undefined ? undefined : lastEventOf(kind, target.stream_end);
    return {
      origin,
      path,
      method,
      headers: headersFor(step, id, credential),
      body,
      abort,
      slowReadMs,
      keepEvents,
      stream,
    };
  };

  type Leaving = { request: OutgoingRequest; taken: Taken | null; heldUs: number };

  const exchange = (
    step: Step,
    context: CallContext,
    { request, taken, heldUs }: Leaving,
    sent: (sent: Sent) => void,
    failed: (error: unknown) => void,
  ): void => {
    // A call that the budget held back was not due before it might leave.
    const due = heldUs === 0 ? context : { ...context, intendedUs: context.intendedUs + heldUs };
    const over = (answer: Received): void => {
      try {
        const line = lineOf(step, answer, due, clock.errorUs);
        taken?.settle(clock.nowUs(), {
          outcome: line.outcome,
          sent: answer.sent,
          sentUs: answer.sentUs,
          doneUs: answer.doneUs,
          ending: line,
        });
        if (mayBeStale(step, line.outcome)) book.refused(step.credential);
        sent({ line, answer });
      } catch (error) {
        failed(error);
      }
    };
    // In a turn of its own: the connection is not free yet while it says that the answer has ended.
    startRequest(transport.dispatcher, request, clock, timeouts, (answer) => void Promise.resolve(answer).then(over));
  };

  const start = (
    step: Step,
    context: CallContext,
    keepEvents: boolean,
    sent: (sent: Sent) => void,
    failed: (error: unknown) => void,
  ): void => {
    const withCredential = (credential: string | null): void => {
      const request = requestOf(step, context.id, credential, keepEvents);
      if (budget === undefined) {
        exchange(step, context, { request, taken: null, heldUs: 0 }, sent, failed);
        return;
      }
      const charging = chargingOf(step, request.stream !== undefined);
      const askedUs = clock.nowUs();
      const asked = budget.take(askedUs, charging);
      if (asked !== null && asked.waitUs === 0 && asked.mayLeave()) {
        exchange(step, context, { request, taken: asked, heldUs: 0 }, sent, failed);
        return;
      }
      leave(budget, charging, askedUs, asked)
        .then((left) => exchange(step, context, { request, ...left }, sent, failed))
        .catch(failed);
    };
    try {
      const credential = credentialOf(step);
      if (credential instanceof Promise) credential.then(withCredential).catch(failed);
      else withCredential(credential);
    } catch (error) {
      failed(error);
    }
  };

  const begin: ApiClient["begin"] = (step, context, sent, failed) => start(step, context, false, sent, failed);

  const send: ApiClient["send"] = (step, context, { keepEvents = false } = {}) =>
    new Promise((resolve, reject) => start(step, context, keepEvents, resolve, reject));

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

  return { send, begin, book, connections: transport.connections, close: transport.close };
};
