import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openJournal } from "../supervision/journal.ts";
import { openSupervisor, type Supervisor } from "../supervision/supervisor.ts";
import { type LoadCall, playLoad } from "./closed-loop.ts";
import { openStreams } from "./routes-benches.ts";
import { type ServerOptions, startServer } from "./server-process.ts";

const fastify: ServerOptions & { kind: "fastify" } = {
  kind: "fastify",
  method: "GET",
  path: "/x",
  status: 429,
  body: '{"subcode":"shed"}',
};
const frames = Array.from({ length: 20 }, (_, i) => `event: token\ndata: {"i":${i}}\n\n`);
const streams: ServerOptions = {
  kind: "streams",
  headers: ["Content-Type", "text/event-stream"],
  frames,
  durationMs: 50,
};

const folder = mkdtempSync(join(tmpdir(), "floodgate-bench-"));
let supervisor: Supervisor;
beforeAll(async () => {
  supervisor = await openSupervisor({ journal: openJournal(join(folder, "journal.ndjson")), watchdog: null });
});
afterAll(async () => {
  expect(await supervisor.close()).toEqual([]);
  rmSync(folder, { recursive: true, force: true });
});

describe("the processes of a benchmark", () => {
  test("the bare route answers the status and the bytes that it was given, and the load counts them by status", async () => {
    await using server = await startServer(supervisor, fastify);
    const answer = await request(`${server.made.url}/x`);
    expect([answer.statusCode, await answer.body.text()]).toEqual([429, '{"subcode":"shed"}']);
    const call = (path: string): LoadCall => ({ url: server.made.url + path, method: "GET", headers: {} });
    const results = await playLoad({ calls: [call("/x"), call("/nowhere")], connections: 2, durationS: 0.5 });
    expect(results.map(({ byStatus }) => Object.keys(byStatus))).toEqual([["429"], ["404"]]);
    expect((await server.usage()).cpuUs).toBeGreaterThan(0);
  });

  test("a server that is gone is so many errors, and no load that never ends", async () => {
    const server = await startServer(supervisor, fastify);
    const url = `${server.made.url}/x`;
    await server[Symbol.asyncDispose]();
    const calls: LoadCall[] = [{ url, method: "GET", headers: {} }];
    const [result] = await playLoad({ calls, connections: 3, durationS: 0.1 });
    expect(result?.byStatus).toEqual({ error: 3 });
  });

  test("the bare stream says every frame, and the client counts events and streams that ended", async () => {
    await using server = await startServer(supervisor, streams);
    const url = `${server.made.url}/y`;
    const answer = await request(url, { method: "POST", body: "{}" });
    expect(await answer.body.text()).toBe(frames.join(""));
    await using opened = await openStreams({ url, method: "POST", headers: {}, body: "{}" }, 3, 0);
    expect(opened.seen).toMatchObject({ begun: 3, refused: 0, lost: 0 });
    expect((await opened.count(1_000)).eventsPerS).toBeGreaterThan(0);
    expect(opened.seen.ended).toBeGreaterThan(0);
  });

  test("the pulse says every frame when it is due, on one connection after another", async () => {
    const headers = ["Content-Type", "text/event-stream"];
    const options: ServerOptions = { kind: "pulses", headers, frames, everyMs: 10, port: 0 };
    await using server = await startServer(supervisor, options);
    for (const _ of [1, 2]) {
      const beganMs = performance.now();
      const answer = await request(`${server.made.url}/y`, { method: "POST", body: "{}" });
      expect(answer.headers["content-type"]).toBe("text/event-stream");
      expect(await answer.body.text()).toBe(frames.join(""));
      expect(performance.now() - beganMs).toBeGreaterThanOrEqual(199);
    }
  });

  test("what goes wrong in a child comes back as its sentence", async () => {
    const options: ServerOptions = { ...fastify, method: "POST", body: "no JSON" };
    await expect(startServer(supervisor, options)).rejects.toThrow(/^fastify server: .*JSON/);
  });
});
