/** What an operator had set is read first, written down, and put back whatever happens meanwhile. Real sockets, a real journal. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Journal, openEffects, openJournal, readJournal } from "../../supervision/journal.ts";
import { openSupervisor, type Supervisor } from "../../supervision/supervisor.ts";
import type { DisturbanceContext, OperatorChanges } from "../disturbance.ts";
import { changeDeployment } from "./operator.ts";

type Plane = { url: string; state: Record<string, unknown>; patches: unknown[]; refuses: (nth: number) => boolean };

let folder: string;
let journal: Journal;
let supervisor: Supervisor;
let servers: Server[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-operator-"));
  journal = openJournal(join(folder, "journal.ndjson"));
  supervisor = await openSupervisor({ journal, watchdog: null });
  servers = [];
});
afterEach(async () => {
  await supervisor.close();
  journal.close();
  for (const server of servers) server.close();
  rmSync(folder, { recursive: true });
});

const startPlane = async (state: Record<string, unknown>): Promise<Plane> => {
  const plane: Plane = { url: "", state, patches: [], refuses: () => false };
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) text += chunk;
    if (request.method === "PATCH") {
      const patch = JSON.parse(text) as Record<string, unknown>;
      plane.patches.push(patch);
      if (plane.refuses(plane.patches.length)) return void response.writeHead(500).end("no");
      Object.assign(plane.state, patch);
    }
    response.setHeader("connection", "close").end(JSON.stringify(plane.state));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  servers.push(server);
  plane.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return plane;
};

const beside = (planes: readonly Plane[], signal = new AbortController().signal): DisturbanceContext =>
  ({
    context: { nowUs: () => 0, journal, supervisor },
    deployment: {
      embedded: false,
      file: "/etc/staging.json",
      target: { name: "staging", base_url: "http://127.0.0.1:1/v1", control: { api: planes.map(({ url }) => url) } },
    },
    stage: "x",
    signal,
    onLine: () => undefined,
  }) as unknown as DisturbanceContext;

const CHANGES: OperatorChanges = {
  kind: "operator-changes",
  changes: [
    { patch: { sessions: "disabled" }, holdMs: 10 },
    { patch: { slots: 1, fail_next: { route: "chat.route", mode: "reset", count: 1 } }, holdMs: 10 },
  ],
};
const open = () => openEffects(readJournal(journal.path).entries).filter(({ kind }) => kind === "fault");

test("each control plane gets back what it had itself, and not a default", async () => {
  const one = await startPlane({ sessions: "not_configured", slots: 24, clock_offset_ms: 0 });
  const two = await startPlane({ sessions: "enabled", slots: 8, clock_offset_ms: 5 });
  expect(await changeDeployment(CHANGES, beside([one, two]))).toEqual({ problems: [], notes: [], isLeftBroken: false });
  expect(one.patches.at(-1)).toEqual({ sessions: "not_configured", slots: 24 });
  expect(two.patches.at(-1)).toEqual({ sessions: "enabled", slots: 8 });
  expect(open()).toEqual([]);
});

test("it stands in the journal as data before the first change, without the address", async () => {
  const plane = await startPlane({ sessions: "enabled", slots: 24 });
  let before: unknown;
  plane.refuses = () => {
    before ??= open();
    return false;
  };
  await changeDeployment(CHANGES, beside([plane]));
  expect(before).toMatchObject([
    {
      name: "service.sessions+slots+fail_next",
      undo: {
        how: "deployment",
        planes: [{ plane: "api", at: 0, was: { sessions: "enabled", slots: 24 } }],
        target: { name: "staging", file: "/etc/staging.json" },
      },
    },
  ]);
  expect(readFileSync(journal.path, "utf8")).not.toContain(plane.url);
});

test("a change that fails halfway is in doubt, and what was changed is put back", async () => {
  const plane = await startPlane({ sessions: "enabled", slots: 24 });
  plane.refuses = (nth) => nth === 2;
  const { problems, isLeftBroken } = await changeDeployment(CHANGES, beside([plane]));
  expect(problems).toMatchObject([
    { verdict: "inconclusive", reason: expect.stringContaining("could not be changed") },
  ]);
  expect(isLeftBroken).toBe(false);
  expect(plane.state).toMatchObject({ sessions: "enabled", slots: 24 });
});

test("asked to stop: nothing more is changed, and what was is put back at once", async () => {
  const plane = await startPlane({ sessions: "enabled", slots: 24 });
  const stop = new AbortController();
  plane.refuses = () => {
    stop.abort();
    return false;
  };
  await changeDeployment(CHANGES, beside([plane], stop.signal));
  expect(plane.patches).toEqual([{ sessions: "disabled" }, { sessions: "enabled", slots: 24 }]);
});

test("what cannot be put back stays open, is tried again at the end of the run, and leaves the deployment broken", async () => {
  const plane = await startPlane({ sessions: "enabled", slots: 24 });
  plane.refuses = (nth) => nth === 3;
  const { isLeftBroken } = await changeDeployment(CHANGES, beside([plane]));
  expect(isLeftBroken).toBe(true);
  expect(open()).toHaveLength(1);
  expect(await supervisor.close()).toEqual([]);
  expect(plane.state).toMatchObject({ sessions: "enabled", slots: 24 });
  expect(open()).toEqual([]);
});

test("a control plane that does not show what is set: nothing is changed", async () => {
  const plane = await startPlane({ sessions: "enabled" });
  await expect(changeDeployment(CHANGES, beside([plane]))).rejects.toThrow("GET /deployment does not show slots");
  expect(plane.patches).toEqual([]);
  expect(existsSync(journal.path)).toBe(true);
  expect(open()).toEqual([]);
});
