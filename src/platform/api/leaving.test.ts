/** A client may leave at any phase of a call: its slots come back at once, and it is not charged for nothing (items 180, 222). */
import type { AddressInfo } from "node:net";
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../start-platform.fixture.ts";
import { type Deployment, MESSAGES, startDeployment } from "./api.fixture.ts";

/** A link that can be held: bytes wait until it is let go, in both directions. */
const heldLink = async (to: string) => {
  const { hostname, port } = new URL(to);
  let held = false;
  const sockets = new Set<Socket>();
  const server: Server = createServer((near) => {
    const far = connect({ host: hostname, port: Number(port) });
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => sockets.delete(socket));
      if (held) socket.pause();
    }
    near.on("data", (bytes) => far.write(bytes));
    far.on("data", (bytes) => near.write(bytes));
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    if (held) {
      near.pause();
      far.pause();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold: () => {
      held = true;
      for (const socket of sockets) socket.pause();
    },
    letGo: () => {
      held = false;
      for (const socket of sockets) socket.resume();
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
};

let on: Deployment;
let org: string;
let secret: string;
let limiterLink: Awaited<ReturnType<typeof heldLink>>;
let keysLink: Awaited<ReturnType<typeof heldLink>>;

beforeAll(async () => {
  on = await startDeployment({
    inference: { serviceMs: 300, tokens: 10, slots: 1 },
    limiterBudgetMs: 2_000,
    keyServiceBudgetMs: 2_000,
    links: async ({ keys, limiter }) => {
      [keysLink, limiterLink] = await Promise.all([heldLink(keys), heldLink(limiter)]);
      return { keys: keysLink.url, limiter: limiterLink.url };
    },
  });
  org = await on.org();
  secret = (await on.serverKey(org)).secret;
});
afterAll(async () => {
  await on?.close();
  limiterLink?.close();
  keysLink?.close();
});

const request = (path: string, body: unknown, id = "leave.x.1", credential = secret): string => {
  const text = body === undefined ? "" : JSON.stringify(body);
  return `POST /v1${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${credential}\r\nX-Request-Id: ${id}\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
};
const inFlight = async (): Promise<number> => (await on.gauges()).in_flight as number;
const stream = () => request("/chat/control/stream", MESSAGES);

describe("leaving a stream", () => {
  test.each([
    ["before anything came", ""],
    ["after the head", "HTTP/1.1 200"],
    ["after the first event", "event: token"],
    ["in the middle", "event: quota"],
  ])("%s", async (_name, text) => {
    const raw = await on.raw();
    raw.send(stream());
    if (text === "") await until("the call to be in flight", async () => (await inFlight()) === 1);
    else await raw.waitFor(text);
    raw.socket.resetAndDestroy();
    await on.quiet();
  });

  test("while it waits for the inference: the place in the queue is given up", async () => {
    const first = await on.raw();
    first.send(stream());
    await first.waitFor("event: token");
    const second = await on.raw();
    second.send(stream());
    await second.waitFor("HTTP/1.1 200");
    expect((await on.gauges()).inference_waiting).toBe(1);
    second.socket.destroy();
    await until("nobody to wait", async () => (await on.gauges()).inference_waiting === 0);
    await first.waitFor("event: done");
    first.socket.destroy();
    await on.quiet();
  });

  test("the inference stops working for it, so the next one begins", async () => {
    const [first, second] = await Promise.all([on.raw(), on.raw()]);
    first.send(stream());
    await first.waitFor("event: token");
    second.send(stream());
    await second.waitFor("HTTP/1.1 200");
    first.socket.destroy();
    await second.waitFor("event: done");
    second.socket.destroy();
    await on.quiet();
  });

  test("fifty clients that leave at moments of their own leave nothing behind", async () => {
    await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const raw = await on.raw();
        raw.send(stream());
        await new Promise((resolve) => setTimeout(resolve, (i * 37) % 400));
        raw.socket.destroy();
      }),
    );
    await on.quiet();
  });
});

describe("leaving a metered call", () => {
  const chargesOf = async (run: string): Promise<number> =>
    (await on.ledger(run)).reduce((sum, { kind }) => sum + (kind === "charge" ? 1 : -1), 0);

  test("while the inference works: the charge is undone", async () => {
    const raw = await on.raw();
    raw.send(request("/design/analyze", { dataset: { sample_rows: [] } }, "leave.analyze.1"));
    await until("the charge", async () => (await chargesOf("leave.analyze")) === 1);
    raw.socket.destroy();
    await on.quiet();
    expect(await chargesOf("leave.analyze")).toBe(0);
    expect((await on.ledger("leave.analyze")).map(({ kind }) => kind)).toEqual(["charge", "refund"]);
  });

  test("while the limiter is asked: a charge that was made is undone", async () => {
    limiterLink.hold();
    const raw = await on.raw();
    raw.send(request("/maps/loads", undefined, "leave.limiter.1"));
    await until("the call to be in flight", async () => (await inFlight()) === 1);
    raw.socket.destroy();
    await until("the slot to be free while the limiter is still asked", async () => (await inFlight()) === 0);
    limiterLink.letGo();
    await until("the refund", async () => (await on.ledger("leave.limiter")).length === 2);
    await on.quiet();
    expect(await chargesOf("leave.limiter")).toBe(0);
  });

  test("while the key service is asked: nothing is charged at all", async () => {
    const fresh = await on.serverKey(org);
    keysLink.hold();
    const raw = await on.raw();
    raw.send(request("/maps/loads", undefined, "leave.keys.1", fresh.secret));
    await until("the call to be in flight", async () => (await inFlight()) === 1);
    raw.socket.destroy();
    await until("the slot to be free", async () => (await inFlight()) === 0);
    keysLink.letGo();
    await on.quiet();
    expect(await on.ledger("leave.keys")).toEqual([]);
  });

  test("in the middle of the body: nothing is charged, nothing kept", async () => {
    const raw = await on.raw();
    raw.send(
      `POST /v1/design/analyze HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\nX-Request-Id: leave.body.1\r\nContent-Length: 100\r\n\r\n{"data`,
    );
    await until("the call to be in flight", async () => (await inFlight()) === 1);
    raw.socket.destroy();
    await on.quiet();
    expect(await on.ledger("leave.body")).toEqual([]);
  });

  test("key management in the middle of the body: nothing is changed, and it is counted as unanswered", async () => {
    const raw = await on.raw();
    raw.send(
      `POST /v1/shared-api/api-keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await on.adminToken(org)}\r\nX-Request-Id: manage.body.1\r\nContent-Length: 100\r\n\r\n{"kind`,
    );
    // A later request on another connection is answered, so the first one has begun.
    await on.call({ path: "/nothing" });
    raw.socket.destroy();
    const counts = async () => (await on.ask("GET", "/counts?run=manage")).json;
    await until("the call to be counted", async () => Object.keys(await counts()).length > 0);
    expect(await counts()).toEqual({ indeterminate: { [org]: 1 } });
  });

  test("a reset ordered before the answer undoes the charge too", async () => {
    await on.ask("PATCH", "/deployment", { fail_next: { route: "maps.loads", mode: "reset", count: 1 } });
    const raw = await on.raw();
    raw.send(request("/maps/loads", undefined, "leave.reset.1"));
    await raw.closed();
    await on.quiet();
    expect(await chargesOf("leave.reset")).toBe(0);
  });

  test("what left is counted as indeterminate", async () => {
    const counts = (await on.ask("GET", "/counts?run=leave")).json;
    expect(counts.indeterminate[org]).toBeGreaterThanOrEqual(4);
  });
});

describe("clients that do not read", () => {
  test("are cut off after a while, and their slots come back", async () => {
    const stalling = await startDeployment({
      inference: { serviceMs: 1_000, tokens: 200_000, slots: 4 },
      streamLimits: { stallMs: 300 },
    });
    try {
      const credential = (await stalling.serverKey(await stalling.org())).secret;
      const raw = await stalling.raw();
      raw.socket.pause();
      raw.send(request("/chat/control/stream", MESSAGES, "stall.x.1", credential));
      await until("the stream to be open", async () => ((await stalling.gauges()).open_streams as number) === 1);
      await stalling.quiet();
      raw.socket.destroy();
    } finally {
      await stalling.close();
    }
  });
});
