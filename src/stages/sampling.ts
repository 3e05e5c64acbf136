/** Reads gauges of the deployment and the CPU of generator and machine while a stage runs, for the charts beside its calls. */

import { readGauges } from "../client/control-planes.ts";
import type { Sample } from "../history/sample.ts";
import type { Gauges } from "../history/stage-facts.ts";
import { cpuTimeMs, type MachineTime, machineTime } from "../supervision/proc-files.ts";

const EVERY_MS = 500;

type SamplingOf = {
  stage: string;
  /** Control planes of the API replicas; none where the target shows none. */
  apis: readonly string[];
  /** Processes of the generator, as they come. */
  pids: readonly number[];
  nowUs(): number;
  onSample(sample: Sample): void;
};

const gaugeValues = (gauges: readonly Gauges[]): Sample["values"] => {
  const known = (name: "sockets" | "rss_bytes" | "event_loop_lag_ms_p99"): number[] =>
    gauges.map((gauge) => gauge[name]).filter((value) => value !== undefined);
  const sum = (values: readonly number[]): number => values.reduce((all, one) => all + one, 0);
  const [sockets, rss, lags] = [known("sockets"), known("rss_bytes"), known("event_loop_lag_ms_p99")];
  return {
    in_flight: sum(gauges.map(({ in_flight }) => in_flight)),
    ...(sockets.length === 0 ? {} : { sockets: sum(sockets) }),
    ...(rss.length === 0 ? {} : { rss_bytes: sum(rss) }),
    ...(lags.length === 0 ? {} : { event_loop_lag_ms_p99: Math.max(...lags) }),
  };
};

type Used = { atMs: number; byPid: Map<number, number>; machine: MachineTime | null };

const usedNow = (pids: readonly number[]): Used => {
  const byPid = new Map<number, number>();
  for (const pid of pids) {
    const ms = cpuTimeMs(pid);
    if (ms !== null) byPid.set(pid, ms);
  }
  return { atMs: performance.now(), byPid, machine: machineTime() };
};

const share = (part: number, whole: number): number => Math.round((1000 * part) / whole) / 1000;

const usedValues = (was: Used, is: Used): Sample["values"] => {
  // A process that began after the last look had used nothing then.
  const ms = [...is.byPid].reduce((sum, [pid, used]) => sum + used - (was.byPid.get(pid) ?? 0), 0);
  const machine = was.machine !== null && is.machine !== null && is.machine.all > was.machine.all;
  const all = machine ? is.machine!.all - was.machine!.all : 0;
  return {
    ...(is.byPid.size === 0 ? {} : { generator_cores: share(ms, is.atMs - was.atMs) }),
    ...(machine
      ? {
          host_steal: share(is.machine!.steal - was.machine!.steal, all),
          host_busy: share(all - (is.machine!.idle - was.machine!.idle), all),
        }
      : {}),
  };
};

/** Begins; the answer ends it. A gauge that cannot be read is left out: the judges read their own after the stage. */
export const sampleStage = ({ stage, apis, pids, nowUs, onSample }: SamplingOf): (() => void) => {
  let isOver = false;
  let isReading = false;
  let was = usedNow(pids);
  const look = async (): Promise<void> => {
    if (isReading) return;
    isReading = true;
    const is = usedNow(pids);
    const used = usedValues(was, is);
    was = is;
    const at_us = nowUs();
    const gauges = apis.length === 0 ? null : await readGauges(apis).catch(() => null);
    isReading = false;
    const values = { ...used, ...(gauges === null ? {} : gaugeValues(gauges)) };
    if (!isOver && Object.keys(values).length > 0) onSample({ type: "sample", stage, at_us, values });
  };
  const timer = setInterval(() => void look(), EVERY_MS);
  timer.unref();
  return () => {
    isOver = true;
    clearInterval(timer);
  };
};
