#!/usr/bin/env node
// The entry, which any Node can parse. The rest needs a newer one (`NODE_MIN` of install-first.mjs).
import { readFileSync } from "node:fs";
import module from "node:module";
import { fileURLToPath } from "node:url";
import { installFirst, isNewEnough, runByPinnedNode } from "./install-first.mjs";

/** Keeps compiled code on disk, for this process and its children: loading a command takes half of the time. */
const keepCompiledCode = () => {
  if (process.env.NODE_COMPILE_CACHE === undefined) {
    // Node writes the cache when nothing handles SIGXFSZ any more, so under `ulimit -f` that signal would end it.
    const isLimited = () => !/^Max file size +unlimited/m.test(readFileSync("/proc/self/limits", "latin1"));
    if (process.platform === "linux" && isLimited()) return;
    process.env.NODE_COMPILE_CACHE = fileURLToPath(new URL("../../node_modules/.cache/compiled", import.meta.url));
  }
  module.enableCompileCache?.(process.env.NODE_COMPILE_CACHE);
};

installFirst();
if (isNewEnough) {
  keepCompiledCode();
  const { main } = await import("./main.ts").catch((error) => {
    // Most likely a package is missing. Exit code 1 would mean a broken claim.
    process.stderr.write(`floodgate: it could not be loaded: ${error.message}\nRun \`npm ci\` in its folder.\n`);
    process.exit(error.code === "ERR_MODULE_NOT_FOUND" ? 2 : 4);
  });
  await main(process.argv.slice(2));
} else runByPinnedNode([fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
