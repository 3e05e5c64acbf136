/**
 * The simulated inference: `slots` calls are served at once, the rest wait first come, first served, inside the cap on
 * calls in flight K. So the capacity is known in closed form, and a measured one can be held against it.
 *
 * With C slots, mean service time S and Poisson arrivals at rate λ (a = λS the offered load in erlangs):
 *
 *   K = C (the default, no queue)   M/G/C/C: blocked share B(C, a), Erlang's B formula, whatever the distribution is:
 *                                   B(0, a) = 1,  B(c, a) = a B(c-1, a) / (c + a B(c-1, a)).
 *   K > C, exponential service      M/M/C/K: p_n = p_0 a^n / n!  for n <= C,  p_0 a^n / (C! C^(n-C)) for n <= K; blocked p_K.
 *   any                             no more than C / S calls a second are completed.
 *
 * Service times are a function of (seed, number of the call), so two runs with one seed simulate the same.
 */

type Distribution = "constant" | "exponential" | "lognormal";

/** A change of capacity at a set time after the start: slots, or a factor on every service time that starts from then on. */
type CapacityChange = { atMs: number; slots?: number; serviceFactor?: number };

export type InferenceOptions = {
  slots: number;
  /** S: mean service time of a call, in milliseconds. */
  serviceMs: number;
  distribution: Distribution;
  /** Standard deviation of ln(service time) for `lognormal`; the mean stays S. */
  sigma: number;
  /** Events with content in a stream; spread evenly over the service time. */
  tokens: number;
  /** Added to each service time for every content event of a stream, in milliseconds: longer outputs take longer. */
  tokenMs: number;
  /** Share of S added for every other call running at the start: a batch slows each of its members. */
  slowdownPerRunning: number;
  seed: number;
  changes: readonly CapacityChange[];
};

export const DEFAULT_INFERENCE: InferenceOptions = {
  slots: 64,
  serviceMs: 200,
  distribution: "constant",
  sigma: 0.5,
  tokens: 20,
  tokenMs: 0,
  slowdownPerRunning: 0,
  seed: 1,
  changes: [],
};

/** A number in (0, 1) that depends on nothing but its three arguments (MurmurHash3's finalizer as the mixing step). */
const uniform = (seed: number, n: number, lane: number): number => {
  let h = (Math.imul(seed ^ (lane * 0x9e37_79b9), 0x85eb_ca6b) ^ Math.imul(n + 1, 0xc2b2_ae35)) >>> 0;
  for (let round = 0; round < 2; round += 1) {
    h = Math.imul(h ^ (h >>> 16), 0x85eb_ca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2_ae35);
    h = (h ^ (h >>> 16)) >>> 0;
  }
  return (h + 0.5) / 4_294_967_296;
};

/** The service time of call `n`, in milliseconds, before slow-downs; mean S in every distribution. */
export const drawServiceMs = (options: InferenceOptions, n: number): number => {
  const { distribution, serviceMs, sigma, seed } = options;
  if (distribution === "constant") return serviceMs;
  if (distribution === "exponential") return -serviceMs * Math.log(uniform(seed, n, 1));
  const normal = Math.sqrt(-2 * Math.log(uniform(seed, n, 1))) * Math.cos(2 * Math.PI * uniform(seed, n, 2));
  return serviceMs * Math.exp(sigma * normal - (sigma * sigma) / 2);
};

/** Work for the inference; whoever hands it in hears when a slot is theirs and gives it back with `release`. */
export type Job = {
  readonly tokens: number;
  start(serviceMs: number): void;
  /** Called when the slot is given back, however it came about. */
  abandoned?(): void;
  state?: "waiting" | "running" | "over";
  queuedAtMs?: number;
};

export class Inference {
  readonly options: InferenceOptions;
  readonly #serviceMs: (drawnMs: number, n: number) => number;
  readonly #sample: (queueWaitMs: number) => void;
  #slots: number;
  #factor = 1;
  #running = 0;
  #calls = 0;
  readonly #queue = new Set<Job>();
  readonly #timers: NodeJS.Timeout[] = [];

  /** `serviceMs` may reshape what was drawn; `sample` is given how long each job waited, in milliseconds. */
  constructor(
    options: InferenceOptions,
    serviceMs: (drawnMs: number, n: number) => number,
    sample: (queueWaitMs: number) => void,
  ) {
    this.options = options;
    this.#serviceMs = serviceMs;
    this.#sample = sample;
    this.#slots = options.slots;
    for (const change of options.changes) {
      const timer = setTimeout(() => this.change(change), change.atMs);
      timer.unref();
      this.#timers.push(timer);
    }
  }

  get running(): number {
    return this.#running;
  }

  get capacity(): { slots: number; serviceFactor: number } {
    return { slots: this.#slots, serviceFactor: this.#factor };
  }

  get waiting(): number {
    return this.#queue.size;
  }

  /** Calls already running are not cut when slots are taken away; they finish. */
  change({ slots, serviceFactor }: Omit<CapacityChange, "atMs">): void {
    if (slots !== undefined) this.#slots = slots;
    if (serviceFactor !== undefined) this.#factor = serviceFactor;
    this.#startWaiting();
  }

  submit(job: Job): void {
    job.state = "waiting";
    job.queuedAtMs = performance.now();
    this.#queue.add(job);
    this.#startWaiting();
  }

  /** The job is done, or whoever wanted it has left: its slot is free at once. Safe to do twice. */
  release(job: Job): void {
    if (job.state === undefined || job.state === "over") return;
    if (job.state === "waiting") this.#queue.delete(job);
    else this.#running -= 1;
    job.state = "over";
    job.abandoned?.();
    this.#startWaiting();
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }

  #startWaiting(): void {
    for (const job of this.#queue) {
      if (this.#running >= this.#slots) return;
      this.#queue.delete(job);
      const { tokenMs, slowdownPerRunning } = this.options;
      const n = this.#calls;
      this.#calls += 1;
      const drawn = drawServiceMs(this.options, n) + tokenMs * job.tokens;
      const slowed = drawn * this.#factor * (1 + slowdownPerRunning * this.#running);
      this.#running += 1;
      job.state = "running";
      this.#sample(performance.now() - (job.queuedAtMs as number));
      job.start(this.#serviceMs(slowed, n));
    }
  }
}
