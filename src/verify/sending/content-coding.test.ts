import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { brotliCompressSync, createGzip, deflateSync, type Gzip, gzipSync, zstdCompressSync } from "node:zlib";
import { Agent } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { decoding } from "./answer-bytes.ts";

const TEXT = JSON.stringify({ detail: "insufficient_scope" });
const CODED: Record<string, () => Uint8Array> = {
  gzip: () => gzipSync(TEXT),
  br: () => brotliCompressSync(TEXT),
  deflate: () => deflateSync(TEXT),
  zstd: () => zstdCompressSync(TEXT),
  identity: () => Buffer.from(TEXT),
  unheard: () => Buffer.from(TEXT),
};
const agent = new Agent();
let stream: Gzip;
const server = createServer((req, res) => {
  const coding = (req.url ?? "").slice(1);
  if (coding === "events") {
    res.writeHead(200, { "content-encoding": "gzip" });
    stream = createGzip();
    stream.pipe(res);
    stream.write("data: 1\n\n");
    stream.flush();
    return;
  }
  res.writeHead(403, { "content-encoding": coding === "broken" ? "gzip" : coding });
  res.end(coding === "empty" ? "" : coding === "broken" ? TEXT : CODED[coding]?.());
});
let origin = "";
beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await agent.destroy();
  server.close();
});

const read = (path: string, onPiece: (text: string) => void = () => {}): Promise<string> =>
  new Promise((resolve) => {
    let text = "";
    decoding(agent).dispatch(
      { origin, path: `/${path}`, method: "GET" },
      {
        onResponseData: (_controller, piece) => {
          text += piece.toString();
          onPiece(text);
        },
        onResponseEnd: () => resolve(text),
        onResponseError: () => resolve("error"),
      },
    );
  });

describe("what comes coded though nobody asked for it", () => {
  test.each(Object.keys(CODED))("is read plain: %s", async (coding) => {
    expect(await read(coding)).toBe(TEXT);
  });
  test("is read event by event", async () => {
    const whole = await read("events", (text) => {
      // Ended by what was read so far: without it the second event would never be sent.
      if (text === "data: 1\n\n") stream.end("data: 2\n\n");
    });
    expect(whole).toBe("data: 1\n\ndata: 2\n\n");
  });
  test("is an answer that nobody can read when it is not what it says, and none when it is empty", async () => {
    expect(await read("broken")).toBe("error");
    expect(await read("empty")).toBe("");
  });
});
