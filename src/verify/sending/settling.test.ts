import { expect, test } from "vitest";
import type { Context } from "../context.ts";
import type { Answer } from "./answer.ts";
import { firstUse, until } from "./settling.ts";
import type { TestCall } from "./test-call.ts";

const call: TestCall = { route: "design.styles", credential: { as: "server", of: "role:server" }, origin: "none" };

/** Answers with what `said` gives for each try, and counts the tries. */
const answering = (said: (tries: number) => Partial<Answer>) => {
  let tries = 0;
  const send = async () => ({ testCall: call, foreign: false, transient: false, ...said(++tries) }) as Answer;
  return { context: { send, settleMs: 900, target: {} } as unknown as Context, tries: () => tries };
};

const PAGE = { outcome: "edge 403", status: 403, foreign: true };

test("a page in place of the refusal that is waited for is not waited for to the end", async () => {
  const { context, tries } = answering(() => PAGE);
  expect(await until(context, call, "insufficient_scope", performance.now() + 60_000)).toMatchObject(PAGE);
  expect(tries()).toBeLessThan(6);
});

test("a page in place of another answer is waited for, because the change may still arrive", async () => {
  const arrived = { outcome: "200", status: 200 };
  const { context, tries } = answering((n) => (n < 6 ? PAGE : arrived));
  expect(await until(context, call, "2xx", performance.now() + 60_000)).toMatchObject(arrived);
  expect(tries()).toBe(6);
});

test("a page to a new key is waited for, because the edge may not know the key yet", async () => {
  const { context, tries } = answering((n) => (n < 6 ? PAGE : { outcome: "200", status: 200 }));
  expect(await firstUse(context, call)).toMatchObject({ status: 200 });
  expect(tries()).toBe(6);
});
