#!/usr/bin/env node
// The entry, which any Node can parse. The rest needs a newer one (`NODE_MIN` of install-first.mjs).
import { fileURLToPath } from "node:url";
import { installFirst, isNewEnough, runByPinnedNode } from "./install-first.mjs";

installFirst();
if (isNewEnough) {
  const start = async () => {
    await import("../supervision/quick-imports.mjs");
    return import("./main.ts");
  };
  const { main } = await start().catch((error) => {
    // Most likely a package is missing. Exit code 1 would mean a broken claim.
    process.stderr.write(`floodgate: it could not be loaded: ${error.message}\nRun \`npm ci\` in its folder.\n`);
    process.exit(error.code === "ERR_MODULE_NOT_FOUND" ? 2 : 4);
  });
  await main(process.argv.slice(2));
} else runByPinnedNode([fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
