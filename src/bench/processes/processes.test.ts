import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openJournal } from "../../supervision/journal.ts";
import { Supervisor } from "../../supervision/supervisor.ts";
import { type LoadCall, playLoad } from "../closed-loop.ts";
import { openStreams } from "../stream-client.ts";
import type { BareOptions } from "./bare-process.ts";
import { startBenchChild } from "./child.ts";

const fastify: BareOptions = { kind: "fastify", method: "GET", path: "/x", status: 429, body: '{"subcode":"shed"}' };
const frames = Array.from({ length: 20 }, (_, i) => `event: token\ndata: {"i":${i}}\n\n`);
const streams: BareOptions = {
  kind: "streams",
  headers: ["Content-Type", "text/event-stream"],
  frames,
  durationMs: 50,
};

const folder = mkdtempSync(join(tmpdir(), "floodgate-bench-"));
let supervisor: Supervisor;
beforeAll(async () => {
  supervisor = await Supervisor.open({ journal: openJournal(join(folder, "journal.ndjson")), watchdog: null });
});
afterAll(async () => {
  expect(await supervisor.close()).toEqual([]);
  rmSync(folder, { recursive: true, force: true });
});

const urlOf = (made: unknown): string => (made as { url: string }).url;

describe("the processes of a benchmark", () => {
  test("the bare route answers the status and the bytes that it was given, and the load counts them by status", async () => {
    const server = await startBenchChild(supervisor, "bare-process.ts", fastify);
    try {
      const answer = await request(`${urlOf(server.made)}/x`);
      expect([answer.statusCode, await answer.body.text()]).toEqual([429, '{"subcode":"shed"}']);
      const call = (path: string): LoadCall => ({ url: urlOf(server.made) + path, method: "GET", headers: {} });
      const results = await playLoad({ calls: [call("/x"), call("/nowhere")], connections: 2, durationS: 0.5 });
      expect(results.map(({ byStatus }) => Object.keys(byStatus))).toEqual([["429"], ["404"]]);
      expect((await server.usage()).cpuUs).toBeGreaterThan(0);
    } finally {
      await server.end();
    }
  });

  test("a server that is gone is so many errors, and no load that never ends", async () => {
    const server = await startBenchChild(supervisor, "bare-process.ts", fastify);
    const url = `${urlOf(server.made)}/x`;
    await server.end();
    const calls: LoadCall[] = [{ url, method: "GET", headers: {} }];
    const [result] = await playLoad({ calls, connections: 3, durationS: 0.1 });
    expect(result?.byStatus).toEqual({ error: 3 });
  });

  test("the bare stream says every frame, and the client counts events and streams that ended", async () => {
    const server = await startBenchChild(supervisor, "bare-process.ts", streams);
    try {
      const url = `${urlOf(server.made)}/y`;
      const answer = await request(url, { method: "POST", body: "{}" });
      expect(await answer.body.text()).toBe(frames.join(""));
      await using opened = await openStreams({ url, headers: {}, body: "{}" }, 3, 0);
      expect(opened.seen).toMatchObject({ begun: 3, refused: 0, lost: 0 });
      expect((await opened.count(1_000)).eventsPerS).toBeGreaterThan(0);
      expect(opened.seen.ended).toBeGreaterThan(0);
    } finally {
      await server.end();
    }
  });

  test("the pulse says every frame when it is due, on one connection after another", async () => {
    const headers = ["Content-Type", "text/event-stream"];
    const options: BareOptions = { kind: "pulses", headers, frames, everyMs: 10, port: 0 };
    const server = await startBenchChild(supervisor, "bare-process.ts", options);
    try {
      for (const _ of [1, 2]) {
        const beganMs = performance.now();
        const answer = await request(`${urlOf(server.made)}/y`, { method: "POST", body: "{}" });
        expect(answer.headers["content-type"]).toBe("text/event-stream");
        expect(await answer.body.text()).toBe(frames.join(""));
        expect(performance.now() - beganMs).toBeGreaterThanOrEqual(199);
      }
    } finally {
      await server.end();
    }
  });

  test("what goes wrong in a child comes back as its sentence", async () => {
    const options = { kind: "fastify", method: "POST", path: "/x", status: 200, body: "no JSON" };
    await expect(startBenchChild(supervisor, "bare-process.ts", options)).rejects.toThrow(/^bare-process\.ts: .*JSON/);
  });
});
