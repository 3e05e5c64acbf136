/** What a benchmark is: a name, what it holds against what, and how it is run. */
import type { Supervisor } from "../supervision/supervisor.ts";
import type { Row } from "./comparison.ts";

export type Settings = {
  /** Pairs of blocks. */
  rounds: number;
  /** Seconds of one block. */
  blockS: number;
  /** Connections of the closed loop. */
  connections: number;
  /** Calls of the soak. */
  soakCalls: number;
};

export type BenchRoom = {
  /** Has every process of the benchmarks in hand. */
  supervisor: Supervisor;
  /** For stores; gone at the end. */
  folder: string;
};

export type Bench = {
  name: string;
  what: string;
  /** Only when asked for by name or by `--soak`. */
  isLong?: boolean;
  /** A text: why it could not be run here. */
  run(settings: Settings, room: BenchRoom): Promise<Row[] | string>;
};
