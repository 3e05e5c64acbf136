/** What a process holds on to: memory, timers, open files. For whoever watches whether it grows. */
import { readdirSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

export type ProcessGauges = {
  rss_bytes: number;
  /** Of the JavaScript heap; after a collection of all of it where that was asked for. */
  heap_bytes: number;
  /** Timers that keep the process alive. */
  timers: number;
  /** Files, sockets and pipes; `null` where the system does not show them. */
  open_files: number | null;
};

let collect: (() => void) | null = null;

/** Garbage that is still lying about says nothing of what is held. A pause of some ten milliseconds. */
const collectGarbage = (): void => {
  if (collect === null) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
    setFlagsFromString("--no-expose-gc");
  }
  collect();
};

const openFiles = (): number | null => {
  try {
    // The listing itself holds one.
    return readdirSync("/proc/self/fd").length - 1;
  } catch {
    return null;
  }
};

export const readProcessGauges = (collectsFirst: boolean): ProcessGauges => {
  if (collectsFirst) collectGarbage();
  const { rss, heapUsed } = process.memoryUsage();
  return {
    rss_bytes: rss,
    heap_bytes: heapUsed,
    timers: process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length,
    open_files: openFiles(),
  };
};
