/** What a stream came to, by both drivers at one server: each call is answered in another way, and both have to say the same of it. */
import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../client/stub-api.fixture.ts";
import { isError } from "../contract/refusals.ts";
import { VOCABULARIES, writeEvent } from "../contract/streams.ts";
import type { CallLine } from "../history/line.ts";
import { measureStage } from "../history/measure-stage.fixture.ts";
import { wallUs } from "../supervision/waiting.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { constant } from "../workload/load-profiles.ts";
import { k6OrSkip, playK6 } from "./k6/run-k6.fixture.ts";
import { runOpenLoop } from "./open-loop/run-open-loop.fixture.ts";

const DRIVERS = k6OrSkip() !== null ? (["open-loop", "k6"] as const) : (["open-loop"] as const);
type DriverName = (typeof DRIVERS)[number];

const STORY = "chat-past-capacity";
const SSE = { "content-type": "text/event-stream" };
const token = writeEvent("token", { text: "a" });
const done = writeEvent(VOCABULARIES.control.done, {});

const says =
  (text: string, headers: Record<string, string | number> = SSE, status = 200) =>
  (res: ServerResponse) =>
    void res.writeHead(status, headers).end(text);
/** Past Node's own framing. */
const raw = (text: string, then: "end" | "reset") => (res: ServerResponse) => {
  const { socket } = res;
  if (socket === null) throw new Error("the connection is gone");
  socket.write(text, () => setTimeout(() => (then === "end" ? socket.end() : socket.resetAndDestroy()), 30));
};
const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
const CLOSING = `${HEAD}connection: close\r\n\r\n`;
const CHUNKED = `${HEAD}transfer-encoding: chunked\r\n\r\n`;
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

type Came = { outcome: string; ended: string; events?: number; error?: string };
const NOTHING: Came = { outcome: "200 empty", ended: "eof", events: 0 };
const NO_STREAM = (outcome: string): Came => ({ outcome, ended: "refused" });

const WAYS: readonly [name: string, answer: (res: ServerResponse) => void, came: Came][] = [
  ["no body in chunks", says(""), NOTHING],
  ["Content-Length: 0", says("", { ...SSE, "content-length": 0 }), NOTHING],
  ["a body up to the end of the connection, empty", raw(CLOSING, "end"), NOTHING],
  ["comments alone", says(": ping\n\n: ping\n\n"), NOTHING],
  ["blank lines alone", says("\n\n\r\n\r\n"), NOTHING],
  ["a byte order mark alone", says("\uFEFF"), NOTHING],
  ["fields without data", says("id: 1\nretry: 10\n\nevent: token\n\n"), NOTHING],
  ["half an event", says("event: token\ndata: {}\n"), NOTHING],
  ["lines that are no fields", says("<html><body>busy</body></html>\n\n"), NOTHING],
  ["JSON in place of a stream", says('{"ok":true}', { "content-type": "application/json" }), NO_STREAM("200 empty")],
  ["plain text in place of a stream", says("data: a\n\n", { "content-type": "text/plain" }), NO_STREAM("edge 200")],
  ["a page in place of a stream", says("<html></html>", { "content-type": "text/html" }), NO_STREAM("edge 200")],
  ["nothing, of no type", says("", {}), NO_STREAM("200 empty")],
  ["204", says("", {}, 204), NO_STREAM("204 empty")],
  ["an error in JSON", says('{"error":"e"}', { "content-type": "application/json" }), NO_STREAM("200 error")],
  ["an event that is no JSON", says(`data: hello\n\n${done}`), { outcome: "200", ended: "done", events: 2 }],
  ["an event without a text", says(`data:\n\n${done}`), { outcome: "200", ended: "done", events: 2 }],
  ["the last event alone", says(done), { outcome: "200", ended: "done", events: 1 }],
  ["an error event", says(token + writeEvent("error", {})), { outcome: "200 error", ended: "error_event", events: 2 }],
  [
    "an end in order without the last event",
    says(token),
    { outcome: "200", ended: "truncated", events: 1, error: "no_last_event" },
  ],
  [
    "the same up to the end of the connection",
    raw(CLOSING + token, "end"),
    { outcome: "200", ended: "truncated", events: 1, error: "no_last_event" },
  ],
  [
    "another event in place of the last",
    says(token + writeEvent("end", {})),
    { outcome: "200", ended: "truncated", events: 2, error: "no_last_event" },
  ],
  ["cut in the middle", raw(CHUNKED + chunk(token), "end"), { outcome: "200", ended: "truncated", events: 1 }],
  ["reset in the middle", raw(CHUNKED + chunk(token), "reset"), { outcome: "200", ended: "reset", events: 1 }],
  ["cut before the first event", raw(CHUNKED, "end"), { outcome: "200", ended: "truncated", events: 0 }],
  [
    "cut behind a comment",
    raw(CHUNKED + chunk(": ping\n\n"), "end"),
    { outcome: "200", ended: "truncated", events: 0 },
  ],
];

/** A second of them, each way twice. */
const CALLS = 2 * WAYS.length;

let stub: StubApi;
const lines = new Map<DriverName, CallLine[]>();

/** The number of the call of the schedule. */
const numberOf = (id: string): number => Number(/-c?(\d+)$/.exec(id)?.[1] ?? Number.NaN);

const play = async (driver: DriverName, target: Target): Promise<CallLine[]> => {
  const profile = constant(CALLS, 1);
  if (driver === "k6") return (await playK6(stub, STORY, profile, { target, view: viewOf(target) })).lines;
  const seen: CallLine[] = [];
  const job = {
    ...{ stage: STORY, idPrefix: `run1-${STORY}`, story: STORY, seed: 1, profile, arrivals: "uniform" as const },
    ...{ target, view: viewOf(target), epochUs: wallUs(), timeouts: { callMs: 5000 } },
  };
  await runOpenLoop({ job, secrets: createSecrets("."), onLine: (line) => seen.push(line) });
  return seen;
};

beforeAll(async () => {
  stub = await startStubApi();
  stub.instead = ({ id, path }, res) => {
    const way = path.includes("/chat/") ? WAYS[numberOf(id) % WAYS.length] : undefined;
    if (way === undefined) return false;
    way[1](res);
    return true;
  };
  const target = stub.target({ stream_end: { control: VOCABULARIES.control.done } });
  for (const driver of DRIVERS) lines.set(driver, await play(driver, target));
});
afterAll(() => stub.close());

describe.each(DRIVERS)("a stream, as %s writes it down", (driver) => {
  const ofWay = (at: number): CallLine[] =>
    (lines.get(driver) ?? []).filter(({ id, route }) => route.startsWith("chat.") && numberOf(id) % WAYS.length === at);

  test.each(WAYS.map(([name, , came], at) => [name, at, came] as const))("%s", (_, at, came) => {
    expect(ofWay(at).length).toBeGreaterThan(0);
    for (const line of ofWay(at)) expect(line).toMatchObject(came);
    for (const { first_event_us, events } of ofWay(at)) expect(first_event_us === undefined).toBe((events ?? 0) === 0);
  });

  test("without one event it is an error and no answer, and has no time of an answer", () => {
    const silent = (lines.get(driver) ?? []).filter(
      (line) => line.route.startsWith("chat.") && (line.events ?? 0) === 0,
    );
    const failed = silent.filter(({ outcome }) => outcome === "200 error");
    expect(silent.filter((line) => isError(line.outcome, line))).toHaveLength(silent.length - failed.length);
    const empty = silent.filter(({ outcome }) => outcome.endsWith(" empty"));
    const { summary, measurements } = measureStage(empty, { stage: STORY });
    expect(summary.calls).toMatchObject({ answered: 0, indeterminate: empty.length });
    expect(measurements.map(({ name }) => name).filter((name) => /^(?:latency|ttfe)_/.test(name))).toEqual([]);
  });
});
