/** Notices that a client has left, and ends connections on purpose. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** A write that meets a connection just lost; its end is reported by `close`. */
const ignore = (): void => {};

/**
 * Calls `left` when the connection is gone, at once if it is gone already; also after a finished answer. Returns what forgets
 * the call, whose connection may live on.
 */
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
 * Ends the connection under an answer, once its last text has left: `truncate` in order, `reset` with a reset, after which
 * the client may lose what it has not read yet. What is written in one turn is kept back by Node until the turn ends, so a
 * connection that is ended in the same turn would take it along.
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
