/**
 * Plays one block of closed-loop load on one server, or on several in short alternating slices, so that what slows a shared
 * machine for a second affects all sides alike.
 */
import { Client } from "undici";

export type LoadCall = { url: string; method: "GET" | "POST"; headers: Record<string, string>; body?: string };

type Load = {
  calls: readonly LoadCall[];
  connections: number;
  /** For each server, over all its slices. */
  durationS: number;
};

export type LoadResult = Awaited<ReturnType<typeof playLoad>>[number];

const SLICE_S = 0.03;

/** Resolves when every connection has answered once, or is known not to. */
const openSide = async ({ url, method, headers, body }: LoadCall, connections: number) => {
  const { origin, pathname, search } = new URL(url);
  const request = { path: pathname + search, method, headers, body: body ?? null };
  const clients = new Set(Array.from({ length: connections }, () => new Client(origin)));
  /** Answers by status; `error` for connections that were lost. */
  let byStatus: Record<string, number> = {};
  const count = (outcome: string | number): void => {
    byStatus[outcome] = (byStatus[outcome] ?? 0) + 1;
  };
  const askUntil = (client: Client, untilMs: number): Promise<void> =>
    new Promise((resolve) => {
      const ask = (): void =>
        void client.dispatch(request, {
          onRequestStart: () => {},
          onResponseData: () => {},
          onResponseStart: (_controller, status) => count(status),
          onResponseEnd: () => (performance.now() < untilMs ? ask() : resolve()),
          // A lost connection is not opened again.
          onResponseError: () => {
            count("error");
            clients.delete(client);
            void client.destroy();
            resolve();
          },
        });
      ask();
    });

  let elapsedS = 0;
  let cpuS = 0;
  /** Asks on every connection; resolves when `untilMs` is over and the last answer has come. */
  const play = async (untilMs: number): Promise<void> => {
    const beganMs = performance.now();
    const cpu = process.cpuUsage();
    await Promise.all([...clients].map((client) => askUntil(client, untilMs)));
    const { user, system } = process.cpuUsage(cpu);
    elapsedS += (performance.now() - beganMs) / 1000;
    cpuS += (user + system) / 1e6;
  };
  await play(0);
  const { error } = byStatus;
  byStatus = error === undefined ? {} : { error };
  elapsedS = 0;
  cpuS = 0;
  const result = () => {
    const { error: _lost, ...answered } = byStatus;
    const answers = Object.values(answered).reduce((sum, n) => sum + n, 0);
    /** `clientCpu`: share of one core that the client used: near 1, the client is the bottleneck. */
    return { ratePerS: answers / elapsedS, byStatus, clientCpu: cpuS / elapsedS };
  };
  const close = async (): Promise<void> => void (await Promise.all([...clients].map((client) => client.destroy())));
  return { play, result, [Symbol.asyncDispose]: close };
};

export const playLoad = async ({ calls, connections, durationS }: Load) => {
  await using atEnd = new AsyncDisposableStack();
  const sides = await Array.fromAsync(calls, async (call) => atEnd.use(await openSide(call, connections)));
  const slices = Math.ceil(durationS / SLICE_S);
  for (let i = 0; i < slices; i += 1) {
    // Each goes first as often as last, so that no slow drift favours either.
    for (const side of i % 2 === 0 ? sides : sides.toReversed()) {
      await side.play(performance.now() + (durationS / slices) * 1000);
    }
  }
  return sides.map((side) => side.result());
};
