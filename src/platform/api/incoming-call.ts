/**
 * One incoming call from its head on. The core decides; this asks the world what the core wants to know, and has done what
 * came out. It begins in the earliest hook of the server, so a call that is shed has cost no parsing. How it ends is in
 * `ending-call.ts`.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Route, type RouteName, routeOf } from "../../contract/routes.ts";
import { Call } from "../../core/call.ts";
import { advance } from "../../core/order.ts";
import type { Inference } from "../inference.ts";
import { answerAtOnce, answerLater } from "./asks.ts";
import { addressOf, credentialOf, credentialsConflict, requestIdOf } from "./caller.ts";
import type { ApiContext } from "./context.ts";
import { EndingCall } from "./ending-call.ts";
import type { StreamLimits, StreamOutcome, StreamOwner, StreamRun } from "./stream-run.ts";
import type { StreamVoice } from "./stream-script.ts";
import { TimedJob } from "./timed-job.ts";

/** What is left to do for an admitted call. */
export type Work = (call: IncomingCall) => void;

/** What the core is told of a call when it begins: what its head says. */
const callOf = (context: ApiContext, route: Route, { headers, socket }: IncomingMessage): Call => {
  if (credentialsConflict(headers)) context.credentialConflicts += 1;
  return new Call(
    route,
    credentialOf(headers),
    (headers.origin as string | undefined) ?? null,
    addressOf(socket.remoteAddress ?? "", headers, context.trustedProxies),
    context.clock.nowMs(),
    context.deployment.view,
    context.shedder,
  );
};

export class IncomingCall extends EndingCall implements StreamOwner {
  readonly query: unknown;
  readonly params: unknown;
  readonly #work: Work;

  constructor(
    context: ApiContext,
    name: RouteName,
    work: Work,
    request: IncomingMessage,
    response: ServerResponse,
    query: unknown,
    params: unknown,
  ) {
    const route = routeOf(name);
    super(
      context,
      route,
      request,
      response,
      requestIdOf(request.headers) ?? context.freshId(),
      callOf(context, route, request),
    );
    this.#work = work;
    this.query = query;
    this.params = params;
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

  /** Runs the checks from where they stand. Nothing that is thrown in here reaches the server. */
  go(): void {
    try {
      this.#advance();
    } catch (error) {
      this.broke(error);
    }
  }

  #advance(): void {
    const { call, context } = this;
    while (!this.isOver) {
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

  /** Has the inference work for this call, then goes on with `done`. */
  infer(done: () => void): void {
    const { inference } = this.context;
    this.watch();
    if (this.isOver) return;
    this.job = new TimedJob(inference, () => {
      if (this.isOver) return;
      try {
        done();
      } catch (error) {
        this.broke(error);
      }
    });
    inference.submit(this.job);
  }

  /** Watches the connection while `run` speaks. */
  beginStream(run: StreamRun, own: readonly string[]): void {
    this.watch();
    if (this.isOver) return;
    const { response, context } = this;
    context.openStreams.add(run);
    this.stream = run;
    if (context.stopping) response.shouldKeepAlive = false;
    run.open(this.headers(own));
  }

  streamEnds(outcome: StreamOutcome): void {
    if (this.isOver) return;
    this.end("answering");
    this.count(outcome);
  }
}
