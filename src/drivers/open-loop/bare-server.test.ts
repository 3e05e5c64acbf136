import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import { startNullServer } from "./bare-server.ts";

test("answers each request once it is whole, and counts it", async () => {
  const server = await startNullServer(() => 7);
  const socket = connect(server.port, "127.0.0.1");
  await once(socket, "connect");
  let heard = "";
  socket.setEncoding("latin1").on("data", (text: string) => {
    heard += text;
  });
  const answers = (): number => heard.split("HTTP/1.1 200 OK").length - 1;
  const until = async (n: number): Promise<void> => {
    for (const by = performance.now() + 30_000; answers() < n && performance.now() < by; ) await setTimeout(5);
    expect(answers()).toBe(n);
  };
  socket.write("GET /v1/a HTTP/1.1\r\nhost: a\r\n\r\nGET /v1/b HTTP/1.1\r\nhost: a\r\n\r\n");
  await until(2);
  socket.write("POST /v1/c HTTP/1.1\r\ncontent-length: 4\r\n\r\n{}");
  await setTimeout(50);
  expect(answers()).toBe(2);
  socket.write("{}GET /v1/d HTTP/1.1\r\n\r\n");
  await until(4);
  expect(server.look()).toEqual({ calls: 4, lastUs: 7 });
  expect(server.look().calls).toBe(0);
  socket.destroy();
  server.close();
});
