/**
 * A second deployment of the same API, only for the tests of `verify`: written from the specification alone and sharing
 * nothing with the reference platform, so that the rules do not fit only one implementation. It has every other reading of
 * part C of the requirements (`variants`) and can be wrong in single ways (`defects`). This file starts it; each other file
 * of the folder says which defects belong to it.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { answer } from "./answer-call.ts";
import { createApiState } from "./state.ts";
import { targetOf } from "./target-file.ts";

export type SecondApi = Awaited<ReturnType<typeof startSecondApi>>;
export type SecondApiOptions = { variants?: readonly string[]; defects?: readonly string[]; streamMs?: number };

export const startSecondApi = async ({ variants = [], defects = [], streamMs = 40 }: SecondApiOptions = {}) => {
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
    /** Accepts no connections for this time, as while a deployment is replaced. */
    restart: async (awayMs: number): Promise<void> => {
      await stop();
      await new Promise((resolve) => setTimeout(resolve, awayMs));
      await listen(port);
    },
    /** Answers 503 for this time, as if its key service were down. */
    loseTheKeys: (forMs: number): void => {
      api.withoutKeysUntilMs = Date.now() + forMs;
    },
    close: stop,
  };
};
