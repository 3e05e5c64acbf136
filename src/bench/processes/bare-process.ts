/**
 * What the platform is held against: the least that a server of the same stack can do. A Fastify 5 with one route that
 * answers the same bytes, or a bare `node:http` that writes the same frames at the same pace.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fastify } from "fastify";
import { type Started, serveParent } from "./child-side.ts";

export type BareOptions =
  | { kind: "fastify"; method: "GET" | "POST"; path: string; status: number; body: string }
  | { kind: "streams"; headers: string[]; frames: string[]; durationMs: number };

const BACKLOG = 4096;

const bareFastify = async ({ method, path, status, body }: BareOptions & { kind: "fastify" }): Promise<Started> => {
  const server = fastify();
  if (method === "GET") {
    server.get(path, (_request, reply) => {
      reply.code(status).type("application/json").send(body);
    });
  } else {
    // JSON in, JSON out, both as Fastify does it by default.
    const answer: unknown = JSON.parse(body);
    server.post(path, (_request, reply) => {
      reply.code(status).send(answer);
    });
  }
  const url = await server.listen({ host: "127.0.0.1", port: 0, backlog: BACKLOG });
  return { made: { url }, close: async () => void server.server.closeAllConnections() };
};

/** Like the platform, it writes in one go whatever has become due. */
const runFrames = (response: ServerResponse, frames: readonly string[], durationMs: number): void => {
  const beganMs = performance.now();
  let next = 0;
  let timer: NodeJS.Timeout | undefined;
  const dueMs = (i: number): number => (durationMs * (i + 1)) / frames.length;
  const arm = (): void => {
    const inMs = beganMs + dueMs(next) - performance.now();
    timer = setTimeout(tick, Math.max(0, Math.ceil(inMs)));
  };
  const tick = (): void => {
    const elapsed = performance.now() - beganMs;
    let text = "";
    while (next < frames.length && dueMs(next) <= elapsed) {
      text += frames[next];
      next += 1;
    }
    if (next === frames.length) {
      response.end(text);
      return;
    }
    if (text !== "") response.write(text);
    arm();
  };
  response.once("close", () => clearTimeout(timer));
  arm();
};

const bareStreams = async ({ headers, frames, durationMs }: BareOptions & { kind: "streams" }): Promise<Started> => {
  const server = createServer({ noDelay: true }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      JSON.parse(Buffer.concat(chunks).toString("utf8"));
      response.writeHead(200, headers);
      response.flushHeaders();
      runFrames(response, frames, durationMs);
    });
  });
  await new Promise<void>((resolve) => server.listen({ host: "127.0.0.1", port: 0, backlog: BACKLOG }, resolve));
  return {
    made: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
    answer: () => (globalThis as { gc?: () => void }).gc?.(),
    close: async () => void server.closeAllConnections(),
  };
};

serveParent<BareOptions>((options) => (options.kind === "fastify" ? bareFastify(options) : bareStreams(options)));
