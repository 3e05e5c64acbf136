/** Sends the calls of stories and writes their lines: host, credential, origin, call id, outcome. */

import { CODES_MOST, distinctNames, foreignMoment, foreignValue, OTHER_CODES } from "../contract/foreign-text.ts";
import * as refusals from "../contract/refusals.ts";
import { isStreamed, routeOf } from "../contract/routes.ts";
import { lastEventOf } from "../contract/streams.ts";
import { transportCode } from "../contract/transport-codes.ts";
import type { CallLine } from "../history/line.ts";
import { known } from "../history/statistics/statistics.ts";
import type { RunClock } from "../supervision/waiting.ts";
import type { Secrets } from "../target/secrets.ts";
import { CredentialMissingError, credentialFinder, readStated } from "../target/stated-credentials.ts";
import type { Target } from "../target/target.ts";
import type { BudgetGuard, Charging, Taken } from "../workload/budget.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import type { HeldSession } from "../workload/handover.ts";
import * as steps from "../workload/step.ts";
import { renewAtMs, TIMEOUTS, type Timeouts } from "../workload/timeouts.ts";
import { type OutgoingRequest, type Received, startRequest } from "./send-request.ts";
import { openTransport } from "./transport.ts";

// Makes a history line of a request and its answer.

export type CallContext = {
  id: string;
  stage: string;
  driver: string;
  intendedUs: number;
  attempt?: number;
  unscheduled?: "mint" | "step";
};

/** A truncated answer counts as no answer, because the missing part is unknown. */
const isWhole = ({ ended }: Received): boolean => ended === "eof" || ended === "refused";

const headerText = (value: string | string[] | undefined) => (Array.isArray(value) ? value.join(", ") : value);

const codeOf = distinctNames(CODES_MOST, OTHER_CODES);

/** Bounds the number of unlisted codes, because a hostile server may send a new one each time. */
export const countedOutcome = (outcome: string): string =>
  outcome.charAt(3) !== " " || refusals.isListed(outcome)
    ? outcome
    : `${outcome.slice(0, 4)}${codeOf(outcome.slice(4))}`;

const answerFields = (step: steps.Step, seen: Received): Partial<CallLine> & { outcome: string } => {
  const error = seen.error === undefined ? {} : { error: transportCode(seen.error) };
  if (seen.status === null) return { outcome: "indeterminate", ...error };
  if (seen.seen !== null) {
    const ending = { ended: seen.ended, events: seen.seen.events, aborted: seen.aborted };
    return { outcome: refusals.countedAs(refusals.outcomeOfStream(seen.status, ending)), ...error };
  }
  if (!isWhole(seen)) return { outcome: "indeterminate", error: seen.ended, ...error };
  const coding = refusals.codingOf(headerText(seen.headers["content-encoding"]));
  const answer = refusals.readAnswer(seen.status, seen.text, { coding, anyBody: steps.mayHaveAnyBody(step) });
  const fields: Partial<CallLine> & { outcome: string } = { outcome: countedOutcome(answer.outcome) };
  if (coding !== null) fields.error = `coded-${coding}`;
  // A success without the expected event stream counts as empty, because the caller got no event.
  if (isStreamed(step) && answer.outcome === `${seen.status}` && seen.status < 300) {
    fields.outcome = refusals.emptyOutcome(seen.status);
  }
  if (answer.outcome === refusals.ERROR_IN_BODY || seen.status >= 300) fields.envelope = answer.envelope;
  if (answer.quota !== undefined) {
    const { meter, limit, used } = answer.quota;
    fields.quota = { meter: foreignValue(meter), limit: foreignValue(limit), used: foreignValue(used) };
  }
  const retryAfter = headerText(seen.headers["retry-after"]);
  if (retryAfter !== undefined) fields.retry_after = foreignMoment(retryAfter);
  if (step.route === "sdk.sessions" && seen.status < 300) {
    const { expires_in, product } = refusals.isObject(answer.body) ? answer.body : {};
    fields.expires_in = foreignValue(expires_in);
    fields.product = foreignValue(product);
  }
  return fields;
};

const streamFields = (step: steps.Step, seen: Received): Partial<CallLine> => {
  if (!isStreamed(step)) return {};
  if (seen.seen === null) return { ended: seen.ended };
  const { events, late, names, gapsUs, firstUs, lastUs } = seen.seen;
  return {
    ended: seen.ended,
    events,
    late: late > 0 ? late : undefined,
    event_names: events > 0 ? [...names] : undefined,
    first_event_us: firstUs ?? undefined,
    last_event_us: lastUs ?? undefined,
    gaps_us: gapsUs.length > 0 ? gapsUs : undefined,
  };
};

export const lineOf = (step: steps.Step, seen: Received, context: CallContext, clockErrorUs: number): CallLine => ({
  type: "call",
  id: context.id,
  stage: context.stage,
  driver: context.driver,
  org: step.org,
  bucket: step.bucket,
  route: step.route,
  intended_us: Math.min(context.intendedUs, seen.startedUs),
  started_us: seen.startedUs,
  connect_us: seen.connectUs,
  sent_us: seen.sentUs,
  first_us: seen.firstUs,
  done_us: Math.max(seen.doneUs, seen.sentUs),
  attempt: context.attempt ?? 0,
  unscheduled: context.unscheduled,
  clock_error_us: clockErrorUs,
  ...answerFields(step, seen),
  ...streamFields(step, seen),
  meter: step.meter,
  slow_reader: step.slowReadMs === undefined ? undefined : true,
  aborted: seen.aborted ? true : undefined,
  facts: step.facts,
});

export type Sent = { line: CallLine; answer: Received };

export type ApiClient = Awaited<ReturnType<typeof openApiClient>>;

/** A call was not sent, because the budget is spent or the stop condition is met. */
export class NotSentError extends Error {
  override name = "NotSentError";
}

/** The session of an exchange's answer. Throws for a refusal. */
const mintedFrom = ({ of, product }: steps.SessionWanted, { line, answer }: Sent): HeldSession => {
  const failed = (why: string): Error => new Error(`no session for ${of}, product ${product}: ${why}`);
  if (line.outcome !== "200" && line.outcome !== "201") {
    throw failed(`expected 200 from the exchange, got ${line.outcome}`);
  }
  const body = refusals.parseJson(answer.text);
  const { session_token: token, expires_in: expiresIn } = refusals.isObject(body) ? body : {};
  if (typeof token !== "string") throw failed("the answer has no `session_token`");
  const nowMs = Date.now();
  const lifeMs = 1000 * (typeof expiresIn === "number" && expiresIn > 0 ? expiresIn : 60);
  return { token, renewAtMs: renewAtMs(nowMs, lifeMs), endsAtMs: nowMs + lifeMs };
};

const FORGET_EVERY_MS = 10_000;
const NEVER = Number.POSITIVE_INFINITY;

/** Holds keys, tokens and origins of roles and tenants, and sessions, which are minted on first use and renewed. */
const createCredentialBook = (
  target: Target,
  secrets: Secrets,
  mint: (wanted: steps.SessionWanted) => Promise<HeldSession>,
) => {
  const { find, originOf } = credentialFinder(target);
  const held = new Map<string, HeldSession>();
  const minting = new Map<string, Promise<string>>();
  const forgottenAtMs = new Map<string, number>();
  const mintSession = (wanted: steps.SessionWanted, name: string): Promise<string> =>
    known(minting, name, async () => {
      using atEnd = new DisposableStack();
      atEnd.defer(() => minting.delete(name));
      const session = await mint(wanted);
      held.set(name, session);
      return session.token;
    });

  /** Names are cached, because steps share few refs. Sessions are not: each step has a new ref for its session. */
  const names = new WeakMap<steps.CredentialRef, string>();
  const nameOf = (ref: steps.CredentialRef): string => {
    const name = names.get(ref) ?? steps.credentialName(ref);
    if (ref.as !== "session") names.set(ref, name);
    return name;
  };

  /** The value, if it is held and has not expired. */
  const peek = (ref: steps.CredentialRef): string | undefined => {
    const name = nameOf(ref);
    const known = held.get(name);
    const nowMs = Date.now();
    if (known === undefined || known.endsAtMs <= nowMs) return undefined;
    // Renewed in the background; a failure is retried with the next call.
    if (known.renewAtMs <= nowMs && ref.as === "session") mintSession(ref, name).catch(() => undefined);
    return known.token;
  };

  /** The value, read or minted; `null` for a credential that belongs to no role or tenant. */
  const fetch = async (ref: steps.CredentialRef): Promise<string | null> => {
    const known = peek(ref);
    if (known !== undefined) return known;
    if (ref.as === "session") return mintSession(ref, steps.credentialName(ref));
    if (!("of" in ref)) return null;
    const token = await readStated(find(ref.of, ref.as), secrets);
    // An administrator's token is not kept here, because it expires; `secrets` keeps it for its life.
    if (ref.as !== "admin") held.set(steps.credentialName(ref), { token, renewAtMs: NEVER, endsAtMs: NEVER });
    return token;
  };

  return {
    ...{ peek, fetch, originOf },
    sessionOf: (ref: steps.CredentialRef): HeldSession | undefined => held.get(steps.credentialName(ref)),
    /** A valid credential got 401: forgets its value, at most once in ten seconds. */
    refused: (ref: steps.CredentialRef): void => {
      if (!("of" in ref)) return;
      const name = steps.credentialName(ref);
      const nowMs = Date.now();
      if (nowMs - (forgottenAtMs.get(name) ?? Number.NEGATIVE_INFINITY) < FORGET_EVERY_MS) return;
      forgottenAtMs.set(name, nowMs);
      held.delete(name);
      if (ref.as !== "session") secrets.forget(find(ref.of, ref.as).ref);
    },
    prepare: async (wanted: readonly steps.SessionWanted[]): Promise<void> => {
      for (const { of, product } of wanted) await fetch({ as: "session", of, product });
    },
  };
};

/** Bounds the cache, because paths with numbers in them are as many as the calls. */
const ADDRESSES_MOST = 10_000;

/** The parsed URLs of steps, kept because parsing one costs more than the rest of a call's preparation. */
const addressBook = (target: Target) => {
  const known = new Map<string, { origin: string; path: string }>();
  return (step: steps.Step): { origin: string; path: string } => {
    const url = steps.urlOf(target, step);
    const found = known.get(url);
    if (found !== undefined) return found;
    const { origin, pathname, search } = new URL(url);
    const address = { origin, path: pathname + search };
    if (known.size >= ADDRESSES_MOST) known.clear();
    known.set(url, address);
    return address;
  };
};

export const openApiClient = async (options: {
  target: Target;
  secrets: Secrets;
  view: TargetView;
  clock: RunClock;
  stage: string;
  driver: string;
  /** Prefix of call ids: run and stage, by which the platform counts. */
  idPrefix: string;
  timeouts?: Partial<Timeouts>;
  /** Asked before each call leaves; unbounded if absent. */
  budget?: BudgetGuard;
  connect?: Parameters<typeof openTransport>[2];
  /** Gets the lines of calls that are not steps: exchanges that mint sessions. */
  onLine(line: CallLine): void;
}) => {
  const { target, secrets, view, clock, budget } = options;
  const timeouts: Timeouts = { ...TIMEOUTS, ...options.timeouts };
  const transport = await openTransport(target.transport ?? {}, secrets, options.connect);
  const addressOf = addressBook(target);
  let minted = 0;

  const credentialOf = (step: steps.Step): string | null | Promise<string | null> => {
    const nobodys = steps.nobodysCredential(step);
    if (nobodys !== undefined) return nobodys;
    return book.peek(step.credential) ?? book.fetch(step.credential);
  };

  const headersWith = (credential: string | null, step: steps.Step, id: string): Record<string, string> => {
    const of = "of" in step.credential ? step.credential.of : null;
    const listedOrigin = step.origin === "listed" && of !== null ? book.originOf(of) : undefined;
    const headers = steps.headersOf(step, { id, credential, listedOrigin, shared: transport.headers });
    if (headers === null) throw new CredentialMissingError(of ?? "-", "origin");
    return headers;
  };

  const requestOf = (step: steps.Step, id: string, credential: string | null, keepEvents: boolean): OutgoingRequest => {
    const { method, body, abort, slowReadMs } = step;
    const headers = headersWith(credential, step, id);
    const kind = step.route === "-" ? undefined : routeOf(step.route).stream;
    const stream = kind === undefined ? undefined : lastEventOf(kind, target.stream_end);
    const sent = { headers: Object.entries(headers).flat(), body, abort, slowReadMs };
    return { ...addressOf(step), method, ...sent, keepEvents, stream };
  };

  /** Waits until the budget has room and the rate lets the call leave. Throws if the call must not leave. */
  const leave = async (budget: BudgetGuard, charging: Charging, askedUs: number, asked: Taken | null) => {
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

  const begin = (
    step: steps.Step,
    context: CallContext,
    sent: (sent: Sent) => void,
    failed: (error: unknown) => void,
    keepEvents = false,
  ): void => {
    const exchange = (request: OutgoingRequest, taken: Taken | null, heldUs: number): void => {
      // A call held back by the budget was not due earlier.
      const due = heldUs === 0 ? context : { ...context, intendedUs: context.intendedUs + heldUs };
      const over = (answer: Received): void => {
        try {
          const line = lineOf(step, answer, due, clock.errorUs);
          const { sent: wasSent, sentUs, doneUs } = answer;
          taken?.settle(clock.nowUs(), { outcome: line.outcome, sent: wasSent, sentUs, doneUs, ending: line });
          // A valid credential that got 401 may have been replaced or have expired.
          if (line.outcome === "401" && step.facts.state === "valid") book.refused(step.credential);
          sent({ line, answer });
        } catch (error) {
          failed(error);
        }
      };
      // `over` runs in a later microtask, because the connection is not free yet when it reports the end.
      startRequest(transport.dispatcher, request, clock, timeouts, (answer) => void Promise.resolve(answer).then(over));
    };
    const withCredential = (credential: string | null): void => {
      const request = requestOf(step, context.id, credential, keepEvents);
      const charge = step.meter === "design_analyses" ? "analyses" : step.meter;
      const charging: Charging = { stream: request.stream !== undefined, charge };
      const askedUs = clock.nowUs();
      const asked = budget?.take(askedUs, charging) ?? null;
      const isFree = budget === undefined || (asked !== null && asked.waitUs === 0 && asked.mayLeave());
      if (isFree) exchange(request, asked, 0);
      else
        leave(budget, charging, askedUs, asked)
          .then(({ taken, heldUs }) => exchange(request, taken, heldUs))
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

  const send = (step: steps.Step, context: CallContext, { keepEvents = false } = {}): Promise<Sent> =>
    new Promise((resolve, reject) => begin(step, context, resolve, reject, keepEvents));

  const book: ReturnType<typeof createCredentialBook> = createCredentialBook(target, secrets, async (wanted) => {
    const step = steps.exchangeStep(view, minted, wanted.of, wanted.product);
    const { stage, driver, idPrefix } = options;
    const id = `${idPrefix}-s${minted++}`;
    const sent = await send(step, { id, stage, driver, intendedUs: clock.nowUs(), unscheduled: "mint" });
    options.onLine(sent.line);
    return mintedFrom(wanted, sent);
  });

  return {
    send,
    /** `send` with callbacks, for thousands of calls per second. `failed` may be called before `begin` returns. */
    begin,
    /** The headers of a step, for a driver that sends it by itself. Throws if its credential is not loaded. */
    headersOf: (step: steps.Step, id: string): Record<string, string> => {
      const nobodys = steps.nobodysCredential(step);
      const credential = nobodys === undefined ? book.peek(step.credential) : nobodys;
      if (credential !== undefined) return headersWith(credential, step, id);
      throw new Error(`no credential is at hand for ${steps.credentialName(step.credential)}`);
    },
    book,
    sharedHeaders: transport.headers,
    connections: transport.connections,
    close: transport.close,
    [Symbol.asyncDispose]: transport.close,
  };
};
