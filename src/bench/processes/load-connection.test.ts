import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { openConnection, readAnswer, requestBytes } from "./load-connection.ts";

const ANSWER = 'HTTP/1.1 429 Too Many Requests\r\nContent-Length: 5\r\nX-Request-Id: a\r\n\r\n{"a"}';

/** Answers each request with what `answer` writes, until it has answered `most`; returns the statuses that were heard, and how it ended. */
const play = async (most: number, answer: (socket: Socket) => void): Promise<string[]> => {
  const requests: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      requests.push(bytes.toString());
      answer(socket);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/x`);
  const heard: string[] = [];
  await new Promise<void>((resolve) => {
    openConnection(url, requestBytes("GET", url, {}, undefined), {
      ready: (connection) => connection.ask(),
      answered: (connection, status) => {
        heard.push(status);
        if (heard.length < most) connection.ask();
        else connection.close();
      },
      failed: () => {
        heard.push("over");
        resolve();
      },
    });
  });
  server.close();
  expect(new Set(requests)).toEqual(new Set([`GET /x HTTP/1.1\r\nhost: ${url.host}\r\n\r\n`]));
  return heard;
};

describe("a connection of the closed loop", () => {
  test("can be asked again when the answer has come, also one that comes in pieces", async () => {
    const inPieces = (socket: Socket): void => {
      socket.write(ANSWER.slice(0, 30));
      setTimeout(() => socket.write(ANSWER.slice(30, -2)), 5);
      setTimeout(() => socket.write(ANSWER.slice(-2)), 10);
    };
    expect(await play(3, inPieces)).toEqual(["429", "429", "429", "over"]);
  });

  test.each([
    ["an answer without a length", "HTTP/1.1 200 OK\r\n\r\n"],
    ["no answer", "nonsense\r\n\r\n"],
    ["more than was asked for", ANSWER + ANSWER],
  ])("%s ends it", async (_name, text) => {
    expect(await play(3, (socket) => void socket.write(text))).toEqual(["over"]);
  });

  test("a connection that the server ends is over", async () => {
    expect(await play(3, (socket) => void socket.end(ANSWER))).toEqual(["429", "over"]);
  });
});

test("a length counts bytes, and a head that is not whole is waited for", () => {
  expect(readAnswer(ANSWER)).toEqual({ status: "429", length: ANSWER.length });
  expect(readAnswer(ANSWER.slice(0, 40))).toBeNull();
});

test("a request has its own headers and the length of its body in bytes", () => {
  const url = new URL("http://host:1/v1/x?y=1");
  expect(requestBytes("POST", url, { authorization: "Bearer a" }, "é").toString()).toBe(
    "POST /v1/x?y=1 HTTP/1.1\r\nhost: host:1\r\nauthorization: Bearer a\r\ncontent-length: 2\r\n\r\né",
  );
});
