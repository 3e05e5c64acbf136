/** A real process is killed, stopped and ended in order, seen to be, and brought back on its port. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type OwnParts, openPart, type Part } from "../../deployments/deployment.ts";
import { openEffects, openJournal, readJournal } from "../../supervision/journal.ts";
import { openSupervisor, type Supervisor } from "../../supervision/supervisor.ts";
import { waitUntil } from "../../supervision/waiting.ts";
import { httpProbe, observeLink } from "../../tools/link-probe.ts";
import { processInjector } from "./own-parts.ts";

const SERVICE = `
const server = require("node:http").createServer((_, response) => response.end("{}"));
server.listen(Number(process.argv[1]), "127.0.0.1", () => console.log("on " + server.address().port));
process.on("SIGTERM", () => process.exit(0));`;

let folder: string;
let supervisor: Supervisor;
let part: Part;
let port: number;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-part-"));
  supervisor = await openSupervisor({ journal: openJournal(join(folder, "journal.ndjson")), watchdog: null });
  const opened = await openPart(
    "service",
    async (again: number | null) => {
      const child = await supervisor.start({
        name: "service",
        command: process.execPath,
        args: ["-e", SERVICE, `${again ?? 0}`],
        ends: "by-signal",
      });
      const line = await child.waitForLine(/^on \d+$/, { deadlineMs: 10_000 });
      return { child, at: Number(line.slice(3)) };
    },
    (at, giveUpMs) => httpProbe(`127.0.0.1:${at}`, "/health", giveUpMs),
  );
  part = opened.part;
  port = opened.at;
});
afterEach(async () => {
  await supervisor.close();
  rmSync(folder, { recursive: true, force: true });
});

test.each(["killed", "stopped", "restarted"] as const)(
  "%s: it shows, and is healed on the same port",
  async (fault) => {
    const own = { limiter: part, keys: part, apis: [part] } as unknown as OwnParts;
    const injector = processInjector({ by: "process", component: "limiter", fault }, own);
    const shows = injector.shows as () => Promise<boolean>;
    expect(await shows()).toBe(false);
    const signal = AbortSignal.timeout(60_000);
    await injector.inject(signal);
    expect((await waitUntil(shows, { forMs: 30_000, pollMs: 20 })).met).toBe(true);
    await injector.heal(signal);
    expect(await shows()).toBe(false);
    const seen = await observeLink(httpProbe(`127.0.0.1:${port}`, "/health", 1_000));
    expect(seen.ended).toBe("complete");
    const open = openEffects(readJournal(join(folder, "journal.ndjson")).entries).map(({ kind }) => kind);
    expect(open.filter((kind) => kind === "signal")).toEqual([]);
  },
);

test("a replica that there is not is named", () => {
  const own = { limiter: part, keys: part, apis: [part] } as unknown as OwnParts;
  const second = { by: "process", component: "api", fault: "killed", replica: 1 } as const;
  expect(() => processInjector(second, own)).toThrow("no replica 2");
});
