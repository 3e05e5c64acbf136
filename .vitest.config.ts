import { defineConfig } from "vitest/config";

// Every process that a test starts is this program once more: what Node compiled of it is kept for the next.
process.env.NODE_COMPILE_CACHE ??= `${import.meta.dirname}/node_modules/.cache/compiled`;

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
