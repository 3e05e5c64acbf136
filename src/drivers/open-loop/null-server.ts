/**
 * A server that answers every request at once with the same words, and counts: what is seen at its other end is the
 * generator.
 */
import { startBareServer } from "./bare-server.ts";

/** Good for a session exchange as well. */
const BODY = '{"ok":true,"session_token":"of-nobody","expires_in":900}';
const ANSWER = Buffer.from(
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`,
);

export type NullServer = {
  port: number;
  /** Requests since the last look, and when the last of them came, by the clock that was handed in. */
  look(): { calls: number; lastUs: number };
  close(): void;
};

export const startNullServer = async (nowUs: () => number): Promise<NullServer> => {
  let calls = 0;
  let lastUs = 0;
  const { port, close } = await startBareServer((_request, socket) => {
    calls += 1;
    lastUs = nowUs();
    socket.write(ANSWER);
  });
  return {
    port,
    look: () => {
      const seen = { calls, lastUs };
      calls = 0;
      return seen;
    },
    close,
  };
};
