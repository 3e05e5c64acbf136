/**
 * What a call is made of, and how it ends: an answer is written, a stream ends, or the client has left; whatever happens, in
 * exactly one of the three. Slots are given back in each of them, and a charge is undone where no answer could be written.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { outcomeOf } from "../../contract/refusals.ts";
import { type Route, type RouteName, routeOf } from "../../contract/routes.ts";
import { Call, type Caller, type Head, type Refuse, UNAVAILABLE } from "../../core/call.ts";
import type { Take } from "../limiter.ts";
import type { SlotPolicy } from "../parts.ts";
import { reasonOf } from "../reason-of.ts";
import { beginningMs, recordCall } from "./call-record.ts";
import { readCaller, requestIdOf } from "./caller.ts";
import { cutConnection, unwatchConnection, watchConnection } from "./connection-watch.ts";
import type { ApiContext } from "./context.ts";
import { EXPOSED } from "./cors.ts";
import type { StreamRun } from "./routes/stream-run.ts";
import type { TimedJob } from "./routes/timed-job.ts";

/** Refused before anybody was authenticated: counted for no organization. */
const BEFORE_AUTHENTICATION = new Set<string>(["b2b_overloaded", "unauthenticated", "key_service_unavailable"]);

/** `Whole`: the call with all that it can do, which its work is given. */
export class EndingCall<Whole> implements Head {
  readonly context: ApiContext;
  readonly route: Route;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly #givenId: string | null;
  readonly requestId: string;
  readonly call: Call;
  readonly query: unknown;
  readonly params: unknown;
  protected readonly work: (call: Whole) => void;
  readonly #beganMs: number;
  #over = false;
  #watched = false;
  /** The charge made for this call, to be undone if it comes to nothing. */
  #charge: Take | null = null;
  /** What the inference does for this call. */
  protected job: TimedJob | null = null;
  protected stream: StreamRun | null = null;

  constructor(
    context: ApiContext,
    name: RouteName,
    work: (call: Whole) => void,
    request: IncomingMessage,
    response: ServerResponse,
    query: unknown,
    params: unknown,
  ) {
    this.context = context;
    this.#beganMs = beginningMs(context);
    this.route = routeOf(name);
    this.work = work;
    this.request = request;
    this.response = response;
    this.query = query;
    this.params = params;
    this.#givenId = requestIdOf(request.headers);
    this.requestId = this.#givenId ?? context.freshId();
    this.call = new Call(this.route, this, context.deployment.view, context.shedder);
  }

  readCaller(): Caller {
    return readCaller(this.context, this.request);
  }

  nowMs(): number {
    return this.context.clock.nowMs();
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** The limiter admitted the call: what it took is this call's to undo. */
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
  protected end(how: keyof SlotPolicy): void {
    this.#over = true;
    this.context.parts.slots[how](this.call);
    if (this.job !== null) this.context.inference.release(this.job);
    if (this.stream !== null) {
      this.stream.abandon();
      this.context.openStreams.delete(this.stream);
    }
    if (this.#watched) unwatchConnection(this, this.request);
  }

  /** Nobody waits for the answer any more. Also called when an answer was written and its connection closes. */
  clientLeft(): void {
    if (this.#over) return;
    const { response } = this;
    this.end("clientLeft");
    if (!response.headersSent) this.undoCharge("client-left");
    this.count(response.headersSent ? "200" : "indeterminate");
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
    this.end("answering");
    this.#charge = null;
    this.count(outcome, isAnonymous);
    if (context.stopping) response.shouldKeepAlive = false;
    context.parts.writeAnswer(response, status, this.headers(headers), body);
  }

  /** An ordered failure of the connection itself: nothing, or half an answer. */
  failConnection(mode: "truncate" | "reset", headers: readonly string[], body: string): void {
    if (this.#over) return;
    const { response } = this;
    if (mode === "reset") {
      this.clientLeft();
      cutConnection(response, mode, "");
      return;
    }
    this.end("answering");
    this.count("indeterminate");
    response.writeHead(200, this.headers(headers));
    cutConnection(response, mode, body.slice(0, Math.floor(body.length / 2)));
  }

  protected count(outcome: string, isAnonymous = false): void {
    const { context, call } = this;
    const known = !isAnonymous && call.lookup !== undefined && call.lookup !== null && call.lookup !== UNAVAILABLE;
    const org = known ? call.snapshot.org.id : "-";
    recordCall(context, this.#givenId, this.requestId, this.route.name, org, outcome, this.#beganMs, call);
  }

  /** A fault of ours. The specification knows one 5xx, so it is that one; the call costs nothing. */
  protected broke(error: unknown): void {
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
