import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { openControl, operatedLimiter } from "../operator.fixture.ts";
import { createHttpLimiter, type OperableLimiter, shiftableClock } from "../ports.ts";
import { limiterCases, localLimiter } from "./limiter.fixture.ts";
import { type LimiterStore, openLimiterStore, startLimiterService } from "./store.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-limiter-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const overHttp = async (store: LimiterStore): Promise<OperableLimiter> => {
  const clock = shiftableClock();
  const service = await startLimiterService({ store, clock }, { port: 0 });
  const plane = await openControl(service.control, clock);
  const limiter = operatedLimiter(createHttpLimiter({ url: service.url }), plane.url);
  return {
    ...limiter,
    close: async () => {
      await limiter.close();
      await Promise.all([service.close(), plane.close()]);
    },
  };
};

limiterCases("a limiter in memory", async () => localLimiter(openLimiterStore(":memory:")));
limiterCases("a limiter in SQLite", async () => localLimiter(openLimiterStore(join(folder, "local.sqlite"))));
limiterCases("a limiter in memory over HTTP", () => overHttp(openLimiterStore(":memory:")));
limiterCases("a limiter in SQLite over HTTP", () => overHttp(openLimiterStore(join(folder, "http.sqlite"))));
