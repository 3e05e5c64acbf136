/** Work that the inference does in one go: a slot for a service time, then it is done. */
import type { Inference, Job } from "../../inference.ts";

export class TimedJob implements Job {
  readonly tokens = 0;
  // Declared, not set: the inference keeps its own marks here.
  state?: "waiting" | "running" | "over";
  queuedAtMs?: number;

  readonly #inference: Inference;
  readonly #done: () => void;
  #timer: NodeJS.Timeout | undefined;

  /** `done` is called once the slot is given back, unless the job is released before. */
  constructor(inference: Inference, done: () => void) {
    this.#inference = inference;
    this.#done = done;
  }

  start(serviceMs: number): void {
    this.#timer = setTimeout(() => {
      this.#inference.release(this);
      this.#done();
    }, Math.ceil(serviceMs));
  }

  abandoned(): void {
    clearTimeout(this.#timer);
  }
}
