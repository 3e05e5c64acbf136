import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { keepConnection, requestBytes } from "./kept-connection.ts";

const ANSWER = 'HTTP/1.1 429 Too Many Requests\r\nContent-Length: 5\r\nX-Request-Id: a\r\n\r\n{"a"}';
const REQUEST = requestBytes("GET", "/x", { host: "h" }, undefined);

const listen = async (onConnection: (socket: Socket) => void): Promise<number> => {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    onConnection(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
};

/** Asks up to `most` times; returns what was heard, then why it ended. The peer's `answer` is called for each request. */
const play = async (most: number, answer: (socket: Socket) => void): Promise<string[]> => {
  const requests: string[] = [];
  const port = await listen((socket) => {
    socket.on("data", (bytes) => {
      requests.push(bytes.toString());
      answer(socket);
    });
  });
  const heard: string[] = [];
  await new Promise<void>((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const connection = keepConnection(socket, {
      answered: ({ status, body, isLast }) => {
        heard.push(`${status} ${body}${isLast ? " last" : ""}`);
        if (heard.length < most) connection.ask(REQUEST);
        else connection.close(new Error("enough"));
      },
      gone: ({ message }) => {
        heard.push(message);
        resolve();
      },
    });
    socket.once("connect", () => connection.ask(REQUEST));
  });
  expect(new Set(requests)).toEqual(new Set(["GET /x HTTP/1.1\r\nhost: h\r\n\r\n"]));
  return heard;
};

const writes =
  (text: string) =>
  (socket: Socket): void =>
    void socket.write(text);

describe("a kept connection", () => {
  test("is asked again when the answer has come, also one that comes in pieces", async () => {
    const inPieces = (socket: Socket): void => {
      socket.write(ANSWER.slice(0, 30));
      setTimeout(() => socket.write(ANSWER.slice(30, -2)), 5);
      setTimeout(() => socket.write(ANSWER.slice(-2)), 10);
    };
    const heard = '429 {"a"}';
    expect(await play(3, inPieces)).toEqual([heard, heard, heard, "enough"]);
  });

  test("reads a length in bytes, whatever the letter case of its name, and an answer without a body", async () => {
    expect(await play(1, writes("HTTP/1.1 200 OK\r\nCONTENT-LENGTH:2\r\n\r\né"))).toEqual(["200 é", "enough"]);
    expect(await play(1, writes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))).toEqual(["200 ", "enough"]);
  });

  test("says which answer is the last one", async () => {
    const last = ANSWER.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    expect(await play(1, writes(last))).toEqual(['429 {"a"} last', "enough"]);
  });

  test.each([
    [
      "without a length",
      "HTTP/1.1 200 OK\r\n\r\n",
      "expected an HTTP/1.1 answer with a Content-Length, got HTTP/1.1 200 OK",
    ],
    [
      "in chunks",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "expected an HTTP/1.1 answer with a",
    ],
    ["of another protocol", "nonsense\r\n\r\n", "expected an HTTP/1.1 answer with a Content-Length, got nonsense"],
    [
      "whose head does not end",
      "HTTP/1.1 200 OK\r\nX: ".padEnd(20_000, "x"),
      "expected an HTTP/1.1 answer with a Content-Length",
    ],
    ["that is too long", "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "expected an answer of at most"],
    ["and more than was asked for", ANSWER + ANSWER, "expected one answer to one request"],
  ])("an answer %s ends it", async (_name, text, why) => {
    expect(await play(1, writes(text))).toEqual([expect.stringContaining(why)]);
  });

  test("a peer that ends it, before an answer, in the middle of one and behind one", async () => {
    const closed = "the connection was closed before an answer had come";
    expect(await play(2, (socket) => void socket.end())).toEqual([closed]);
    expect(await play(2, (socket) => void socket.end(ANSWER.slice(0, -1)))).toEqual([closed]);
    expect(await play(2, (socket) => void socket.end(ANSWER))).toEqual(['429 {"a"}', expect.any(String)]);
  });

  test("a peer that resets it", async () => {
    expect(await play(1, (socket) => void socket.resetAndDestroy())).toEqual([expect.stringContaining("ECONNRESET")]);
  });

  test("what comes without being asked ends it", async () => {
    const port = await listen(writes(ANSWER));
    const why = await new Promise<string>((resolve) => {
      keepConnection(connect(port, "127.0.0.1"), {
        answered: () => resolve("answered"),
        gone: ({ message }) => resolve(message),
      });
    });
    expect(why).toBe("expected nothing without being asked");
  });
});

test("a request has its own headers and the length of its body in bytes", () => {
  expect(requestBytes("POST", "/v1/x?y=1", { host: "h:1", authorization: "Bearer a" }, "é").toString()).toBe(
    "POST /v1/x?y=1 HTTP/1.1\r\nhost: h:1\r\nauthorization: Bearer a\r\ncontent-length: 2\r\n\r\né",
  );
});
