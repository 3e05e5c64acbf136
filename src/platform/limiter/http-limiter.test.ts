import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Service } from "../control-plane.ts";
import { Unavailable } from "../links/batch.ts";
import { type FaultyLink, type LinkFault, startFaultyLink } from "../links/faulty-link.fixture.ts";
import { openControl, operatedLimiter } from "../operator.fixture.ts";
import { createHttpLimiter, type Limiter, shiftableClock, type Take } from "../ports.ts";
import { startServe } from "../serve-process.fixture.ts";
import { aTake, linesOf, refundOf } from "./limiter.fixture.ts";
import { type LimiterStore, openLimiterStore, startLimiterService } from "./store.ts";

const BUDGET_MS = 250;
const folder = mkdtempSync(join(tmpdir(), "floodgate-link-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the link to the limiter", () => {
  let service: Service;
  let link: FaultyLink;
  let limiter: Limiter;
  /** Sizes of the batches that arrived. */
  let batches: number[];

  beforeEach(async () => {
    batches = [];
    const store = openLimiterStore(":memory:");
    const counting: LimiterStore = {
      ...store,
      take: (takes, at) => {
        batches.push(takes.length);
        return store.take(takes, at);
      },
    };
    service = await startLimiterService({ store: counting, clock: shiftableClock() }, { port: 0 });
    link = await startFaultyLink(service.url);
    limiter = createHttpLimiter({ url: link.url });
  });
  afterEach(async () => {
    await limiter.close();
    await link.close();
    await service.close();
  });

  const takeMany = (count: number, org: string, budgetMs = BUDGET_MS) =>
    Promise.allSettled(Array.from({ length: count }, () => limiter.take(aTake({ org }), budgetMs)));
  const reasonsOf = (answers: PromiseSettledResult<unknown>[]) =>
    answers.map((answer) => (answer.status === "rejected" ? answer.reason : "admitted"));

  test("takes of one turn of the loop travel together, up to 256 of them", async () => {
    await takeMany(300, "org_a", 5_000);
    expect(batches).toEqual([256, 44]);
  });

  test("a refused connection is told at once, not at the deadline", async () => {
    await takeMany(1, "org_a");
    await link.refuse();
    const beganMs = performance.now();
    const answers = await takeMany(50, "org_a", 60_000);
    expect(performance.now() - beganMs).toBeLessThan(30_000);
    for (const reason of reasonsOf(answers)) expect(reason).toBeInstanceOf(Unavailable);
    await link.listenAgain();
    expect(await limiter.take(aTake(), 5_000)).toMatchObject({ verdict: "taken" });
  });

  test.each<LinkFault>(["request-lost", "reply-lost", "reset", "truncated-reply"])(
    "%s: refused, and the first call after the heal is answered",
    async (fault) => {
      await takeMany(20, "org_warm");
      link.setFault(fault);
      for (const reason of reasonsOf(await takeMany(200, "org_a"))) expect(reason).toBeInstanceOf(Unavailable);
      link.setFault("none");
      expect(await limiter.take(aTake(), 5_000)).toMatchObject({ verdict: "taken" });
    },
  );

  test("nothing is sent twice, and refunds by id undo exactly what a lost reply left behind", async () => {
    const charges = Array.from({ length: 40 }, () => aTake({ org: "org_lost" }));
    link.setFault("reply-lost");
    await Promise.allSettled(charges.map((charge) => limiter.take(charge, BUDGET_MS)));
    expect(batches).toEqual([40]);
    link.setFault("none");
    expect(await limiter.used("org_lost", "map_loads")).toBe(40);
    await Promise.all(charges.map((charge) => limiter.refund(refundOf(charge), 5_000)));
    expect(await limiter.used("org_lost", "map_loads")).toBe(0);
  });

  test("each take of a batch has its own deadline", async () => {
    link.setFault("request-lost");
    const order: number[] = [];
    const ask = (budgetMs: number) => limiter.take(aTake(), budgetMs).catch(() => order.push(budgetMs));
    await Promise.all([ask(300), ask(20), ask(150)]);
    expect(order).toEqual([20, 150, 300]);
  });

  test("a stopped service is refused by the deadline and answers again once it goes on", async () => {
    const other = await startServe(["--role", "limiter"]);
    const far = createHttpLimiter({ url: other.urls.limiter as string });
    try {
      await far.take(aTake(), 5_000);
      other.child.kill("SIGSTOP");
      await expect(far.take(aTake(), BUDGET_MS)).rejects.toThrow(Unavailable);
      other.child.kill("SIGCONT");
      expect(await far.take(aTake(), 5_000)).toMatchObject({ verdict: "taken" });
    } finally {
      await far.close();
      await other.kill();
    }
  });

  test("a stall of our own process is not held against the limiter", async () => {
    const other = await startServe(["--role", "limiter"]);
    const far = createHttpLimiter({ url: other.urls.limiter as string });
    try {
      await far.take(aTake(), 5_000);
      const asked = far.take(aTake(), 100);
      // Once the request is on its way, nothing of ours runs for three budgets.
      await new Promise((resolve) => setTimeout(resolve, 10));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
      expect(await asked).toMatchObject({ verdict: "taken" });
    } finally {
      await far.close();
      await other.kill();
    }
  });

  test("a ledger that breaks off is an error, not a short ledger", async () => {
    const run = `run-${randomUUID()}`;
    await Promise.all(Array.from({ length: 50 }, () => limiter.take(aTake({ request_id: run }), 5_000)));
    const plane = await openControl(service.control, shiftableClock());
    const control = await startFaultyLink(plane.url);
    const reader = operatedLimiter(limiter, control.url);
    expect(await linesOf(reader, run)).toHaveLength(50);
    control.setFault("truncated-reply");
    await expect(linesOf(reader, run)).rejects.toThrow();
    await control.close();
    await plane.close();
  });
});

describe("an answer that is nonsense admits nobody", () => {
  const good = (take: Take) => ({ charge_id: take.charge_id, verdict: "taken", used: 1, window: "2026-11" });
  const answers: Record<string, (takes: Take[]) => unknown> = {
    "a refusal by a rate that it has none of": (takes) => ({
      answers: takes.map(({ charge_id }) => ({ charge_id, verdict: "rate_limited", wait_ms: 5 })),
    }),
    "not JSON": () => "<html>ok</html>",
    nothing: () => "",
    "no answers": () => ({}),
    "too few": () => ({ answers: [] }),
    "one too many": (takes) => ({ answers: [...takes, ...takes].map(good) }),
    "another's charge": (takes) => ({ answers: takes.map((take) => ({ ...good(take), charge_id: "other" })) }),
    "an unknown verdict": (takes) => ({ answers: takes.map((take) => ({ ...good(take), verdict: "ok" })) }),
    "no count": (takes) => ({ answers: takes.map((take) => ({ ...good(take), used: null })) }),
    "a negative count": (takes) => ({ answers: takes.map((take) => ({ ...good(take), used: -1 })) }),
    "no month": (takes) => ({ answers: takes.map((take) => ({ ...good(take), window: "now" })) }),
    null: (takes) => ({ answers: takes.map(() => null) }),
  };
  test.each(Object.keys(answers))("%s", async (name) => {
    const server = createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += chunk;
      const answer = answers[name]?.((JSON.parse(text) as { takes: Take[] }).takes);
      response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const limiter = createHttpLimiter({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    await expect(limiter.take(aTake(), 5_000)).rejects.toThrow(Unavailable);
    await limiter.close();
    server.closeAllConnections();
    server.close();
  });

  test("and spoils only its own call", async () => {
    const server = createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += chunk;
      const { takes } = JSON.parse(text) as { takes: Take[] };
      const answers = takes.map((take, i) => (i === 1 ? { verdict: "?" } : good(take)));
      response.end(JSON.stringify({ answers }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const limiter = createHttpLimiter({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    const settled = await Promise.allSettled([1, 2, 3].map(() => limiter.take(aTake(), 5_000)));
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    await limiter.close();
    server.closeAllConnections();
    server.close();
  });
});

test("a service killed under load loses nothing that it answered, and refunds hold after it is back", async () => {
  const path = join(folder, "killed.sqlite");
  const store = ["--role", "limiter", "--limiter", `sqlite:${path}`];
  const run = `run-${randomUUID()}`;
  const first = await startServe(store);
  const limiter = createHttpLimiter({ url: first.urls.limiter as string });
  const early = aTake({ org: "org_early" });
  await limiter.refund(refundOf(early), 5_000);

  const answered: string[] = [];
  let failed = 0;
  let sent = 0;
  const client = async (): Promise<void> => {
    while (failed === 0) {
      sent += 1;
      const take = aTake({ org: "org_k", request_id: `${run}-${sent}` });
      await limiter.take(take, 2_000).then(
        () => {
          if (answered.push(take.charge_id) === 3_000) first.child.kill("SIGKILL");
        },
        () => {
          failed += 1;
        },
      );
    }
  };
  await Promise.all(Array.from({ length: 32 }, client));
  await first.kill();
  await limiter.close();

  const second = await startServe(store);
  const [url, control] = [second.urls.limiter, second.urls.control?.limiter] as [string, string];
  const after = operatedLimiter(createHttpLimiter({ url }), control);
  const charged = new Set((await linesOf(after, run)).map(({ charge_id }) => charge_id));
  expect(answered.length).toBeGreaterThanOrEqual(3_000);
  expect(answered.filter((id) => !charged.has(id))).toEqual([]);
  // What was in flight may or may not have been stored, but the meter and the ledger agree.
  expect(charged.size).toBeLessThanOrEqual(answered.length + 32);
  expect(await after.used("org_k", "map_loads")).toBe(charged.size);
  await expect(after.take(early, 5_000)).rejects.toThrow(Unavailable);
  await after.close();
  await second.kill();
});
