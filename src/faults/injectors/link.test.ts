import { createServer, type Server, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { startForTests, startUpstream, toxiproxyOrSkip } from "../../tools/toxiproxy.fixture.ts";
import { makeFault } from "../link-faults.ts";
import { watchLink } from "./proxies-and-commands.ts";

const path = toxiproxyOrSkip();
const GIVE_UP_MS = 400;
const SIZES = { budgetMs: 150 };

const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

/** A server that answers bytes as it is told. */
const listen = (hear: (socket: Socket, text: string) => void): Promise<string> =>
  new Promise((resolve) => {
    const sockets = new Set<Socket>();
    const server: Server = createServer((socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("data", (chunk) => hear(socket, chunk.toString()));
    });
    server.listen(0, "127.0.0.1", () => {
      open.push(() => {
        for (const socket of sockets) socket.destroy();
        server.close();
      });
      resolve(`127.0.0.1:${(server.address() as { port: number }).port}`);
    });
  });

/** As Redis answers pings, and hangs up on HTTP. */
const likeRedis = () =>
  listen((socket, text) => {
    if (/^host:/im.test(text)) return socket.destroy();
    socket.write("+PONG\r\n".repeat(text.split("PING").length - 1));
  });

test("HTTP, Redis and silence are told apart, and nobody there is nobody", async () => {
  const web = await startUpstream();
  open.push(web.close);
  expect((await watchLink(web.address, GIVE_UP_MS))?.speaks).toBe("http");
  expect((await watchLink(await likeRedis(), GIVE_UP_MS))?.speaks).toBe("redis");
  expect((await watchLink(await listen(() => {}), GIVE_UP_MS))?.speaks).toBe("something else");
  expect(await watchLink("127.0.0.1:1", GIVE_UP_MS)).toBeNull();
});

test("what looks broken when whole proves nothing", async () => {
  const mute = await watchLink(await listen(() => {}), GIVE_UP_MS);
  expect(mute?.canShow(makeFault("reply-lost", SIZES))).toBe(false);
  expect(mute?.canShow(makeFault("refused", SIZES))).toBe(true);
  const rude = await watchLink(await listen((socket) => socket.end()), GIVE_UP_MS);
  expect(rude?.canShow(makeFault("accepted-then-closed", SIZES))).toBe(false);
  expect(rude?.canShow(makeFault("request-lost", SIZES))).toBe(true);
});

test("a dependency that hangs up on strange requests shows no fault of its replies, so callers have to", async () => {
  const rude = await watchLink(await listen((socket) => socket.end()), GIVE_UP_MS);
  const scolding = await watchLink(await listen((socket) => socket.end("what?\n")), GIVE_UP_MS);
  for (const watch of [rude, scolding]) {
    for (const name of [
      "reply-lost",
      "slow-within-budget",
      "slow-beyond-budget",
      "truncated-reply",
      "trickle",
      "reset",
    ]) {
      expect(watch?.canShow(makeFault(name, SIZES)), name).toBe(false);
    }
    for (const name of ["refused", "request-lost", "flapping"]) {
      expect(watch?.canShow(makeFault(name, SIZES)), name).toBe(true);
    }
  }
});

test("a reply that ends before the cut shows no cut", async () => {
  const answering = async (body: string) => {
    const answer = `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const watch = await watchLink(await listen((socket) => socket.write(answer)), GIVE_UP_MS);
    return ["truncated-reply", "reply-lost"].map((name) => watch?.canShow(makeFault(name, SIZES)));
  };
  expect(await answering("ok")).toEqual([false, true]);
  expect(await answering("o".repeat(200))).toEqual([true, true]);
});

test.skipIf(path === null)("on Redis every fault shows, also those that hit the middle of an answer", async () => {
  const server = await startForTests(path as string);
  open.push(server.stop);
  const upstream = await likeRedis();
  for (const name of [
    "refused",
    "request-lost",
    "reply-lost",
    "reset",
    "truncated-reply",
    "trickle",
    "slow-beyond-budget",
  ]) {
    const { listen: link } = await server.toxiproxy.createProxy({ name, upstream });
    const watch = await watchLink(link, GIVE_UP_MS);
    const fault = makeFault(name, SIZES);
    expect(watch?.canShow(fault), name).toBe(true);
    await fault.put(server.toxiproxy.proxy(name));
    expect(fault.shows((await watch?.look()) as never), name).toBe(true);
  }
});
