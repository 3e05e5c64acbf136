/** What a probe of a link sees of servers that no fault table knows. */
import { createServer, type Server, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { httpProbe, observeLink } from "./link-probe.ts";

let server: Server;
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.close();
});

const listening = async (serve: (socket: Socket) => void): Promise<string> => {
  server = createServer((socket) => {
    sockets.push(socket.on("error", () => undefined));
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `127.0.0.1:${(server.address() as { port: number }).port}`;
};

test("an answer without an end counts as one, and is not read to its end", async () => {
  const piece = Buffer.alloc(1 << 16, "x");
  const link = await listening((socket) => {
    const fill = (): void => {
      while (socket.write(piece));
    };
    socket.on("drain", fill);
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    fill();
  });
  const seen = await observeLink(httpProbe(link, "/health", 1_000));
  expect(seen).toMatchObject({ ended: "complete", connected: true });
  expect(seen.bytes).toBeLessThan(4 << 20);
});

test("an answer is counted in bytes, whatever they mean", async () => {
  const body = Buffer.from([0xc3, 0xa9, 0xff, 0x00]);
  const link = await listening((socket) => {
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n");
    socket.write(body);
  });
  const seen = await observeLink(httpProbe(link, "/", 5_000));
  expect(seen).toMatchObject({ ended: "complete", bytes: 42 });
});
