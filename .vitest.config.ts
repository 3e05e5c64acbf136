import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "properties/**/*.test.ts"],
    // What hangs ends here; no test depends on the time that a shared machine takes.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    // Two cores: more workers only make the sockets of one test wait for another's.
    maxWorkers: 2,
    reporters: ["default"],
  },
});
