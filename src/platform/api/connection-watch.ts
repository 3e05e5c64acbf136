/** Notices that a client has left, and ends connections on purpose. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** A write that meets a connection just lost; its end is reported by `close`. */
const ignore = (): void => {};

/** Calls `left` when the connection is gone, also after a finished answer. Returns the function that stops watching. */
export const watchConnection = (request: IncomingMessage, response: ServerResponse, left: () => void): (() => void) => {
  const { socket } = request;
  if (socket.destroyed) {
    left();
    return ignore;
  }
  response.on("error", ignore);
  if (response.socket !== null) {
    response.on("close", left);
    return ignore;
  }
  // The answer to a pipelined request has no socket before its turn, and would not hear of the end.
  socket.setMaxListeners(0).on("close", left);
  return () => void socket.off("close", left);
};

/** HTTP/2: the stream's own codes, because its connection serves other calls too (RFC 9113, 7). */
const H2_CODE = { reset: 2, truncate: 8 } as const;

/**
 * Ends the connection under an answer: `truncate` in order, `reset` with a reset, after which the client may lose what
 * it has not read. It waits for the last text, which Node holds back until the turn ends.
 */
export const cutConnection = (response: ServerResponse, mode: "truncate" | "reset", lastText: string): void => {
  const { stream } = response as unknown as { stream?: { close(code: number): void } };
  const cut = (): void => {
    if (stream !== undefined) stream.close(H2_CODE[mode]);
    else if (mode === "reset") response.req.socket.resetAndDestroy();
    else response.req.socket.destroySoon();
  };
  if (lastText === "") cut();
  else response.write(lastText, cut);
};

/** Ends the connection once the answer has left; one of HTTP/2 serves other calls too, and stays. */
export const closeWhenSent = (response: ServerResponse): void => {
  if ((response as unknown as { stream?: unknown }).stream !== undefined) return;
  const { socket } = response.req;
  response.once("finish", () => socket.end());
};
