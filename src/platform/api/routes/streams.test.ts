import { createParser, type EventSourceMessage } from "eventsource-parser";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { VOCABULARIES } from "../../../contract/streams.ts";
import { type Deployment, MESSAGES, outcomeOf, startDeployment } from "../api.fixture.ts";

let on: Deployment;
let session: string;

beforeAll(async () => {
  on = await startDeployment({ inference: { serviceMs: 60, tokens: 6 } });
  session = await on.session(await on.key(await on.org()));
});
afterAll(() => on?.close());
afterEach(() => on.quiet());

const PATHS = {
  control: "/chat/control/stream",
  summary: "/chat/summary/stream",
  button: "/chat/button/stream",
} as const;
const BODIES = { control: MESSAGES, summary: { type: "poi" }, button: { question: "open now?" } } as const;
const KINDS = ["control", "summary", "button"] as const;
type Kind = (typeof KINDS)[number];

const post = (kind: Kind, body: unknown = BODIES[kind], headers: Record<string, string> = {}) =>
  on.call({ method: "POST", path: PATHS[kind], body, credential: session, headers });

const eventsOf = (text: string): { name: string | undefined; data: Record<string, unknown> }[] => {
  const events: EventSourceMessage[] = [];
  createParser({ onEvent: (event) => events.push(event) }).feed(text);
  return events.map(({ event, data }) => ({ name: event, data: JSON.parse(data) }));
};

const failNext = (route: string, mode: string, after_events?: number) =>
  on.ask("PATCH", "/deployment", {
    fail_next: { route, mode, count: 1, ...(after_events === undefined ? {} : { after_events }) },
  });

/** A control stream that is ordered to fail, over a connection of its own, until that is closed. */
const askRaw = async (mode: string, afterEvents: number) => {
  await failNext("chat.control", mode, afterEvents);
  const raw = await on.raw();
  const body = JSON.stringify(MESSAGES);
  raw.send(
    `POST /v1${PATHS.control} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${session}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  await raw.closed();
  return raw;
};

describe("frames (items 8, 92-95, 166, 178-179)", () => {
  test.each(KINDS)(
    "%s is an event stream of event and data lines, ended by its own last event (items 8, 92, 166)",
    async (kind) => {
      const heard = await post(kind);
      expect(heard.status).toBe(200);
      expect(heard.headers["content-type"]).toBe("text/event-stream");
      expect(heard.headers["cache-control"]).toBe("no-store");
      expect(heard.headers["x-accel-buffering"]).toBe("no");
      expect(heard.headers["content-encoding"]).toBeUndefined();
      expect(heard.text).not.toContain("\r");
      for (const frame of heard.text.split("\n\n").slice(0, -1)) expect(frame).toMatch(/^event: \w+\ndata: \{.*\}$/);
      const events = eventsOf(heard.text);
      expect(events.at(-1)?.name).toBe(VOCABULARIES[kind].done);
      for (const { name, data } of events) expect(data.type).toBe(name);
    },
  );

  test("the three vocabularies share no event but error (item 94)", async () => {
    const names = await Promise.all(
      KINDS.map(async (kind) => new Set(eventsOf((await post(kind)).text).map(({ name }) => name))),
    );
    for (const [i, a] of names.entries()) {
      for (const b of names.slice(i + 1)) expect([...a].filter((name) => b.has(name))).toEqual([]);
    }
  });

  test("a control parser finds no text in the other two (item 95)", async () => {
    for (const kind of ["summary", "button"] as const) {
      const said = eventsOf((await post(kind)).text).filter(({ name, data }) => name === "token" || "text" in data);
      expect(said).toEqual([]);
    }
  });

  test("quota comes in the middle of a control stream, and the stream goes on (items 170, 171)", async () => {
    const names = eventsOf((await post("control")).text).map(({ name }) => name);
    const at = names.indexOf("quota");
    expect(at).toBeGreaterThan(0);
    expect(names.slice(at + 1)).toContain("token");
    const { data } = eventsOf((await post("control")).text).find(({ name }) => name === "quota") as {
      data: Record<string, number>;
    };
    expect(data).toMatchObject({ type: "quota", meter: "chat_turns" });
    expect(data.remaining).toBe((data.limit as number) - (data.used as number));
  });

  test("done tells the session that was named; an action comes where actions were asked for (item 173)", async () => {
    const events = eventsOf((await post("control", { ...MESSAGES, session_id: "s-1", auto_actions: true })).text);
    expect(events.at(-1)?.data.session_id).toBe("s-1");
    expect(events.some(({ name }) => name === "action")).toBe(true);
  });

  test("a stream is a stream whatever was accepted (items 101, 110)", async () => {
    for (const accept of ["application/json", "text/event-stream", "*/*;q=0"]) {
      expect((await post("button", {}, { accept })).headers["content-type"]).toBe("text/event-stream");
    }
  });
});

describe("failures inside a stream (items 167-169, 175, 187)", () => {
  test.each(KINDS)("%s ends with one error of four fields, nothing after it (items 167, 169, 187)", async (kind) => {
    await failNext(`chat.${kind}`, "error_event", 3);
    const heard = await post(kind);
    expect(heard.status).toBe(200);
    const events = eventsOf(heard.text);
    expect(events).toHaveLength(4);
    expect(events.at(-1)).toEqual({
      name: "error",
      data: { type: "error", message: expect.any(String), code: "upstream_error", partial_text: expect.any(String) },
    });
    expect(events.at(-1)?.data.partial_text).toMatch(/\w/);
  });

  test("the connection is closed after an error, so that nothing can follow it (item 168)", async () => {
    const raw = await askRaw("error_event", 1);
    expect(raw.heard()).toMatch(/event: error\ndata: \{.*\}\n\n\r\n0\r\n\r\n$/);
  });

  test("partial_text is empty where nothing was said", async () => {
    await failNext("chat.summary", "error_event", 0);
    expect(eventsOf((await post("summary")).text)[0]?.data.partial_text).toBe("");
  });

  test("an ordered failure is used up", async () => {
    await failNext("chat.button", "error_event", 0);
    await post("button");
    expect(eventsOf((await post("button")).text).at(-1)?.name).toBe("end");
  });

  test.each([0, 1, 2, 4])(
    "a cut connection gives the events that were ordered (%i) and no last chunk",
    async (events) => {
      const raw = await askRaw("truncate", events);
      expect(raw.heard().match(/^event: \w+$/gm) ?? []).toHaveLength(events);
      expect(raw.heard()).toMatch(/\r\n\r\n([0-9a-f]+\r\n(event: .*\ndata: .*\n\n)+\r\n)*$/);
      expect(raw.error()).toBeUndefined();
    },
  );

  // How much of what was sent before a reset is read, is the network's affair: a reset takes along what waits to be read.
  test("a reset connection ends the stream with an error and without a last chunk", async () => {
    const raw = await askRaw("reset", 2);
    expect(raw.error()).toBe("ECONNRESET");
    expect(raw.heard()).not.toContain("event: done");
    expect(raw.heard().endsWith("0\r\n\r\n")).toBe(false);
  });
});

describe("errors before a stream (items 111, 169)", () => {
  test("keep their status and their JSON envelope", async () => {
    const heard = await post("control", { messages: [] });
    expect([heard.status, heard.headers["content-type"]]).toEqual([422, "application/json"]);
    const unknown = await on.call({ method: "POST", path: PATHS.control, body: MESSAGES });
    expect([outcomeOf(unknown), unknown.headers["content-type"]]).toEqual(["401", "application/json"]);
  });
});

describe("pace (items 177, 178)", () => {
  test("events are spread over the service time, not kept back to the end", async () => {
    const slow = await startDeployment({ inference: { serviceMs: 600, tokens: 5 } });
    try {
      const credential = (await slow.serverKey(await slow.org())).secret;
      const raw = await slow.raw();
      const body = JSON.stringify(MESSAGES);
      raw.send(
        `POST /v1${PATHS.control} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${credential}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      const early = await raw.waitFor("event: token");
      expect(early).not.toContain("event: done");
      await raw.waitFor("event: done");
      raw.socket.destroy();
    } finally {
      await slow.close();
    }
  });

  test("silence is broken by a comment, which is no event", async () => {
    const silent = await startDeployment({
      inference: { serviceMs: 500, tokens: 1 },
      streamLimits: { keepAliveMs: 60 },
    });
    try {
      const credential = (await silent.serverKey(await silent.org())).secret;
      const heard = await silent.call({ method: "POST", path: PATHS.summary, body: BODIES.summary, credential });
      expect(heard.text).toContain(": ping\n\n");
      expect(eventsOf(heard.text).map(({ name }) => name)).toEqual(["summary_delta", "summary_done"]);
    } finally {
      await silent.close();
    }
  });

  test("a stream that lives too long ends with an error", async () => {
    const short = await startDeployment({ inference: { serviceMs: 5_000, tokens: 50 }, streamLimits: { lifeMs: 250 } });
    try {
      const credential = (await short.serverKey(await short.org())).secret;
      const heard = await short.call({ method: "POST", path: PATHS.button, body: {}, credential });
      expect(eventsOf(heard.text).at(-1)?.data.code).toBe("upstream_timeout");
      await short.quiet();
    } finally {
      await short.close();
    }
  });
});
