import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createBatcher } from "./batch.ts";

/** Answers every question with itself, after so long. */
const echo = (answerMs: number) => {
  const batches: string[][] = [];
  let aborted = 0;
  const batcher = createBatcher<string, string>({
    send: (items, signal) =>
      new Promise((resolve, reject) => {
        batches.push([...items]);
        setTimeout(() => resolve([...items]), answerMs);
        signal.addEventListener("abort", () => {
          aborted += 1;
          reject(new Error("aborted"));
        });
      }),
    dependency: "the echo",
    maxItems: 3,
    maxInFlight: 3,
  });
  const ask = (item: string, budgetMs = 1_000): Promise<string> =>
    batcher.ask(item, budgetMs).catch((error: Error) => error.message.replace("the echo gave no valid answer: ", ""));
  return { ask, batches, aborted: () => aborted };
};

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setImmediate", "performance"] }));
afterEach(() => void vi.useRealTimers());

const NEXT_TURN = 0;

describe("questions of a link", () => {
  test("of one turn travel together, a lone one at once", async () => {
    const { ask, batches } = echo(5);
    void ask("a");
    await vi.advanceTimersByTimeAsync(NEXT_TURN);
    expect(batches).toEqual([["a"]]);
    await vi.advanceTimersByTimeAsync(10);
    const asked = Promise.all([ask("b"), ask("c")]);
    await vi.advanceTimersByTimeAsync(NEXT_TURN);
    expect(batches).toEqual([["a"], ["b", "c"]]);
    await vi.advanceTimersByTimeAsync(5);
    expect(await asked).toEqual(["b", "c"]);
  });

  test("while two requests are under way they gather for the next, until an answer comes", async () => {
    const { ask, batches } = echo(1.5);
    for (const item of ["a", "b", "c", "d"]) {
      void ask(item);
      await vi.advanceTimersByTimeAsync(NEXT_TURN);
    }
    expect(batches).toEqual([["a"], ["b"]]);
    await vi.advanceTimersByTimeAsync(2);
    expect(batches).toEqual([["a"], ["b"], ["c", "d"]]);
  });

  test("a full batch does not wait", async () => {
    const { ask, batches } = echo(5);
    void ask("a");
    await vi.advanceTimersByTimeAsync(NEXT_TURN);
    for (const item of ["b", "c", "d"]) void ask(item);
    await vi.advanceTimersByTimeAsync(NEXT_TURN);
    expect(batches).toEqual([["a"], ["b", "c", "d"]]);
  });
});

describe("deadlines", () => {
  test("each question has that of its own budget, also those of one turn; the last one ends the request", async () => {
    const { ask, aborted } = echo(10_000);
    const order: string[] = [];
    for (const budgetMs of [30, 10, 20]) void ask(`${budgetMs}`, budgetMs).then((said) => order.push(said));
    await vi.advanceTimersByTimeAsync(25);
    expect([order, aborted()]).toEqual([["no answer within 10 ms", "no answer within 20 ms"], 0]);
    await vi.advanceTimersByTimeAsync(10);
    expect([order.at(-1), aborted()]).toEqual(["no answer within 30 ms", 1]);
  });

  test("a question that comes once a deadline has ended has one of its own", async () => {
    const { ask } = echo(10_000);
    const first = ask("a", 10);
    const second = first.then(() => ask("b", 10));
    await vi.advanceTimersByTimeAsync(40);
    expect(await Promise.all([first, second])).toEqual(["no answer within 10 ms", "no answer within 10 ms"]);
  });

  test("runs while a question waits for its turn", async () => {
    const { ask, batches } = echo(10_000);
    for (const item of ["a", "b", "c", "d", "e", "f", "g", "h", "i"]) void ask(item, 500);
    const tenth = ask("j", 100);
    await vi.advanceTimersByTimeAsync(110);
    expect(await tenth).toBe("no answer within 100 ms");
    expect(batches).toEqual([
      ["a", "b", "c"],
      ["d", "e", "f"],
      ["g", "h", "i"],
    ]);
  });
});
