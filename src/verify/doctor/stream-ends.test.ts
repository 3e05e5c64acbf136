/** Which event ends a stream, found out at a real server and written into the target file. */
import { lstatSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import { writeEvent } from "../../contract/streams.ts";
import type { Target } from "../../target/target.ts";
import { diagnoseTarget } from "./diagnose-target.ts";
import type { Finding } from "./finding.ts";
import { withStreamEnds } from "./stream-ends.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-stream-ends-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, "target.json");

let stub: StubApi;
beforeEach(async () => {
  stub = await startStubApi();
});
afterEach(async () => {
  rmSync(file, { force: true });
  await stub.close();
});

const frames = (...names: string[]): string => names.map((name) => writeEvent(name, {})).join("");
const SSE = { "content-type": "text/event-stream" };

/** Each stream is answered by what `say` gives for its route and how often that was asked. */
const streamsSay = (say: (kind: string, n: number) => string | ((res: ServerResponse) => void)): void => {
  const asked = new Map<string, number>();
  stub.instead = ({ path }, res) => {
    const kind = /chat\/(\w+)\/stream/.exec(path)?.[1];
    if (kind === undefined) return false;
    const n = asked.get(kind) ?? 0;
    asked.set(kind, n + 1);
    const said = say(kind, n);
    if (typeof said === "string") res.writeHead(200, SSE).end(said);
    else said(res);
    return true;
  };
};

const doctor = async (more: Partial<Target> = {}, path = file) => {
  const { tenants: _tenants, ...target } = stub.target();
  writeFileSync(file, `${JSON.stringify({ ...target, ...more }, null, 2)}\n`, { mode: 0o640 });
  const { sections } = await diagnoseTarget(path, []);
  const found = sections.find(({ title }) => title === "Streams")?.findings ?? [];
  const stated = (JSON.parse(readFileSync(file, "utf8")) as Target).stream_end;
  return { named: (name: string): Finding | undefined => found.find((one) => one.name === name), stated };
};

describe("doctor finds out which event ends a stream of each kind", () => {
  test("and writes it into the file, which keeps the rest of its text and who may read it", async () => {
    streamsSay((kind) => frames("piece", "piece", `${kind}_over`));
    const { named, stated } = await doctor();
    expect(stated).toEqual({ control: "control_over", summary: "summary_over", button: "button_over" });
    expect(named("control streams")).toMatchObject({ state: "ok", text: "end by control_over" });
    expect(named("stream_end")?.text).toContain("written into");
    expect(statSync(file).mode & 0o777).toBe(0o640);
    const { stream_end: _written, ...rest } = JSON.parse(readFileSync(file, "utf8")) as Target;
    const { tenants: _tenants, ...target } = stub.target();
    expect(rest).toEqual(target);
  });

  test("whatever its spelling, as long as it is a word", async () => {
    streamsSay((kind) => frames("piece", "piece", `Response.${kind}-Done`));
    const { stated } = await doctor();
    expect(stated?.control).toBe("Response.control-Done");
  });

  test("by a publishable key as well, which needs a session", async () => {
    const { credentials } = stub.target();
    const { stated } = await doctor({ credentials: { publishable: credentials?.publishable as never } });
    expect(stated).toEqual({ control: "done", summary: "summary_done", button: "end" });
  });

  test.each<[what: string, say: (n: number) => string | ((res: ServerResponse) => void), text: RegExp]>([
    ["end behind their content", () => frames("token", "token"), /end in order behind token/],
    ["have one event", () => frames("token"), /end in order behind token/],
    ["are cut in order by something in between", (n) => frames("start", ...Array(4 + n).fill("piece")), /behind piece/],
    [
      "end by another event each time",
      (n) => frames("piece", "piece", n === 0 ? "over" : "finished"),
      /different events/,
    ],
    ["end by an error event", () => frames("token", "error"), /error event/],
    [
      "end by what is no word, a key in another coding for one",
      () => frames("token", "token", Buffer.from("svc_sk_live_4f9aK2mQx7LpT3vBz8Ns").toString("hex")),
      /name is no word \(other_64_[0-9a-f]{4}\)/,
    ],
    [
      "end by a name of megabytes",
      () => frames("token", "token", "x ".repeat(500_000)),
      /name is no word \(other_\d+_/,
    ],
    ["have each event once", () => frames("start", "piece"), /too few events/],
    [
      "are cut",
      () => (res) => void res.writeHead(200, SSE).write(frames("token"), () => res.destroy()),
      /not end in order/,
    ],
    ["are refused", () => (res) => void res.writeHead(429).end('{"error":"b2b_overloaded"}'), /busy/],
  ])("and says so where they %s: nothing is written", async (_what, say, text) => {
    streamsSay((_kind, n) => say(n));
    const { named, stated } = await doctor();
    expect(stated).toBeUndefined();
    expect(named("control streams")).toMatchObject({ state: expect.stringMatching(/warn|skipped/) });
    expect(named("control streams")?.text).toMatch(text);
  });

  const page = (res: ServerResponse, status: number): unknown =>
    res.writeHead(status, { "content-type": "text/html" }).end("<html><h1>Bad Gateway</h1></html>");
  const coded = (res: ServerResponse): unknown =>
    res.writeHead(200, { ...SSE, "content-encoding": "gzip" }).end(gzipSync(frames("piece", "over")));
  test.each<[what: string, say: (res: ServerResponse) => unknown, text: string, todo: RegExp]>([
    ["a gateway's page", (res) => page(res, 502), "edge 502", /balancer, firewall or proxy/],
    ["a gateway's page under 200", (res) => page(res, 200), "edge 200", /balancer, firewall or proxy/],
    ["a gateway's page under 429", (res) => page(res, 429), "edge 429", /balancer, firewall or proxy/],
    ["an unasked coding", coded, "edge 200 (coded-gzip)", /send answers uncoded/],
    ["no event at all", (res) => res.writeHead(200, SSE).end(), "200 and no event", /no answer/],
    ["comments alone", (res) => res.writeHead(200, SSE).end(": ping\n\n"), "200 and no event", /no answer/],
    ["JSON", (res) => res.writeHead(200, { "content-type": "application/json" }).end("{}"), "200 and no", /no answer/],
    ["a cut before the first event", (res) => res.writeHead(200, SSE).write(":\n", () => res.destroy()), "200", /no a/],
  ])(
    "and %s in place of a stream is wrong, whether or not the file states the event",
    async (_what, say, text, todo) => {
      streamsSay(() => say);
      for (const stated of [undefined, { control: "done" }]) {
        const { named } = await doctor(stated === undefined ? {} : { stream_end: stated });
        expect(named("control streams")).toMatchObject({ state: "wrong", todo: expect.stringMatching(todo) });
        expect(named("control streams")?.text).toContain(`expected a stream; got ${text}`);
      }
    },
  );

  test("and what the file states is held against it, and not changed", async () => {
    const stream_end = { control: "done", summary: "over" };
    const { named, stated } = await doctor({ stream_end });
    expect(stated).toEqual(stream_end);
    expect(named("control streams")).toMatchObject({ state: "ok", text: "end by done" });
    expect(named("summary streams")).toMatchObject({
      state: "wrong",
      text: "expected over as their last event (stream_end.summary); got summary_delta, summary_done",
      todo: 'write "summary_done" at stream_end.summary',
    });
    expect(named("button streams")).toMatchObject({ state: "ok", text: "end by end" });
  });

  test("and a file behind a link is left as it is, with the field to add", async () => {
    const link = join(folder, "link.json");
    symlinkSync(file, link);
    const { named, stated } = await doctor({}, link);
    rmSync(link);
    expect(stated).toBeUndefined();
    expect(named("stream_end")).toMatchObject({ state: "warn", todo: expect.stringContaining('"control":"done"') });
    expect(lstatSync(file).isSymbolicLink()).toBe(false);
  });
});

test("the field is put behind the last member of the file, in whatever way that is written", () => {
  const ends = { control: "done", button: 'e"nd' };
  const texts = [
    "{}",
    '{"a":1}',
    '\uFEFF{"a":1}',
    '{ "a": 1 }\n',
    '{\n  "// note": "}",\n  "a": { "b": [] }\n}\n',
    '{\r\n\t"a": "}"\r\n}',
  ];
  for (const text of texts) {
    const written = withStreamEnds(text, ends) as string;
    const [before, after] = [text, written].map((one) => JSON.parse(one.replace("\uFEFF", "")) as object);
    expect(after).toEqual({ ...before, stream_end: ends });
    expect(written.startsWith(text.slice(0, text.lastIndexOf("}")).trimEnd())).toBe(true);
  }
  for (const text of ["[1]", "{", '{"stream_end":{}}']) expect(withStreamEnds(text, ends)).toBeNull();
});
