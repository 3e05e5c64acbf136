/**
 * One incoming call from its head to its last byte. The core decides; this asks the world what the core wants to know, and
 * writes what came out. It begins in the earliest hook of the server, so a call that is shed has cost no parsing.
 *
 * Whatever happens, a call ends in exactly one of three ways: an answer is written, a stream ends, or the client has left.
 * Slots are given back in each of them, and a charge is undone where no answer could be written.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Route, type RouteName, routeOf } from "../../contract/routes.ts";
import { outcomeOf } from "../../contract/subcodes.ts";
import { Call, type Refuse, UNAVAILABLE } from "../../core/call.ts";
import { advance } from "../../core/order.ts";
import type { Inference } from "../inference.ts";
import type { Take } from "../limiter.ts";
import type { SlotPolicy } from "../parts.ts";
import { answerAtOnce, answerLater, reasonOf } from "./asks.ts";
import { recordCall } from "./call-record.ts";
import { addressOf, credentialOf, credentialsConflict, requestIdOf } from "./caller.ts";
import { cutConnection, unwatchConnection, watchConnection } from "./connection-watch.ts";
import type { ApiContext } from "./context.ts";
import { EXPOSED } from "./cors.ts";
import type { StreamLimits, StreamOutcome, StreamOwner, StreamRun } from "./stream-run.ts";
import type { StreamVoice } from "./stream-script.ts";
import { TimedJob } from "./timed-job.ts";

/** What is left to do for an admitted call. */
export type Work = (call: IncomingCall) => void;

/** Refused before anybody was authenticated: counted for no organization. */
const BEFORE_AUTHENTICATION = new Set<string>(["b2b_overloaded", "unauthenticated", "key_service_unavailable"]);

export class IncomingCall implements StreamOwner {
  readonly context: ApiContext;
  readonly route: Route;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly call: Call;
  readonly query: unknown;
  readonly params: unknown;
  readonly #work: Work;
  readonly #beganMs = performance.now();
  #over = false;
  #watched = false;
  /** The charge made for this call, to be undone if it comes to nothing. */
  #charge: Take | null = null;
  /** What the inference does for this call. */
  #job: TimedJob | null = null;
  #stream: StreamRun | null = null;

  constructor(
    context: ApiContext,
    name: RouteName,
    work: Work,
    request: IncomingMessage,
    response: ServerResponse,
    query: unknown,
    params: unknown,
  ) {
    const { headers } = request;
    this.context = context;
    this.route = routeOf(name);
    this.#work = work;
    this.request = request;
    this.response = response;
    this.query = query;
    this.params = params;
    this.requestId = requestIdOf(headers) ?? context.freshId();
    if (credentialsConflict(headers)) context.credentialConflicts += 1;
    this.call = new Call(
      this.route,
      credentialOf(headers),
      (headers.origin as string | undefined) ?? null,
      addressOf(request.socket.remoteAddress ?? "", headers, context.trustedProxies),
      context.clock.nowMs(),
      context.deployment.view,
      context.shedder,
    );
  }

  get voice(): StreamVoice {
    return this.context.parts.voice;
  }

  get limits(): StreamLimits {
    return this.context.streamLimits;
  }

  get inference(): Inference {
    return this.context.inference;
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** Runs the checks from where they stand. Nothing that is thrown in here reaches the server. */
  go(): void {
    try {
      this.#advance();
    } catch (error) {
      this.#broke(error);
    }
  }

  #advance(): void {
    const { call, context } = this;
    while (!this.#over) {
      const next = advance(call, context.parts.orders);
      if (next === null) {
        this.#work(this);
        return;
      }
      if ("refuse" in next) {
        this.refuse(next);
        return;
      }
      if (!answerAtOnce(this, next)) {
        answerLater(this, next);
        return;
      }
    }
  }

  /** The limiter let the call in: what it took is this call's to undo. */
  charged(take: Take): void {
    this.#charge = take;
  }

  /** From the first wait on, the client's leaving must be seen. */
  watch(): void {
    if (this.#watched) return;
    this.#watched = true;
    watchConnection(this, this.request, this.response);
  }

  /** Nothing more is done for this call: slots, inference, bookkeeping. */
  #end(how: keyof SlotPolicy): void {
    this.#over = true;
    this.context.parts.slots[how](this.call);
    if (this.#job !== null) this.context.inference.release(this.#job);
    if (this.#stream !== null) {
      this.#stream.abandon();
      this.context.openStreams.delete(this.#stream);
    }
    unwatchConnection(this, this.request);
  }

  /** Has the inference work for this call, then goes on with `done`. */
  infer(done: () => void): void {
    const { inference } = this.context;
    this.watch();
    if (this.#over) return;
    this.#job = new TimedJob(inference, () => {
      if (this.#over) return;
      try {
        done();
      } catch (error) {
        this.#broke(error);
      }
    });
    inference.submit(this.#job);
  }

  /** Nobody waits for the answer any more. Also called when an answer was written and its connection closes. */
  clientLeft(): void {
    if (this.#over) return;
    const { response } = this;
    this.#end("clientLeft");
    if (!response.headersSent) this.undoCharge("client-left");
    this.#count(response.headersSent ? "200" : "indeterminate");
  }

  undoCharge(reason: "client-left" | "work-failed"): void {
    const charge = this.#charge;
    this.#charge = null;
    if (charge !== null) this.context.settlement.undo(charge, reason);
  }

  refuse(refuse: Refuse): void {
    const { status, headers, body } = this.context.parts.writeRefusal(refuse);
    this.answer(status, headers, body, outcomeOf(refuse.refuse), BEFORE_AUTHENTICATION.has(refuse.refuse));
  }

  /** Headers that every answer of ours has, besides its own. */
  headers(own: readonly string[]): string[] {
    const headers = own.slice();
    headers.push("X-Request-Id", this.requestId, "Vary", "Origin");
    const allowed = this.context.parts.cors(this.call);
    if (allowed !== null) {
      headers.push("Access-Control-Allow-Origin", allowed, "Access-Control-Expose-Headers", EXPOSED);
    }
    return headers;
  }

  /** Ends the call with an answer. */
  answer(status: number, headers: readonly string[], body: string, outcome: string, isAnonymous = false): void {
    if (this.#over) return;
    const { response, context } = this;
    if (this.request.socket.destroyed) {
      this.clientLeft();
      return;
    }
    this.#end("answering");
    this.#charge = null;
    this.#count(outcome, isAnonymous);
    if (context.stopping) response.shouldKeepAlive = false;
    context.parts.writeAnswer(response, status, this.headers(headers), body);
  }

  /** Watches the connection while `run` speaks. */
  beginStream(run: StreamRun, own: readonly string[]): void {
    this.watch();
    if (this.#over) return;
    const { response, context } = this;
    context.openStreams.add(run);
    this.#stream = run;
    if (context.stopping) response.shouldKeepAlive = false;
    run.open(this.headers(own));
  }

  streamEnds(outcome: StreamOutcome): void {
    if (this.#over) return;
    this.#end("answering");
    this.#count(outcome);
  }

  /** An ordered failure of the connection itself: nothing, or half an answer. */
  failConnection(mode: "truncate" | "reset", headers: readonly string[], body: string): void {
    if (this.#over) return;
    const { response } = this;
    if (mode === "reset") {
      this.clientLeft();
    } else {
      this.#end("answering");
      this.#count("indeterminate");
      response.writeHead(200, this.headers(headers));
      response.write(body.slice(0, Math.floor(body.length / 2)));
    }
    cutConnection(response, mode);
  }

  #count(outcome: string, isAnonymous = false): void {
    const { context, call } = this;
    const known = !isAnonymous && call.lookup !== undefined && call.lookup !== null && call.lookup !== UNAVAILABLE;
    const org = known ? call.snapshot.org.id : "-";
    recordCall(context, this.requestId, this.route.name, org, outcome, this.#beganMs, call.credential);
  }

  /** A fault of ours. The specification knows one 5xx, so it is that one; the call costs nothing. */
  #broke(error: unknown): void {
    const { context, response } = this;
    context.log.error({ requestId: this.requestId, route: this.route.name, reason: reasonOf(error) }, "a call broke");
    this.undoCharge("work-failed");
    if (this.#over) {
      if (!response.writableEnded) response.destroy();
      return;
    }
    if (response.headersSent) {
      this.clientLeft();
      response.destroy();
      return;
    }
    this.refuse({ refuse: "key_service_unavailable" });
  }
}
