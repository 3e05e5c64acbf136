import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Deployment, RunContext } from "../deployments/deployment.ts";
import { type Journal, openEffects, openJournal, readJournal } from "../supervision/journal.ts";
import { openSupervisor, type Supervisor } from "../supervision/supervisor.ts";
import { waitUntil } from "../supervision/waiting.ts";
import type { Target } from "../target/target.ts";
import { undoByName } from "./healing.ts";
import { replicasByCommands, scaleRefusals } from "./replicas.ts";

let folder: string;
let journal: Journal;
let supervisor: Supervisor;
let stop: AbortController;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-replicas-"));
  journal = openJournal(join(folder, "journal.ndjson"));
  supervisor = await openSupervisor({ journal, watchdog: null });
  stop = new AbortController();
  // What was set is ready, unless a test says otherwise.
  script("scale", 'echo "$1" >> set');
  script("ready", '[ "$(tail -n 1 set 2>/dev/null || echo 2)" = "$1" ]');
});
afterEach(async () => {
  await supervisor.close();
  journal.close();
  rmSync(folder, { recursive: true });
});

const script = (name: string, body: string): void => {
  writeFileSync(join(folder, name), `#!/bin/sh\n${body}\n`);
  chmodSync(join(folder, name), 0o700);
};

const SCALE = { set: ["./scale {replicas}"], ready: "./ready {replicas}" };
const target = (more: Partial<Target> = {}): Target => ({
  ...{ schema: "floodgate/target@1", base_url: "http://127.0.0.1:9/v1", scale: SCALE },
  ...{ limits: { replicas: 2 }, permits: { chaos: true }, ...more },
});

const replicasOf = (of = target()) => {
  const context = { supervisor, events: { step: () => undefined }, signal: stop.signal } as unknown as RunContext;
  const deployment = { target: of, folder, file: join(folder, "target.json") } as unknown as Deployment;
  const times = { setMs: 20_000, readyMs: 400, stillReadyMs: 200, pollMs: 20 };
  return replicasByCommands(context, deployment, SCALE, times);
};

const setNumbers = (): string[] =>
  existsSync(join(folder, "set")) ? readFileSync(join(folder, "set"), "utf8").trim().split("\n") : [];
const openFaults = () => openEffects(readJournal(journal.path).entries).filter(({ kind }) => kind === "fault");

test("each number is set and journalled, and the one before is set again", async () => {
  const replicas = replicasOf();
  const scaled = await replicas.set(1);
  expect(scaled.target.limits?.replicas).toBe(1);
  expect(openFaults()).toMatchObject([{ name: "scale to 1", undo: { how: "command", fault: "scale", replicas: 2 } }]);
  await replicas.set(3);
  expect(openFaults()).toMatchObject([{ name: "scale to 3", undo: { replicas: 2 } }]);
  expect(await replicas.whyNot(3)).toBeNull();
  expect(await replicas.restore()).toContain("set to 2 again, and they are ready");
  expect(setNumbers()).toEqual(["1", "3", "2"]);
  expect(openFaults()).toEqual([]);
  await supervisor.close();
  expect(setNumbers()).toHaveLength(3);
});

test("the end of the run sets the number again where nothing else did, also after a stop", async () => {
  await replicasOf().set(3);
  stop.abort();
  expect(await supervisor.close()).toEqual([]);
  expect(setNumbers()).toEqual(["3", "2"]);
});

test("a stop while the number is set leaves it as it was before", async () => {
  script("scale", 'echo "$1" >> set; if [ "$1" = 3 ]; then sleep 60; fi');
  const setting = replicasOf().set(3);
  setting.catch(() => undefined);
  await waitUntil(async () => setNumbers().length > 0, { forMs: 20_000, pollMs: 20 });
  stop.abort();
  await expect(setting).rejects.toThrow("scale.set");
  expect(await supervisor.close()).toEqual([]);
  expect(setNumbers()).toEqual(["3", "2"]);
});

test("a command that fails, and replicas that do not become ready, are said", async () => {
  script("ready", '[ "$1" != 3 ] || { echo "one pod is pending" >&2; exit 1; }');
  const replicas = replicasOf();
  await expect(replicas.set(3)).rejects.toThrow(/did not find 3 replicas within 0.4 s .*one pod is pending/);
  script("scale", "echo forbidden >&2; exit 1");
  await expect(replicas.set(1)).rejects.toThrow(/scale.set failed \(exit code 1\): forbidden/);
  // The number before cannot be set again, so it stays open for `chaos --heal`.
  expect(await supervisor.close()).toMatchObject([expect.stringContaining("forbidden")]);
  expect(openFaults()).toHaveLength(1);
});

test("a stated number that the deployment does not have is found out before anything is changed", async () => {
  const replicas = replicasOf(target({ limits: { replicas: 5 } }));
  await expect(replicas.set(3)).rejects.toThrow(/limits.replicas states 5, and scale.ready did not find 5 replicas/);
  expect(await replicas.restore()).toContain("not changed");
  expect([setNumbers(), openFaults()]).toEqual([[], []]);
});

test("a number that something else has changed meanwhile is found out", async () => {
  const replicas = replicasOf();
  await replicas.set(3);
  writeFileSync(join(folder, "set"), "2\n");
  expect(await replicas.whyNot(3)).toContain("did not find 3 replicas");
});

test("where the number before is not known, what stays is said and nothing is undone", async () => {
  const replicas = replicasOf(target({ limits: {} }));
  await replicas.set(1);
  expect(openFaults()).toMatchObject([{ undo: { how: "nothing" } }]);
  expect(await replicas.restore()).toMatch(/number, 1, stays.*limits.replicas/);
  expect(await supervisor.close()).toEqual([]);
  expect(setNumbers()).toEqual(["1"]);
});

describe("a journal names the number, and the target file that is given has the commands", () => {
  const known = (of: Target) => ({ run: null, folder, given: [{ target: of, file: join(folder, "target.json") }] });

  test("of the run that was killed", async () => {
    await replicasOf().set(3);
    const [left] = openFaults();
    expect(readFileSync(journal.path, "utf8")).not.toContain("./scale");
    const other = target({ scale: { set: ["kubectl --replicas {replicas}"], ready: "true {replicas}" } });
    const undo = undoByName(left?.undo ?? { how: "nothing" }, known(other));
    expect(undo).toMatchObject({ undo: { how: "command", commands: ["kubectl --replicas 2"], cwd: folder } });
  });

  test("a file without scale cannot undo it", async () => {
    await replicasOf().set(3);
    const undo = undoByName(openFaults()[0]?.undo ?? { how: "nothing" }, known(target({ scale: undefined })));
    expect(undo).toMatchObject({ trouble: expect.stringContaining("no scale") });
  });
});

test.each<[Partial<Target>, number]>([
  [{}, 0],
  [{ limits: {} }, 0],
  [{ permits: { writes: true } }, 1],
  [{ base_url: "https://maps.example/v1" }, 1],
  [{ base_url: "https://maps.example/v1", watchdog: { url: "http://10.0.0.7:8475" } }, 0],
])("the guard on %j", (more, refusals) => {
  expect(scaleRefusals(target(more))).toHaveLength(refusals);
});
