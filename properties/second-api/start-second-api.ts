/**
 * A second deployment of the same API for the tests of `verify`, and for nothing else: written from the specification alone,
 * sharing nothing with the reference platform, so that the rules are not fitted to one implementation. It speaks every other
 * reading of part C of the requirements (`variants`) and can be wrong in one way at a time (`defects`). This file starts it;
 * the parts beside it each say which defects belong to them.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Target } from "../../src/target/target.ts";
import { answer } from "./answer-call.ts";
import { createApiState } from "./state.ts";
import { targetOf } from "./target-file.ts";

export type SecondApi = {
  target: Target;
  liveKeys(): number;
  /** Takes no connections for so long, as a deployment does while it is replaced. */
  restart(awayMs: number): Promise<void>;
  /** Answers 503 for so long, as if its key service were away. */
  loseTheKeys(forMs: number): void;
  inNewMonth(): boolean;
  requestIds(): string[];
  close(): Promise<void>;
};
export type SecondApiOptions = { variants?: readonly string[]; defects?: readonly string[]; streamMs?: number };

export const startSecondApi = async ({
  variants = [],
  defects = [],
  streamMs = 40,
}: SecondApiOptions = {}): Promise<SecondApi> => {
  const api = createApiState(variants, defects, streamMs);
  const server = createServer((req: IncomingMessage, res: ServerResponse) => {
    let text = "";
    req.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    req.on("end", () => {
      void answer(api, req, res, text);
    });
  });
  const listen = (port: number): Promise<void> => new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  await listen(0);
  const { port } = server.address() as AddressInfo;
  return {
    target: targetOf(api, `http://127.0.0.1:${port}/v1`),
    inNewMonth: () => api.monthHasTurned,
    requestIds: () => api.requestIds,
    liveKeys: () => [...api.keys.values()].filter(({ state }) => state === "valid").length,
    restart: async (awayMs) => {
      await stop();
      await new Promise((resolve) => setTimeout(resolve, awayMs));
      await listen(port);
    },
    loseTheKeys: (forMs) => {
      api.withoutKeysUntilMs = Date.now() + forMs;
    },
    close: stop,
  };
};
