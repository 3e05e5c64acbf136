/** The closed loop, in a process of its own. Each question is one block of load, over connections of its own. */
import { serveParent } from "./child-side.ts";
import { requestBytes, runConnection } from "./load-connection.ts";

export type Load = {
  url: string;
  method: "GET" | "POST";
  headers: Record<string, string>;
  body?: string;
  connections: number;
  durationS: number;
};

export type LoadResult = {
  ratePerS: number;
  /** Answers by status; `error` for connections that were lost. */
  byStatus: Record<string, number>;
  /** Share of one core that the client used: near 1, it was the client that was measured. */
  clientCpu: number;
};

const run = async ({ url, method, headers, body, connections, durationS }: Load): Promise<LoadResult> => {
  const at = new URL(url);
  const request = requestBytes(method, at, headers, body);
  const byStatus: Record<string, number> = {};
  let isOver = false;
  const count = (outcome: string): void => {
    if (!isOver) byStatus[outcome] = (byStatus[outcome] ?? 0) + 1;
  };
  const on = { answered: count, failed: () => count("error") };
  const cpu = process.cpuUsage();
  const beganMs = performance.now();
  const sockets = Array.from({ length: connections }, () => runConnection(at, request, on));
  await new Promise((resolve) => setTimeout(resolve, durationS * 1_000));
  isOver = true;
  const elapsedS = (performance.now() - beganMs) / 1_000;
  const { user, system } = process.cpuUsage(cpu);
  for (const socket of sockets) socket.destroy();
  const { error: _lost, ...answered } = byStatus;
  const answers = Object.values(answered).reduce((sum, n) => sum + n, 0);
  return { ratePerS: answers / elapsedS, byStatus, clientCpu: (user + system) / 1e6 / elapsedS };
};

serveParent(() => ({ made: null, answer: run }));
