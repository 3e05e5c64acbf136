#!/usr/bin/env node
// The entry that any Node can parse. The program itself is TypeScript run by type stripping, which needs Node 22.18 or
// newer; where Node is older, the one that `npm ci` brought along runs it.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

const [major, minor] = process.versions.node.split(".").map(Number);

if (major > 22 || (major === 22 && minor >= 18)) {
  const { main } = await import("./main.ts");
  await main(process.argv.slice(2));
} else {
  const pinned = fileURLToPath(
    new URL(`../../node_modules/node-${process.platform}-${process.arch}/bin/node`, import.meta.url),
  );
  if (!existsSync(pinned)) {
    process.stderr.write(
      `floodgate: expected Node 22.18 or newer, found ${process.versions.node}, and no pinned Node for ${process.platform}-${process.arch} is installed.\n` +
        "Install a newer Node, or run `npm ci` (on Linux it brings Node 26 along).\n",
    );
    process.exit(2);
  }
  // The channel shows the child when this process is gone, even by kill -9.
  const child = spawn(pinned, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => {
    process.exitCode = code ?? 128 + constants.signals[signal];
  });
}
