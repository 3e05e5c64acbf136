import { describe, expect, test } from "vitest";
import { blockedShare, erlangB } from "./erlang.fixture.ts";
import { createInference, DEFAULT_INFERENCE, drawServiceMs, type InferenceOptions, type Job } from "./inference.ts";

const options = (fields: Partial<InferenceOptions>): InferenceOptions => ({ ...DEFAULT_INFERENCE, ...fields });
const draws = (fields: Partial<InferenceOptions>, n = 50_000): number[] =>
  Array.from({ length: n }, (_, i) => drawServiceMs(options(fields), i));
const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

describe("service times", () => {
  test("are a function of seed and call number", () => {
    const fields = { distribution: "exponential", seed: 7 } as const;
    expect(draws(fields, 100)).toEqual(draws(fields, 100));
    expect(draws(fields, 100)).not.toEqual(draws({ ...fields, seed: 8 }, 100));
  });

  test.each(["constant", "exponential", "lognormal"] as const)("%s has the mean that was asked for", (distribution) => {
    for (const seed of [1, 2, 12_345]) {
      const values = draws({ distribution, serviceMs: 200, seed });
      // Three standard errors of the widest of them (the exponential: 200 / sqrt(n)).
      expect(Math.abs(mean(values) - 200)).toBeLessThan((3 * 200) / Math.sqrt(values.length));
      expect(Math.min(...values)).toBeGreaterThan(0);
    }
  });

  test("the exponential has the spread and the tail of an exponential, the lognormal its sigma", () => {
    const values = draws({ distribution: "exponential", serviceMs: 1 });
    const share = values.filter((value) => value > 3).length / values.length;
    expect(Math.abs(share - Math.exp(-3))).toBeLessThan(0.004);
    const logs = draws({ distribution: "lognormal", serviceMs: 1, sigma: 0.8 }).map(Math.log);
    const middle = mean(logs);
    const spread = Math.sqrt(mean(logs.map((value) => (value - middle) ** 2)));
    expect(Math.abs(spread - 0.8)).toBeLessThan(0.01);
  });
});

describe("capacity in closed form", () => {
  test("Erlang's B formula gives the values of the tables", () => {
    expect(erlangB(10, 5)).toBeCloseTo(0.0184, 4);
    expect(erlangB(1, 1)).toBeCloseTo(0.5, 12);
    expect(erlangB(100, 90)).toBeCloseTo(0.027, 3);
  });

  test("M/M/C/K without a queue is Erlang B; one server is the textbook's M/M/1/K", () => {
    for (const offered of [0.5, 5, 20]) expect(blockedShare(10, 10, offered)).toBeCloseTo(erlangB(10, offered), 12);
    const rho = 0.8;
    expect(blockedShare(1, 5, rho)).toBeCloseTo(((1 - rho) * rho ** 5) / (1 - rho ** 6), 12);
    expect(blockedShare(64, 5_000, 63)).toBeLessThan(1e-9);
  });
});

/** An inference in which a job is told how long it would take, and nobody waits. */
const rig = (fields: Partial<InferenceOptions>) => {
  const waits: number[] = [];
  const inference = createInference(
    options(fields),
    (ms) => ms,
    (waitMs) => waits.push(waitMs),
  );
  const started: { name: string; serviceMs: number }[] = [];
  const submit = (name: string, tokens = 0): Job => {
    const job: Job = { tokens, start: (serviceMs) => started.push({ name, serviceMs }) };
    inference.submit(job);
    return job;
  };
  return { inference, started, submit, waits, names: () => started.map(({ name }) => name).join("") };
};

describe("slots and queue", () => {
  test("C calls are served at once, the others in the order in which they came", () => {
    const { inference, submit, names, waits } = rig({ slots: 2 });
    const [a, b, c] = ["a", "b", "c", "d"].map((name) => submit(name)) as [Job, Job, Job, Job];
    expect([names(), inference.running(), inference.waiting()]).toEqual(["ab", 2, 2]);
    inference.release(b);
    expect(names()).toBe("abc");
    inference.release(a);
    inference.release(c);
    expect([names(), inference.running(), inference.waiting()]).toEqual(["abcd", 1, 0]);
    expect(waits).toHaveLength(4);
  });

  test("who leaves the queue is never served, and giving back twice frees one slot", () => {
    const { inference, submit, names } = rig({ slots: 1 });
    const [a, b] = [submit("a"), submit("b")];
    submit("c");
    inference.release(b);
    inference.release(b);
    inference.release(a);
    inference.release(a);
    expect([names(), inference.running()]).toEqual(["ac", 1]);
  });

  test("longer outputs and a fuller batch take longer, by what was asked for", () => {
    const { submit, started } = rig({ slots: 3, serviceMs: 100, tokenMs: 2, slowdownPerRunning: 0.1 });
    submit("a", 10);
    submit("b", 10);
    submit("c", 0);
    expect(started.map(({ serviceMs }) => Math.round(serviceMs))).toEqual([120, 132, 120]);
  });

  test("capacity can drop and recover: running calls finish, waiting ones begin when there is room", () => {
    const { inference, submit, names, started } = rig({ slots: 2, serviceMs: 100 });
    const a = submit("a");
    submit("b");
    inference.change({ slots: 1, serviceFactor: 5 });
    submit("c");
    inference.release(a);
    expect([names(), inference.running()]).toEqual(["ab", 1]);
    inference.change({ slots: 3 });
    expect(names()).toBe("abc");
    expect(started[2]?.serviceMs).toBe(500);
  });

  test("a change ordered for a set time happens then", async () => {
    const { inference, submit, names } = rig({ slots: 1, changes: [{ atMs: 30, slots: 2 }] });
    submit("a");
    submit("b");
    expect(names()).toBe("a");
    const untilMs = performance.now() + 30_000;
    while (names() !== "ab" && performance.now() < untilMs) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(names()).toBe("ab");
    inference.close();
  });
});
