import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "properties/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Two cores: more workers only make the sockets of one test wait for another's.
    maxWorkers: 2,
    reporters: ["default"],
  },
});
