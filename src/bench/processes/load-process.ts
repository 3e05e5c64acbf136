/** The closed loop: autocannon in a process of its own. Each question is one block of load. */
import autocannon from "autocannon";
import { serveParent } from "./child-side.ts";

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
  /** Answers by status; `error` for calls without one. */
  byStatus: Record<string, number>;
  /** Share of one core that the client used: near 1, it was the client that was measured. */
  clientCpu: number;
};

/** autocannon ends at a sample's end. */
const SAMPLE_MS = 100;

serveParent(() => ({
  made: null,
  answer: async ({ url, method, headers, body, connections, durationS }: Load): Promise<LoadResult> => {
    const cpu = process.cpuUsage();
    const ran = await autocannon({
      url,
      method,
      headers,
      connections,
      duration: durationS,
      sampleInt: SAMPLE_MS,
      ...(body === undefined ? {} : { body }),
    });
    const { user, system } = process.cpuUsage(cpu);
    const byStatus: Record<string, number> = {};
    let answers = 0;
    for (const [status, { count }] of Object.entries(ran.statusCodeStats ?? {})) {
      byStatus[status] = count ?? 0;
      answers += count ?? 0;
    }
    if (ran.errors > 0) byStatus.error = ran.errors;
    return {
      ratePerS: answers / ran.duration,
      byStatus,
      clientCpu: (user + system) / 1e6 / ran.duration,
    };
  },
}));
