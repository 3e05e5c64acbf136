/**
 * For tests: a runner that starts stubborn children and a fault, says what it made in one line of JSON, and then waits
 * to be killed. Run as `node stubborn-runner.fixture.ts JOURNAL [TOXIPROXY_API PROXY]`.
 */
import { makeFault } from "../faults/link-faults.ts";
import { WATCHDOG_PROCESS } from "../faults/watchdog-process.ts";
import { openToxiproxy } from "../tools/toxiproxy.ts";
import { openJournal } from "./journal.ts";
import { openSupervisor } from "./supervisor.ts";

const [journalPath, apiUrl, proxy] = process.argv.slice(2) as [string, string | undefined, string | undefined];
const journal = openJournal(journalPath);
const supervisor = await openSupervisor({ journal, watchdog: WATCHDOG_PROCESS });

// Ignores the end of its stdin, SIGTERM and SIGHUP, and has a child of its own that does not know of any of this.
const STUBBORN = `
  for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) process.on(signal, () => {});
  const { spawn } = require("node:child_process");
  console.log("grandchild " + spawn("sleep", ["600"], { stdio: "ignore" }).pid);
  setInterval(() => {}, 1000);
`;
const stubborn = await supervisor.start({
  name: "stubborn",
  command: process.execPath,
  args: ["-e", STUBBORN],
  ends: "at-stdin-eof",
});
const grandchild = Number((await stubborn.waitForLine(/^grandchild /, { deadlineMs: 10_000 })).split(" ")[1]);
const sleeping = await supervisor.start({
  name: "sleeping",
  command: "sleep",
  args: ["600"],
  ends: "by-signal",
  deathSignal: false,
});
// Leaves its group, so that only the mark finds it.
const LEAVING = `
  const { spawn } = require("node:child_process");
  console.log("left " + spawn("sleep", ["600"], { stdio: "ignore", detached: true }).pid);
`;
const leaving = await supervisor.start({
  name: "leaving",
  command: process.execPath,
  args: ["-e", LEAVING],
  ends: "by-signal",
  deathSignal: false,
});
const left = Number((await leaving.waitForLine(/^left /, { deadlineMs: 10_000 })).split(" ")[1]);
const stopped = await supervisor.start({
  name: "stopped",
  command: "sleep",
  args: ["600"],
  ends: "by-signal",
  deathSignal: false,
});
stopped.signal("SIGSTOP");

if (apiUrl !== undefined && proxy !== undefined) {
  const target = { base_url: "http://127.0.0.1:1/v1" };
  const undo = { how: "heal-proxy", api_url: apiUrl, proxy, disables: false, target } as const;
  const id = journal.about({ kind: "fault", name: "link.reply-lost", undo });
  await makeFault("reply-lost", { budgetMs: 250 }).put(openToxiproxy(apiUrl).proxy(proxy));
  journal.done(id);
}
const pids = [stubborn.pid, grandchild, sleeping.pid, left, stopped.pid];
process.stdout.write(`${JSON.stringify({ pids })}\n`);
setInterval(() => {}, 1_000);
