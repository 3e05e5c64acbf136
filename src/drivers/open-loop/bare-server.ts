/** The cheapest possible server: it cuts the stream into requests, each with its body, and reads nothing else. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";

const HEAD_END = "\r\n\r\n";
const BACKLOG = 4096;

/** Length of the first request in a text, with its body; `null` if the request is incomplete. */
const lengthOfFirst = (text: string): number | null => {
  const head = text.indexOf(HEAD_END);
  if (head < 0) return null;
  const stated = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head))?.[1];
  const length = head + HEAD_END.length + Number(stated ?? 0);
  return length <= text.length ? length : null;
};

/** `reusePort`: other processes may listen on the same port, and the kernel distributes connections among them. */
export const startBareServer = async (
  answer: (request: string, socket: Socket) => void,
  listening = { port: 0, reusePort: false },
) => {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    let held = "";
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (chunk) => {
      held += chunk.toString("latin1");
      for (let length = lengthOfFirst(held); length !== null; length = lengthOfFirst(held)) {
        const request = held.slice(0, length);
        held = held.slice(length);
        answer(request, socket);
      }
    });
  });
  // Rejects with the error of a server that cannot listen.
  await once(server.listen({ host: "127.0.0.1", backlog: BACKLOG, ...listening }), "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close: (): void => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
};

const BODY = '{"ok":true,"session_token":"of-nobody","expires_in":900}';
const ANSWER = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`,
);

/** Answers every request at once with the same text and counts requests, to measure the generator alone. */
export const startNullServer = async (nowUs: () => number) => {
  let calls = 0;
  let lastUs = 0;
  const { port, close } = await startBareServer((_request, socket) => {
    calls += 1;
    lastUs = nowUs();
    socket.write(ANSWER);
  });
  return {
    port,
    /** Requests since the last look, and when the last one came, by `nowUs`. */
    look: (): { calls: number; lastUs: number } => {
      const seen = { calls, lastUs };
      calls = 0;
      return seen;
    },
    close,
  };
};
