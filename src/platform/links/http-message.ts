/** Reading and writing the bodies of our own services: JSON with a bound on its size, NDJSON at the reader's pace. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** Thrown by a handler: the caller's mistake, reported in a sentence. */
export class RequestError extends Error {
  override name = "RequestError";
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const MAX_BODY_BYTES = 8 * 1024 * 1024;
export const readBody = async (request: IncomingMessage): Promise<unknown> => {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new RequestError(413, `expected at most ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  if (bytes === 0) return undefined;
  try {
    return JSON.parse((chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString("utf8"));
  } catch {
    throw new RequestError(400, "expected a JSON body");
  }
};

export const sendJson = (response: ServerResponse, status: number, body: unknown, closing: boolean): void => {
  const text = body === undefined ? "" : JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    ...(closing ? { connection: "close" } : {}),
  });
  response.end(text);
};

/** NDJSON, no faster than the reader reads. */
export const sendLines = async (
  response: ServerResponse,
  status: number,
  lines: Iterable<unknown> | AsyncIterable<unknown>,
): Promise<void> => {
  response.writeHead(status, { "content-type": "application/x-ndjson" });
  let text = "";
  for await (const line of lines) {
    text += `${JSON.stringify(line)}\n`;
    if (text.length < 65_536) continue;
    const room = response.write(text);
    text = "";
    if (response.destroyed) return;
    if (!room) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          response.off("drain", done).off("close", done);
          resolve();
        };
        response.on("drain", done).on("close", done);
      });
    }
  }
  response.end(text);
};
