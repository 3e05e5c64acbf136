import { createServer, type RequestListener, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket, type Server as TcpServer } from "node:net";
import { Agent } from "undici";
import { afterEach, describe, expect, test } from "vitest";
import { lastEventOf, writeEvent } from "../contract/streams.ts";
import { createRunClock, wallUs } from "../supervision/waiting.ts";
import { TIMEOUTS, type Timeouts } from "../workload/timeouts.ts";
import { type OutgoingRequest, type Received, sendRequest } from "./send-request.ts";

const clock = createRunClock(wallUs());
const open: (Server | TcpServer | Agent)[] = [];

afterEach(async () => {
  for (const thing of open.splice(0)) {
    if (thing instanceof Agent) await thing.destroy();
    else {
      if ("closeAllConnections" in thing) thing.closeAllConnections();
      await new Promise((resolve) => thing.close(resolve));
    }
  }
});

const listen = async (server: Server | TcpServer): Promise<string> => {
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const ask = async (
  origin: string,
  more: Partial<OutgoingRequest> = {},
  timeouts: Partial<Timeouts> = {},
): Promise<Received> => {
  const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
  open.push(agent);
  const request: OutgoingRequest = {
    origin,
    path: "/",
    method: "POST",
    headers: [],
    stream: lastEventOf("control"),
    ...more,
  };
  return sendRequest(agent, request, clock, { ...TIMEOUTS, ...timeouts });
};

const served = async (listener: RequestListener, ...rest: [Partial<OutgoingRequest>?, Partial<Timeouts>?]) =>
  ask(await listen(createServer(listener)), ...rest);

const SSE = { "content-type": "text/event-stream; charset=utf-8" };
const token = writeEvent("token", { type: "token", text: "häuser" });
const done = writeEvent("done", { type: "done" });
const error = writeEvent("error", { type: "error", message: "m", code: "internal", partial_text: "" });

describe("a stream ends in exactly one of eight ways", () => {
  test("done: the vocabulary's own last event", async () => {
    const seen = await served((_, res) => res.writeHead(200, SSE).end(token + token + done));
    expect(seen).toMatchObject({ status: 200, ended: "done", aborted: false });
    expect(seen.seen).toMatchObject({ events: 3, late: 0 });
    expect([...seen.seen!.names]).toEqual(["token", "done"]);
    expect(seen.error).toBeUndefined();
  });

  test("error_event: terminal whatever the vocabulary", async () => {
    const seen = await served((_, res) => res.writeHead(200, SSE).end(token + error), {
      stream: lastEventOf("summary"),
    });
    expect(seen.ended).toBe("error_event");
  });

  test("eof: a body that is whole by its framing, without a terminal event", async () => {
    const seen = await served((_, res) => res.writeHead(200, SSE).end(token));
    expect(seen).toMatchObject({ ended: "eof", seen: { events: 1 } });
  });

  test("eof: another vocabulary's last event ends nothing here", async () => {
    const seen = await served((_, res) => res.writeHead(200, SSE).end(token + done), { stream: lastEventOf("button") });
    expect(seen).toMatchObject({ ended: "eof", seen: { events: 2, late: 0 } });
  });

  test("truncated: the connection closes before the framing says so", async () => {
    const seen = await served((_, res) => {
      res.writeHead(200, SSE).write(token, () => setImmediate(() => res.socket!.end()));
    });
    expect(seen).toMatchObject({ status: 200, ended: "truncated", seen: { events: 1 } });
  });

  test("reset: the connection breaks in the middle", async () => {
    const seen = await served((_, res) => {
      res.writeHead(200, SSE).write(token, () => setTimeout(() => res.socket!.resetAndDestroy(), 30));
    });
    expect(seen).toMatchObject({ status: 200, ended: "reset", error: "ECONNRESET" });
  });

  test("timeout: no first event, a silence, or too long altogether", async () => {
    const silent = await served((_, res) => void res.writeHead(200, SSE).flushHeaders(), {}, { firstEventMs: 600 });
    expect(silent).toMatchObject({ status: 200, ended: "timeout", error: "first-event-timeout" });
    const stuck = await served((_, res) => void res.writeHead(200, SSE).write(token), {}, { idleMs: 600 });
    expect(stuck).toMatchObject({ ended: "timeout", error: "idle-timeout", seen: { events: 1 } });
    let drip: NodeJS.Timeout | undefined;
    const endless = await served(
      (_, res) => {
        res.writeHead(200, SSE);
        drip = setInterval(() => res.write(token), 10);
      },
      {},
      { callMs: 1_200, idleMs: 1_000 },
    );
    clearInterval(drip);
    expect(endless).toMatchObject({ ended: "timeout", error: "call-timeout" });
  });

  test("a comment keeps a stream alive, but is no event and no substitute for the first", async () => {
    let drip: NodeJS.Timeout | undefined;
    const seen = await served(
      (_, res) => {
        res.writeHead(200, SSE);
        drip = setInterval(() => res.write(": ping\n\n"), 10);
      },
      {},
      { firstEventMs: 1_200, idleMs: 600 },
    );
    clearInterval(drip);
    expect(seen).toMatchObject({ ended: "timeout", error: "first-event-timeout", seen: { events: 0 } });
  });

  test("refused: an answer that is no stream, with its body", async () => {
    const seen = await served((_, res) => {
      res.writeHead(429, { "content-type": "application/json", "retry-after": "1" }).end('{"error":"b2b_overloaded"}');
    });
    expect(seen).toMatchObject({ status: 429, ended: "refused", text: '{"error":"b2b_overloaded"}', seen: null });
    expect(seen.headers["retry-after"]).toBe("1");
    expect(seen.firstUs).not.toBeNull();
  });

  test("closed_by_client: the reader leaves on purpose, and the server notices", async () => {
    let left: (value: boolean) => void = () => undefined;
    const noticed = new Promise<boolean>((resolve) => {
      left = resolve;
    });
    const seen = await served(
      (_, res) => {
        res.on("close", () => left(res.writableFinished));
        res.writeHead(200, SSE).write(token + token);
      },
      { abort: { afterEvents: 2 } },
    );
    expect(seen).toMatchObject({ ended: "closed_by_client", aborted: true, seen: { events: 2 } });
    expect(await noticed).toBe(false);
  });

  test("a reader that wanted to leave after the end did not leave", async () => {
    const seen = await served((_, res) => res.writeHead(200, SSE).end(token + done), { abort: { afterEvents: 2 } });
    expect(seen).toMatchObject({ ended: "done", aborted: false });
  });
});

describe("what comes after the terminal event", () => {
  test("is counted as late and does not move the end", async () => {
    const seen = await served((_, res) => {
      res.writeHead(200, SSE).write(error);
      setTimeout(() => res.end(token + token), 40);
    });
    expect(seen).toMatchObject({ ended: "error_event", seen: { events: 3, late: 2 } });
    expect(seen.doneUs).toBeLessThan(seen.seen!.lastUs!);
  });

  test("a server that never closes is left after a second", async () => {
    const seen = await served((_, res) => void res.writeHead(200, SSE).write(done));
    expect(seen.ended).toBe("done");
  });

  test("a break is told, but the stream has ended well", async () => {
    const seen = await served((_, res) => {
      res.writeHead(200, SSE).write(done, () => setTimeout(() => res.socket!.resetAndDestroy(), 20));
    });
    expect(seen).toMatchObject({ ended: "done", error: "after the terminal event: ECONNRESET" });
  });
});

describe("no answer", () => {
  test("spaces around the length of a body do not cut it short; a wrong length does", async () => {
    const answering = (length: string) =>
      createTcpServer((socket) =>
        socket.once("data", () => socket.end(`HTTP/1.1 401 Unauthorized\r\nCONTENT-LENGTH:  ${length}\r\n\r\n{}`)),
      );
    const spaced = await ask(await listen(answering("2  ")));
    expect(spaced).toMatchObject({ status: 401, text: "{}", ended: "refused" });
    expect((await ask(await listen(answering("3  ")))).ended).toBe("truncated");
  });

  test("nobody listens: reset before a head, by its name", async () => {
    const server = createServer();
    const origin = await listen(server);
    await new Promise((resolve) => server.close(resolve));
    open.splice(open.indexOf(server), 1);
    expect(await ask(origin)).toMatchObject({ status: null, ended: "reset", error: "ECONNREFUSED", firstUs: null });
  });

  test("a connection closed without an answer", async () => {
    const sockets = new Set<Socket>();
    const origin = await listen(createTcpServer((socket) => sockets.add(socket.on("data", () => socket.end()))));
    expect(await ask(origin)).toMatchObject({ status: null, ended: "reset", error: "UND_ERR_SOCKET" });
    for (const socket of sockets) socket.destroy();
  });

  test("a server that never answers", async () => {
    const seen = await served(() => undefined, { stream: lastEventOf("control") }, { firstEventMs: 50 });
    expect(seen).toMatchObject({ status: null, ended: "timeout", error: "first-event-timeout" });
  });
});

describe("times", () => {
  test("stand in order, with the gap between events in between", async () => {
    const seen = await served((_, res) => {
      // The time begins once this loop has also read what it wrote, so a busy machine cannot shorten the gap.
      res.writeHead(200, SSE).write(token, () => setImmediate(() => setTimeout(() => res.end(token + done), 40)));
    });
    expect(seen.sentUs).toBeLessThan(seen.firstUs!);
    expect(seen.firstUs!).toBeLessThan(seen.doneUs);
    expect(seen.seen!.gapsUs[0]).toBeGreaterThan(20_000);
    expect(seen.seen!.gapsUs).toHaveLength(2);
  });

  test("a slow reader takes longer than the server needs to write", async () => {
    const big = writeEvent("token", { text: "x".repeat(200_000) });
    const seen = await served((_, res) => res.writeHead(200, SSE).end(big + big + done), { slowReadMs: 20 });
    expect(seen.ended).toBe("done");
    expect(seen.doneUs - seen.firstUs!).toBeGreaterThan(20_000);
  });

  test("a redirect is an answer, not a way", async () => {
    let visits = 0;
    const seen = await served((_, res) => {
      visits += 1;
      res.writeHead(302, { location: "/elsewhere" }).end();
    });
    expect(seen.status).toBe(302);
    expect(visits).toBe(1);
  });
});
