/**
 * One incoming call from its head on. The core decides; this asks the world what the core wants to know, and has done what
 * came out. It begins in the earliest hook of the server, so a call that is shed has cost no parsing. How it ends is in `ending-call.ts`.
 */
import { advance } from "../../core/order.ts";
import type { Inference } from "../inference.ts";
import { answerAtOnce, answerLater } from "./asks.ts";
import { EndingCall } from "./ending-call.ts";
import type { StreamLimits, StreamOutcome, StreamOwner, StreamRun } from "./routes/stream-run.ts";
import type { StreamVoice } from "./routes/stream-script.ts";
import { TimedJob } from "./routes/timed-job.ts";

/** What is left to do for an admitted call. */
export type Work = (call: IncomingCall) => void;

/** Without fields or a constructor of its own: one that is derived would make every call dearer. */
export class IncomingCall extends EndingCall<IncomingCall> implements StreamOwner {
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
        this.work(this);
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
