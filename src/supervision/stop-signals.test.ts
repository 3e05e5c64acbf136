import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const MODULE = join(import.meta.dirname, "stop-signals.ts");
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-signal-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const play = async (signal: NodeJS.Signals, forgets: boolean): Promise<{ ended: unknown; left: boolean }> => {
  const file = join(folder, "made");
  writeFileSync(file, "");
  const script = `
    import { rmSync } from "node:fs";
    import { beforeSignalEnds } from ${JSON.stringify(MODULE)};
    const forget = beforeSignalEnds(() => rmSync(${JSON.stringify(file)}));
    if (${forgets}) forget();
    setInterval(() => undefined, 1000);
    console.log("ready");`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  const ended = new Promise((resolve) => child.once("exit", (_, by) => resolve(by)));
  child.kill(signal);
  return { ended: await ended, left: existsSync(file) };
};

test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("%s cleans up, and ends the process as it does", async (signal) => {
  expect(await play(signal, false)).toEqual({ ended: signal, left: false });
});

test("once it is forgotten, nothing is cleaned up", async () => {
  expect(await play("SIGINT", true)).toEqual({ ended: "SIGINT", left: true });
});
