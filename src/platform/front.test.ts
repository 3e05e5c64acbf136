import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { Service } from "./control-plane.ts";
import { startFront } from "./front.ts";

const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

const replica = async (name: string): Promise<{ url: string; server: Server }> => {
  const server = createServer((_request, response) => response.setHeader("connection", "close").end(name));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push(() => new Promise((resolve) => server.close(resolve)));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
};
const frontOf = async (...upstreams: string[]): Promise<Service> => {
  const front = await startFront(upstreams, { port: 0 });
  open.push(() => front.close());
  return front;
};
const ask = async (front: Service, times: number): Promise<string[]> => {
  const said: string[] = [];
  for (let i = 0; i < times; i += 1) said.push(await (await fetch(front.url)).text());
  return said;
};

test("connections go to the replicas in turn", async () => {
  const [a, b] = [await replica("a"), await replica("b")];
  const said = await ask(await frontOf(a.url, b.url), 4);
  expect(said.sort()).toEqual(["a", "a", "b", "b"]);
});

test("a replica that takes no connection is passed over, and nobody notices", async () => {
  const [a, b] = [await replica("a"), await replica("b")];
  const front = await frontOf(a.url, b.url);
  await new Promise((resolve) => b.server.close(resolve));
  expect(await ask(front, 3)).toEqual(["a", "a", "a"]);
});

test("one that was taken out gets no new connection", async () => {
  const [a, b] = [await replica("a"), await replica("b")];
  const front = await frontOf(a.url, b.url);
  front.control.change?.({ upstreams: [b.url] });
  expect(front.control.deployment?.()).toEqual({ upstreams: [b.url] });
  expect(await ask(front, 3)).toEqual(["b", "b", "b"]);
});

test("with no replica left a connection is reset, and not answered", async () => {
  const a = await replica("a");
  const front = await frontOf(a.url);
  await new Promise((resolve) => a.server.close(resolve));
  await expect(ask(front, 1)).rejects.toThrow("fetch failed");
});
