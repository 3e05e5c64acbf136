/**
 * The end of a connection, seen and made. A client that leaves must be seen: from its first wait on, a call hears of
 * the end of its connection. The functions are shared by all calls, because a listener made for each would cost more.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

type Watcher = { clientLeft(): void };

const OWNER = Symbol("the call of a response");
const WAITING = Symbol("pipelined calls of a connection");
type Owned = { [OWNER]?: Watcher; [WAITING]?: Set<Watcher> };

/** Which call it was is written on the emitter. */
function onClose(this: unknown): void {
  (this as Owned)[OWNER]?.clientLeft();
}

function onSocketClose(this: unknown): void {
  for (const watcher of (this as Owned)[WAITING] ?? []) watcher.clientLeft();
}

/** A write that meets a connection just lost; its end is reported by `close`. */
const ignore = (): void => {};

/** Calls the watcher once when the connection is gone, at once if it is gone already; also after a finished answer. */
export const watchConnection = (watcher: Watcher, request: IncomingMessage, response: ServerResponse): void => {
  if (request.socket.destroyed) {
    watcher.clientLeft();
    return;
  }
  response.on("error", ignore);
  if (response.socket !== null) {
    (response as Owned)[OWNER] = watcher;
    response.on("close", onClose);
    return;
  }
  // The answer to a pipelined request has no socket before its turn, and would not hear of the end.
  const socket = request.socket as Owned & typeof request.socket;
  if (socket[WAITING] === undefined) {
    socket[WAITING] = new Set();
    socket.once("close", onSocketClose);
  }
  socket[WAITING].add(watcher);
};

/** The call is over: its connection, which may live on, need not remember it. */
export const unwatchConnection = (watcher: Watcher, request: IncomingMessage): void => {
  (request.socket as Owned)[WAITING]?.delete(watcher);
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
