import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "properties/**/*.test.ts"],
    // What hangs ends here; no test depends on the time that a shared machine takes.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    // CI's machine stalls now and then under its sockets: what fails twice in a row is broken, and a retry is reported.
    retry: process.env.CI === undefined ? 0 : 1,
    // Two cores: more workers only make the sockets of one test wait for another's.
    maxWorkers: 2,
    reporters: ["default"],
  },
});
