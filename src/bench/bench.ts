import type { Supervisor } from "../supervision/supervisor.ts";
import type { Row } from "./comparison.ts";

export type Settings = {
  rounds: number;
  blockS: number;
  connections: number;
  soakCalls: number;
};

export type BenchRoom = {
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
