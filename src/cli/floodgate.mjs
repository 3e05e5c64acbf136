#!/usr/bin/env node
// The entry, which any Node can parse. The rest is TypeScript for type stripping, which needs Node 22.18 or later.
import { fileURLToPath } from "node:url";
import { installFirst, isNewEnough, runByPinnedNode } from "./install-first.mjs";

installFirst();
if (isNewEnough) {
  const { main } = await import("./main.ts").catch((error) => {
    // Most likely a package is missing. Exit code 1 would mean a broken claim.
    process.stderr.write(`floodgate: it could not be loaded: ${error.message}\nRun \`npm ci\` in its folder.\n`);
    process.exit(error.code === "ERR_MODULE_NOT_FOUND" ? 2 : 4);
  });
  await main(process.argv.slice(2));
} else runByPinnedNode([fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
