/**
 * One incoming call. It gets the facts that the core asks for and carries out the core's decision. A call ends once:
 * answered, its stream over, or its client gone. Then its slots are released, and a charge without an answer is undone.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { outcomeOf } from "../../contract/refusals.ts";
import { type Route, type RouteName, routeOf } from "../../contract/routes.ts";
import { type Admin, type Ask, Call, type Caller, type Head, type Refuse, UNAVAILABLE } from "../../core/call.ts";
import { advance } from "../../core/order.ts";
import type { Job } from "../inference.ts";
import { reasonOf } from "../links/http-service.ts";
import type { Parts } from "../parts.ts";
import type { KeyChange, Take } from "../ports.ts";
import { cutConnection, EXPOSED, watchConnection } from "./answer.ts";
import { addressOf, credentialOf, credentialsConflict, requestIdOf } from "./caller.ts";
import { type ApiContext, countOutcome } from "./context.ts";
import { type Asked, readRequest } from "./request-body.ts";
import type { StreamOutcome, StreamRun } from "./routes/stream-run.ts";

export type Work = (call: IncomingCall) => void;

/** Counted for no organization: even where the key is known, for example a revoked one, the caller may be anybody. */
const UNAUTHENTICATED = outcomeOf("unauthenticated");

const CHANGES = { POST: "create", PATCH: "update", DELETE: "revoke", GET: undefined } as const;

export class IncomingCall implements Head {
  readonly context: ApiContext;
  readonly route: Route;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly call: Call;
  readonly #asked: Asked;
  readonly #givenId: string | null;
  readonly #beganMs = performance.now();
  /** What is done once every check has passed. */
  #work: Work;
  #isOver = false;
  #unwatch: (() => void) | null = null;
  #charge: Take | null = null;
  /** Stops the work of the inference and gives back its slot. */
  #stopWork: (() => void) | null = null;

  constructor(context: ApiContext, name: RouteName, work: Work, asked: Asked, response: ServerResponse) {
    this.context = context;
    this.route = routeOf(name);
    this.#work = work;
    this.#asked = asked;
    this.request = asked.raw;
    this.response = response;
    this.#givenId = requestIdOf(this.request.headers);
    this.requestId = this.#givenId ?? context.freshId();
    this.call = new Call(this.route, this, context.deployment, context.shedder);
    context.openCalls += 1;
  }

  readCaller(): Caller {
    const { context, request } = this;
    const { headers } = request;
    if (credentialsConflict(headers)) context.credentialConflicts += 1;
    const address = addressOf(request, context.trustedProxies);
    return { credential: credentialOf(headers), origin: headers.origin ?? null, address };
  }

  nowMs(): number {
    return this.context.clock.nowMs();
  }

  /** Runs the checks from where the call stands, then its work, and catches all errors. */
  go(): void {
    try {
      while (!this.#isOver) {
        const next = advance(this.call, this.context.parts.orders);
        if (next === null) this.#work(this);
        else if ("refuse" in next) this.refuse(next);
        else if (this.#answersAtOnce(next)) continue;
        return;
      }
    } catch (error) {
      this.#broke(error);
    }
  }

  /** Answers tokens and cached keys at once and returns true; otherwise the call goes on when its answer comes. */
  #answersAtOnce(ask: Ask): boolean {
    const { call, context } = this;
    if (ask.ask === "session") {
      call.session = context.sessions.read(ask.token, Math.floor(call.nowMs / 1000));
      return true;
    }
    if (ask.ask === "admin") {
      call.admin = context.adminTokens(ask.token, call.nowMs);
      return true;
    }
    if (ask.ask === "key" || ask.ask === "key-by-id") {
      call.lookup = context.keyCache.kept(ask);
      if (call.lookup !== undefined) return true;
    }
    if (!this.#isWaitedFor()) return false;
    if (ask.ask === "body") this.#readBody();
    else if (ask.ask === "take") this.#take(ask);
    else if (ask.ask === "change") this.#change();
    else {
      this.#hear("key service", context.keyCache.find(ask), (answer) => {
        call.lookup = answer;
      });
    }
    return false;
  }

  /** Passes on the answer, or `UNAVAILABLE` if none comes in time (fail closed, B4), and goes on with the call. */
  #hear<T>(from: string, asked: Promise<T>, hear: (answer: T | typeof UNAVAILABLE) => void): void {
    const { context, requestId } = this;
    asked
      .catch((error: unknown): typeof UNAVAILABLE => {
        context.log.debug({ requestId, reason: reasonOf(error) }, `no answer from the ${from}`);
        return UNAVAILABLE;
      })
      .then((answer) => {
        hear(answer);
        this.go();
      });
  }

  #readBody(): void {
    readRequest(this.route.name as RouteName, this.#asked, (read) => {
      if (read === null) return this.refuse({ refuse: "payload_too_large" });
      this.call.body = read;
      this.go();
    });
  }

  #take({ rate, meter }: Extract<Ask, { ask: "take" }>): void {
    const { call, context, requestId } = this;
    const { key, org } = call.snapshot;
    if (meter !== null && context.settlement.isFull()) {
      call.taken = UNAVAILABLE;
      this.go();
      return;
    }
    const charge_id = context.parts.chargeId(context.freshId(), requestId);
    const asked: Take = { charge_id, request_id: requestId, org: org.id, key: key.id, rate, meter };
    this.#hear("limiter", context.limiter.take(asked, context.limiterBudgetMs), (answer) => {
      call.taken = answer;
      if (answer === UNAVAILABLE) context.settlement.undo(asked, "answer-lost");
      else if (answer.verdict !== "taken") return;
      else if (this.#isOver) context.settlement.undo(asked, "client-left");
      else if (meter !== null) this.#charge = asked;
    });
  }

  #change(): void {
    const { call, context } = this;
    const { key_id: id = "" } = this.#asked.params as { key_id?: string };
    const { value: request } = call.body as { value: unknown };
    const change = { does: CHANGES[this.route.method], org: (call.admin as Admin).org_id, id, request } as KeyChange;
    this.#hear("key service", context.keyManagement.change(change, context.keyServiceBudgetMs), (answer) => {
      call.changed = answer;
      // This replica sees the change at once, even if the answer was lost.
      if (id !== "") context.keyCache.forget(id);
    });
  }

  /** Holds a slot of the inference for a service time, then goes on with `done` unless the call has ended. */
  infer(done: Work): void {
    const { inference } = this.context;
    if (!this.#isWaitedFor()) return;
    let timer: NodeJS.Timeout | undefined;
    const job: Job = {
      tokens: 0,
      start: (serviceMs) => {
        timer = setTimeout(() => this.go(), Math.ceil(serviceMs));
      },
    };
    this.#work = done;
    this.#stopWork = () => {
      clearTimeout(timer);
      inference.release(job);
    };
    inference.submit(job);
  }

  beginStream(run: StreamRun, own: readonly string[]): void {
    if (!this.#isWaitedFor()) return;
    const { response, context } = this;
    context.openStreams.add(run);
    this.#stopWork = () => {
      run.abandon();
      context.openStreams.delete(run);
    };
    if (context.stopping) response.shouldKeepAlive = false;
    run.open(this.#headers(own));
  }

  streamEnds(outcome: StreamOutcome): void {
    if (!this.#isOver) this.#end("answering", outcome);
  }

  undoCharge(reason: "client-left" | "work-failed"): void {
    const charge = this.#charge;
    this.#charge = null;
    if (charge !== null) this.context.settlement.undo(charge, reason);
  }

  /** Reports whether the call still goes on; from the first wait on, watches whether the client leaves. */
  #isWaitedFor(): boolean {
    this.#unwatch ??= watchConnection(this.request, this.response, () => this.clientLeft());
    return !this.#isOver;
  }

  #end(how: keyof Parts["slots"], outcome: string): void {
    const { context, call, requestId } = this;
    this.#isOver = true;
    context.openCalls -= 1;
    context.parts.slots[how](call);
    this.#stopWork?.();
    this.#unwatch?.();
    const org = outcome === UNAUTHENTICATED ? "-" : (call.organization ?? "-");
    countOutcome(context, this.#givenId, outcome, org);
    if (!context.logsCalls) return;
    const durationMs = performance.now() - this.#beganMs;
    const { credential } = call.caller;
    const entry = { requestId, route: this.route.name, org, outcome, durationMs, credential };
    context.log.debug(context.parts.requestLog(entry), "call");
  }

  /** Ends the call because its client is gone. Has no effect on a call that has ended. */
  clientLeft(): void {
    if (this.#isOver) return;
    const { headersSent } = this.response;
    this.#end("clientLeft", headersSent ? "200" : "indeterminate");
    if (!headersSent) this.undoCharge("client-left");
  }

  refuse(refuse: Refuse): void {
    const { status, headers, body } = this.context.parts.writeRefusal(refuse);
    this.answer(status, headers, body, outcomeOf(refuse.refuse));
  }

  answer(status: number, headers: readonly string[], body: string, outcome: string): void {
    if (this.#isOver) return;
    const { response, context } = this;
    if (this.request.socket.destroyed) return void this.clientLeft();
    this.#end("answering", outcome);
    this.#charge = null;
    if (context.stopping) response.shouldKeepAlive = false;
    context.parts.writeAnswer(response, status, this.#headers(headers), body);
  }

  failConnection(mode: "truncate" | "reset", headers: readonly string[], body: string): void {
    if (this.#isOver) return;
    const { response } = this;
    if (mode === "reset") {
      this.clientLeft();
      cutConnection(response, mode, "");
      return;
    }
    this.#end("answering", "indeterminate");
    response.writeHead(200, this.#headers(headers));
    cutConnection(response, mode, body.slice(0, Math.floor(body.length / 2)));
  }

  #headers(own: readonly string[]): string[] {
    const headers = own.slice();
    headers.push("X-Request-Id", this.requestId, "Vary", "Origin");
    if (this.route.surface === "management") headers.push("Cache-Control", "no-store");
    const allowed = this.context.parts.cors(this.call);
    if (allowed !== null) {
      headers.push("Access-Control-Allow-Origin", allowed, "Access-Control-Expose-Headers", EXPOSED);
    }
    return headers;
  }

  /** Answers an internal error with the only 5xx of the specification. The call is not charged. */
  #broke(error: unknown): void {
    const { context, response } = this;
    context.log.error({ requestId: this.requestId, route: this.route.name, reason: reasonOf(error) }, "a call broke");
    this.undoCharge("work-failed");
    if (!this.#isOver && !response.headersSent) return void this.refuse({ refuse: "key_service_unavailable" });
    this.clientLeft();
    if (!response.writableEnded) response.destroy();
  }
}
