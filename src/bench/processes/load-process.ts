/**
 * The closed loop, in a process of its own. Each question is one block of load: one server for so long, or several in turn,
 * a slice each, over connections that stay open meanwhile. A shared machine can be half as fast for a second and look idle:
 * what meets one slice meets the next one too, and so the sides alike.
 */
import { connect } from "node:net";
import { type KeptConnection, keepConnection, requestBytes } from "../../platform/links/kept-connection.ts";
import { serveParent } from "./child-side.ts";

export type LoadCall = { url: string; method: "GET" | "POST"; headers: Record<string, string>; body?: string };

export type Load = {
  calls: readonly LoadCall[];
  /** For each of them. */
  connections: number;
  /** For each of them, all its slices together. */
  durationS: number;
};

/** Of one call of the load. */
export type LoadResult = {
  ratePerS: number;
  /** Answers by status; `error` for connections that were lost. */
  byStatus: Record<string, number>;
  /** Share of one core that the client used: near 1, it was the client that was measured. */
  clientCpu: number;
};

const SLICE_S = 0.03;

type Side = {
  /** Asks on every connection; resolves when `untilMs` is over and the last answer has come. */
  play(untilMs: number): Promise<void>;
  result(): LoadResult;
  close(): void;
};

/** Resolves when every connection is there, or is known not to come. */
const openSide = async ({ url, method, headers, body }: LoadCall, connections: number): Promise<Side> => {
  const at = new URL(url);
  const request = requestBytes(method, at.pathname + at.search, { host: at.host, ...headers }, body);
  const byStatus: Record<string, number> = {};
  const count = (outcome: string | number): void => {
    byStatus[outcome] = (byStatus[outcome] ?? 0) + 1;
  };
  const waiting = new Set<KeptConnection>();
  let untilMs = 0;
  let settled = (): void => {};
  const settle = (connection: KeptConnection): void => {
    if (waiting.delete(connection) && waiting.size === 0) settled();
  };
  const open = new Set<KeptConnection>();
  /** Kept connections, because a client that makes objects of every answer takes longer than the server that gives it. */
  const openConnection = (): KeptConnection => {
    const socket = connect({ host: at.hostname, port: Number(at.port), noDelay: true });
    socket.on("connect", () => settle(connection));
    const connection = keepConnection(socket, {
      answered: ({ status }) => {
        count(status);
        if (performance.now() < untilMs) connection.ask(request);
        else settle(connection);
      },
      gone: () => {
        count("error");
        open.delete(connection);
        settle(connection);
      },
    });
    return connection;
  };
  const allSettled = (): Promise<void> =>
    new Promise((resolve) => {
      settled = resolve;
      if (waiting.size === 0) resolve();
    });
  for (let i = 0; i < connections; i += 1) open.add(openConnection());
  for (const connection of open) waiting.add(connection);
  await allSettled();

  let elapsedS = 0;
  let cpuS = 0;
  const play = async (until: number): Promise<void> => {
    const beganMs = performance.now();
    const cpu = process.cpuUsage();
    untilMs = until;
    for (const connection of open) waiting.add(connection);
    for (const connection of waiting) connection.ask(request);
    await allSettled();
    const { user, system } = process.cpuUsage(cpu);
    elapsedS += (performance.now() - beganMs) / 1000;
    cpuS += (user + system) / 1e6;
  };
  const result = (): LoadResult => {
    const { error: _lost, ...answered } = byStatus;
    const answers = Object.values(answered).reduce((sum, n) => sum + n, 0);
    // A copy: connections that are closed afterwards fail.
    return { ratePerS: answers / elapsedS, byStatus: { ...byStatus }, clientCpu: cpuS / elapsedS };
  };
  const close = (): void => {
    for (const connection of open) connection.close();
  };
  return { play, result, close };
};

const run = async ({ calls, connections, durationS }: Load): Promise<LoadResult[]> => {
  const sides: Side[] = [];
  try {
    for (const call of calls) sides.push(await openSide(call, connections));
    const slices = Math.ceil(durationS / SLICE_S);
    for (let i = 0; i < slices; i += 1) {
      // Each goes first as often as last, so that no slow drift favours either.
      for (const side of i % 2 === 0 ? sides : sides.toReversed()) {
        await side.play(performance.now() + (durationS / slices) * 1000);
      }
    }
    return sides.map((side) => side.result());
  } finally {
    for (const side of sides) side.close();
  }
};

serveParent(() => ({ made: null, answer: run }));
