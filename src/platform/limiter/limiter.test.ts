import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { shiftableClock } from "../clock.ts";
import type { Limiter } from "../limiter.ts";
import { createHttpLimiter } from "./http-limiter.ts";
import { limiterCases } from "./limiter.fixture.ts";
import { startLimiterService } from "./limiter-service.ts";
import { type LimiterStore, localLimiter, openLimiterStore } from "./store.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-limiter-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TOKEN = "a-control-token-for-tests";
const overHttp = async (store: LimiterStore): Promise<Limiter> => {
  const service = await startLimiterService({ store, port: 0, control: { port: 0, token: TOKEN } });
  const limiter = createHttpLimiter({ url: service.url, control: { url: service.controlUrl as string, token: TOKEN } });
  return {
    ...limiter,
    close: async () => {
      await limiter.close();
      await service.close();
    },
  };
};

limiterCases("a limiter in memory", async () => localLimiter(openLimiterStore(":memory:"), shiftableClock()));
limiterCases("a limiter in SQLite", async () =>
  localLimiter(openLimiterStore(join(folder, "local.sqlite")), shiftableClock()),
);
limiterCases("a limiter in memory over HTTP", () => overHttp(openLimiterStore(":memory:")));
limiterCases("a limiter in SQLite over HTTP", () => overHttp(openLimiterStore(join(folder, "http.sqlite"))));
