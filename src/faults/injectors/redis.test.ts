/** Each error of Redis, on a server of our own: a write meets it, it is proved, and it is gone after the heal. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type OwnParts, type RedisPart, startRedisPart } from "../../deployments/deployment.ts";
import { openJournal } from "../../supervision/journal.ts";
import { openSupervisor, type Supervisor } from "../../supervision/supervisor.ts";
import { waitUntil } from "../../supervision/waiting.ts";
import { storeInjector } from "./own-parts.ts";

const hasRedis = spawnSync("redis-server", ["--version"]).status === 0;
const skipped = hasRedis ? "" : " (SKIPPED: redis-server is not installed; apt-get install redis-server)";
const LONG_MS = 30_000;
const ERRORS = ["oom", "readonly", "loading", "noscript", "aof-slow"] as const;

describe.skipIf(!hasRedis)(`errors of Redis${skipped}`, () => {
  let folder: string;
  let supervisor: Supervisor;
  let redis: RedisPart;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "floodgate-redis-errors-"));
    supervisor = await openSupervisor({ journal: openJournal(join(folder, "journal.ndjson")), watchdog: null });
    redis = await startRedisPart({
      supervisor,
      path: "redis-server",
      folder: join(folder, "data"),
      log: join(folder, "log"),
    });
  });
  afterAll(async () => {
    await supervisor?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** As the limiter does it: a script by its digest that writes. What it said, or that it said nothing in time. */
  const write = async (commandTimeout = 300): Promise<string> => {
    const client = new Redis(redis.url, {
      lazyConnect: true,
      enableReadyCheck: false,
      retryStrategy: () => null,
      commandTimeout,
    });
    client.on("error", () => {});
    const source = "return redis.call('SET', 'floodgate:test', '1')";
    try {
      const sha = spawnSync("sha1sum", { input: source }).stdout.toString().slice(0, 40);
      return String(
        await client.evalsha(sha, 0).catch((error: Error) => {
          if (!error.message.startsWith("NOSCRIPT")) throw error;
          return client.eval(source, 0);
        }),
      );
    } catch (error) {
      return (error as Error).message;
    } finally {
      client.disconnect();
    }
  };

  test.each(ERRORS)("%s", async (fault) => {
    const own = { store: { kind: "redis", redis }, limiter: redis.part } as unknown as OwnParts;
    const injector = storeInjector(fault, own);
    const shows = injector.shows as () => Promise<boolean>;
    expect(await write(LONG_MS)).toBe("OK");
    await injector.inject(AbortSignal.timeout(LONG_MS));
    const met = await waitUntil(
      async () => {
        const said = await write();
        return (await shows()) && (fault === "noscript" || said !== "OK");
      },
      { forMs: LONG_MS, pollMs: 20 },
    );
    // First, so that the next error finds a Redis that is well, whatever this one showed.
    await injector.heal(AbortSignal.timeout(LONG_MS));
    const isWell = await waitUntil(async () => (await write()) === "OK", { forMs: LONG_MS, pollMs: 50 });
    expect(met).toMatchObject({ met: true });
    expect(isWell.met).toBe(true);
  });

  test("an error of another store is refused with a sentence", () => {
    const own = { store: { kind: "redis", redis }, limiter: redis.part } as unknown as OwnParts;
    expect(() => storeInjector("locked", own)).toThrow('a limiter in redis has no error "locked"');
  });
});
