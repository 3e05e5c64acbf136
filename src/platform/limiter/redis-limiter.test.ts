import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Unavailable } from "../links/batch.ts";
import { type LinkFault, startFaultyLink } from "../links/faulty-link.fixture.ts";
import type { OperableLimiter } from "../ports.ts";
import { aTake, limiterCases, linesOf, refundOf } from "./limiter.fixture.ts";
import { createRedisLimiter } from "./redis-limiter.ts";
import { hasRedisServer, type RedisServer, startRedisServer } from "./redis-server.fixture.ts";

const BUDGET_MS = 250;

describe.skipIf(!hasRedisServer)(
  `Redis${hasRedisServer ? "" : " (SKIPPED: redis-server is not installed; apt-get install redis-server)"}`,
  () => {
    let server: RedisServer;
    beforeAll(async () => {
      server = await startRedisServer();
    });
    afterAll(() => server.stop());

    limiterCases("a limiter in Redis", async () => createRedisLimiter({ url: server.url, prefix: "cases:" }));

    describe("when Redis fails", () => {
      let limiter: OperableLimiter;
      beforeAll(() => {
        limiter = createRedisLimiter({ url: server.url, prefix: `${randomUUID()}:` });
      });
      afterAll(() => limiter.close());

      /** Until a take passes again, however many were refused before. */
      const recovered = async (): Promise<void> => {
        for (const deadline = Date.now() + 10_000; ; ) {
          const answer = await limiter.take(aTake(), BUDGET_MS).catch(() => null);
          if (answer?.verdict === "taken") return;
          if (Date.now() > deadline) throw new Error("expected the limiter to recover within 10 s");
        }
      };

      test("a script that Redis forgot is loaded again and charges once", async () => {
        const charges = Array.from({ length: 20 }, () => aTake({ org: "org_noscript" }));
        await server.call("SCRIPT", "FLUSH");
        const answers = await Promise.all(charges.map((charge) => limiter.take(charge, BUDGET_MS)));
        expect(answers.every(({ verdict }) => verdict === "taken")).toBe(true);
        expect(await limiter.used("org_noscript", "map_loads")).toBe(20);
      });

      test.each<LinkFault>(["request-lost", "reply-lost", "reset", "truncated-reply"])(
        "%s: refused by the deadline, nothing is sent twice, and it works again after the heal",
        async (fault) => {
          const link = await startFaultyLink(server.url);
          const prefix = `${randomUUID()}:`;
          const far = createRedisLimiter({ url: link.url.replace("http", "redis"), prefix });
          try {
            await far.take(aTake({ org: "org_warm" }), 5_000);
            const charges = Array.from({ length: 20 }, () => aTake({ org: "org_far" }));
            link.setFault(fault);
            const answers = await Promise.allSettled(charges.map((charge) => far.take(charge, BUDGET_MS)));
            const reasons = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : []));
            for (const reason of reasons) expect(reason).toBeInstanceOf(Unavailable);
            // One reply for the batch: it is whole or it is none.
            expect(reasons).toHaveLength(20);
            link.setFault("none");
            for (const deadline = Date.now() + 10_000; Date.now() < deadline; ) {
              if (await far.take(aTake(), BUDGET_MS).catch(() => null)) break;
            }
            const charged = await far.used("org_far", "map_loads");
            expect(charged).toBe(fault === "reply-lost" || fault === "truncated-reply" ? 20 : 0);
            await Promise.all(charges.map((charge) => far.refund(refundOf(charge), 5_000)));
            expect(await far.used("org_far", "map_loads")).toBe(0);
          } finally {
            await far.close();
            await link.close();
          }
        },
      );

      test("out of memory: unavailable, and nothing is charged, not even half", async () => {
        await recovered();
        const charge = aTake({ org: "org_oom", key: "key_oom", rate: { perS: 1, burst: 10 } });
        await server.call("CONFIG", "SET", "maxmemory", "1");
        try {
          await expect(limiter.take(charge, BUDGET_MS)).rejects.toThrow(Unavailable);
          await expect(limiter.take(aTake({ meter: null, rate: { perS: 1, burst: 1 } }), BUDGET_MS)).rejects.toThrow(
            Unavailable,
          );
          await expect(limiter.refund(refundOf(charge), BUDGET_MS)).rejects.toThrow(Unavailable);
        } finally {
          await server.call("CONFIG", "SET", "maxmemory", "0");
        }
        expect(await limiter.used("org_oom", "map_loads")).toBe(0);
        expect(await linesOf(limiter, charge.request_id)).toEqual([]);
        expect(await limiter.take(charge, BUDGET_MS)).toMatchObject({ verdict: "taken", used: 1 });
      });

      test("read-only: unavailable, and it works again afterwards", async () => {
        await server.call("REPLICAOF", "127.0.0.1", "1");
        try {
          await expect(limiter.take(aTake(), BUDGET_MS)).rejects.toThrow(Unavailable);
        } finally {
          await server.call("REPLICAOF", "NO", "ONE");
        }
        await recovered();
      });

      test("busy with a script: unavailable within the budget, and it works again afterwards", async () => {
        await server.call("CONFIG", "SET", "busy-reply-threshold", "1");
        const busy = server.call("EVAL", "while true do end", 0).catch(() => undefined);
        await expect(
          (async () => {
            for (let i = 0; i < 100; i += 1) await limiter.take(aTake(), BUDGET_MS);
          })(),
        ).rejects.toThrow(Unavailable);
        for (let killed = false; !killed; ) {
          killed = await server.call("SCRIPT", "KILL").then(
            () => true,
            (error: Error) => error.message.startsWith("NOTBUSY"),
          );
        }
        await busy;
        await recovered();
      });

      test("stopped: every call is refused by its own deadline, and what arrived late is refunded for good", async () => {
        await recovered();
        const charges = Array.from({ length: 20 }, () => aTake({ org: "org_stopped" }));
        server.signal("SIGSTOP");
        try {
          const answers = await Promise.allSettled(charges.map((charge) => limiter.take(charge, BUDGET_MS)));
          expect(answers.every(({ status }) => status === "rejected")).toBe(true);
        } finally {
          server.signal("SIGCONT");
        }
        await recovered();
        for (const charge of charges) await limiter.refund(refundOf(charge), 5_000);
        expect(await limiter.used("org_stopped", "map_loads")).toBe(0);
      });

      test("loading its files: unavailable, and it works again afterwards", async () => {
        await recovered();
        for (let i = 0; i < 50; i += 1) await limiter.setUsed(`org_loading_${i}`, "map_loads", 1);
        await server.call("BGREWRITEAOF");
        const isRewriting = async (): Promise<boolean> =>
          /aof_rewrite_(in_progress|scheduled):1/.test(String(await server.call("INFO", "persistence")));
        while (await isRewriting()) await new Promise((resolve) => setTimeout(resolve, 20));
        server.signal("SIGKILL");
        await server.restartSlowly();
        try {
          const told: string[] = [];
          // Some of them only run into their deadline: Redis looks up from its files now and then.
          for (let i = 0; i < 20 && !told.join().includes("LOADING"); i += 1) {
            told.push(
              await limiter.take(aTake(), 2_000).then(String, (error: Error) => `${error.name}: ${error.message}`),
            );
          }
          expect(told.filter((text) => !text.startsWith("Unavailable"))).toEqual([]);
          expect(told.at(-1)).toContain("LOADING");
        } finally {
          server.signal("SIGKILL");
          await server.restart();
        }
        await recovered();
        expect(await limiter.used("org_loading_49", "map_loads")).toBe(1);
      });

      test("killed: refused at once, works after a restart, and nothing that was answered is lost", async () => {
        await recovered();
        const run = `run-${randomUUID()}`;
        // Killed in the middle, whenever that is on this machine: some were answered, and it is not asked for the last yet.
        const taken: string[] = [];
        const asked: Promise<void>[] = [];
        let killed = false;
        const deadline = performance.now() + 10_000;
        for (let i = 0; !killed || i % 50 !== 0; i += 1) {
          const id = `${run}-${i}`;
          asked.push(
            limiter.take(aTake({ org: "org_killed", request_id: id }), BUDGET_MS).then(
              () => void taken.push(id),
              () => undefined,
            ),
          );
          if (i % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
          if (!killed && (taken.length >= 100 || performance.now() > deadline)) {
            server.signal("SIGKILL");
            killed = true;
          }
        }
        await Promise.all(asked);
        expect(taken.length).toBeGreaterThanOrEqual(100);
        expect(taken.length).toBeLessThan(asked.length);
        await server.restart();
        await recovered();
        const charged = new Set((await linesOf(limiter, run)).map(({ request_id }) => request_id));
        expect(taken.filter((id) => !charged.has(id))).toEqual([]);
        expect(await limiter.used("org_killed", "map_loads")).toBe(charged.size);
      });
    });
  },
);
