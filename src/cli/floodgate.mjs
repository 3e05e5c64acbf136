#!/usr/bin/env node
// The entry, which any Node can parse. The rest needs a newer one (`NODE_MIN` of install-first.mjs).
import { readFileSync } from "node:fs";
import module from "node:module";
import { extname } from "node:path";
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

/**
 * Finds modules that name each other by path and extension without Node's search: for the links and `package.json` files on the
 * way it looks at the disk a dozen times for each of a thousand modules, a fifth of the time that loading takes.
 */
const resolvePathsDirectly = () => {
  const formats = new Map([
    [".ts", "module-typescript"],
    [".mjs", "module"],
  ]);
  module.registerHooks({
    resolve: (specifier, context, next) => {
      const format = specifier.startsWith(".") ? formats.get(extname(specifier)) : undefined;
      if (format === undefined || context.parentURL?.startsWith("file:") !== true) return next(specifier, context);
      return { url: new URL(specifier, context.parentURL).href, format, shortCircuit: true };
    },
  });
};

installFirst();
if (isNewEnough) {
  keepCompiledCode();
  resolvePathsDirectly();
  const { main } = await import("./main.ts").catch((error) => {
    // Most likely a package is missing. Exit code 1 would mean a broken claim.
    process.stderr.write(`floodgate: it could not be loaded: ${error.message}\nRun \`npm ci\` in its folder.\n`);
    process.exit(error.code === "ERR_MODULE_NOT_FOUND" ? 2 : 4);
  });
  await main(process.argv.slice(2));
} else runByPinnedNode([fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
