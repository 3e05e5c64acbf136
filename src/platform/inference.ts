/**
 * The simulated inference: `slots` calls are served at once, the rest wait in turn, inside the cap on calls in flight K.
 * So capacity is known in closed form. With C slots, mean service time S, Poisson arrivals at rate λ and a = λS:
 *
 *   K = C (the default)          M/G/C/C: blocked B(C, a): B(0, a) = 1, B(c, a) = a B(c-1, a) / (c + a B(c-1, a)) (Erlang)
 *   K > C, exponential service   M/M/C/K: p_n = p_0 a^n / n! for n <= C, p_0 a^n / (C! C^(n-C)) for n <= K; blocked p_K
 *   any                          at most C / S calls a second are completed
 */

/** A change of capacity at a set time after the start: slots, or a factor on every service time that starts from then on. */
type CapacityChange = { atMs: number; slots?: number; serviceFactor?: number };

export const DEFAULT_INFERENCE = {
  slots: 64,
  /** S: mean service time of a call, in milliseconds. */
  serviceMs: 200,
  distribution: "constant" as "constant" | "exponential" | "lognormal",
  /** Standard deviation of ln(service time) for `lognormal`; the mean stays S. */
  sigma: 0.5,
  /** Events with content in a stream; spread evenly over the service time. */
  tokens: 20,
  /** Added to each service time for every content event of a stream, in milliseconds: longer outputs take longer. */
  tokenMs: 0,
  /** Share of S added for every other call running at the start: a batch slows each of its members. */
  slowdownPerRunning: 0,
  seed: 1,
  changes: [] as readonly CapacityChange[],
};
export type InferenceOptions = typeof DEFAULT_INFERENCE;

/** A number in (0, 1) that depends only on its three arguments (MurmurHash3's finalizer as the mixing step). */
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

/** Work for the inference: `start` is called when the job gets a slot, and `release` frees the slot. */
export type Job = {
  readonly tokens: number;
  start(serviceMs: number): void;
};

/** `reshape` gives the final service time; `sample` receives how long each job waited. All in milliseconds. */
export const createInference = (
  options: InferenceOptions,
  reshape: (drawnMs: number, n: number) => number,
  sample: (queueWaitMs: number) => void,
) => {
  const { tokenMs, slowdownPerRunning } = options;
  const capacity = { slots: options.slots, serviceFactor: 1 };
  let calls = 0;
  const running = new Set<Job>();
  /** Waiting jobs, the oldest first, with the time at which each was submitted. */
  const queue = new Map<Job, number>();

  const startWaiting = (): void => {
    for (const [job, queuedAtMs] of queue) {
      if (running.size >= capacity.slots) return;
      queue.delete(job);
      const n = calls++;
      const drawn = drawServiceMs(options, n) + tokenMs * job.tokens;
      const slowed = drawn * capacity.serviceFactor * (1 + slowdownPerRunning * running.size);
      running.add(job);
      sample(performance.now() - queuedAtMs);
      job.start(reshape(slowed, n));
    }
  };
  /** Changes the capacity. Running calls finish even if their slots are taken away. */
  const change = ({ slots, serviceFactor }: Omit<CapacityChange, "atMs">): void => {
    capacity.slots = slots ?? capacity.slots;
    capacity.serviceFactor = serviceFactor ?? capacity.serviceFactor;
    startWaiting();
  };
  const timers = options.changes.map((one) => setTimeout(() => change(one), one.atMs).unref());

  return {
    options,
    capacity: capacity as Readonly<typeof capacity>,
    running: () => running.size,
    waiting: () => queue.size,
    change,
    submit: (job: Job): void => {
      queue.set(job, performance.now());
      startWaiting();
    },
    /** Frees the slot of a job that is done or no longer wanted; idempotent. */
    release: (job: Job): void => {
      if (queue.delete(job) || running.delete(job)) startWaiting();
    },
    close: (): void => timers.forEach(clearTimeout),
  };
};

export type Inference = ReturnType<typeof createInference>;
