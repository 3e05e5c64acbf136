/** `chaos --list`: what there is to break, and what must hold. Nothing is sent. */

import { plannedEmbedded } from "../../deployments/embedded-deployment.ts";
import { linkBudgetMs } from "../../faults/beside-load/link-breaker.ts";
import {
  type Breakage,
  type BrokenPart,
  HOLDS_ALWAYS,
  type ProcessFaultName,
  type StoreErrorName,
} from "../../faults/experiments/experiment-entry.ts";
import { makeFault } from "../../faults/faults/catalogue.ts";
import { FAULT_STATE_WORDS } from "../../history/states-reached.ts";
import { wrapped } from "../../report/terminal.ts";
import { experimentsFor } from "../../run/experiments/chosen.ts";
import type { Target } from "../../target/target.ts";
import { readTargetFile } from "../../target/target-file.ts";
import { printShown } from "./output.ts";

const PROCESS: Readonly<Record<ProcessFaultName, string>> = {
  killed: "its process is killed (SIGKILL), and started again on the same port and store",
  stopped: "its process is stopped (SIGSTOP), and goes on (SIGCONT)",
  restarted: "its process is ended in order (SIGTERM), and started again after a while",
  "restarted-unsettled": "its process is told to end (SIGTERM) while refunds are not confirmed, and started again",
};
const STORE: Readonly<Record<StoreErrorName, string>> = {
  oom: "Redis is out of memory (maxmemory)",
  readonly: "Redis is made the replica of a master that is not there",
  loading: "Redis is killed and takes its time to read its files",
  noscript: "Redis is made to forget its scripts every 50 ms",
  "aof-slow": "Redis lets no write through (CLIENT PAUSE), as behind a disk that does not come back",
  locked: "another connection holds the SQLite file for writing",
  "disk-full": "no file of the limiter's process may grow or be written (prlimit)",
};

const breaksBy = (breakage: Breakage, target: Target | null): { fault: string; stream: string } => {
  const both = (fault: string): { fault: string; stream: string } => ({ fault, stream: "both" });
  if (breakage.by === "process") return both(PROCESS[breakage.fault]);
  if (breakage.by === "store") return both(STORE[breakage.fault]);
  if (breakage.by === "command") return both("what the commands of the target file do");
  if (breakage.by === "clock")
    return both("the clock of all parts is moved to just before the next month, which then comes");
  const budgetMs = linkBudgetMs(breakage.link, (target ?? plannedEmbedded()).limits);
  const { what, stream } = makeFault(breakage.fault, { budgetMs });
  return { fault: what, stream };
};

const PART: Readonly<Record<BrokenPart, string>> = {
  limiter: "the limiter",
  keys: "the key service",
  api: "the API",
  edge: "the API",
  service: "the whole service",
};
const FROM: Readonly<Record<Breakage["by"], string>> = {
  link: "the way to ",
  process: "",
  store: "the store of ",
  clock: "",
  command: "",
};

/** `  breaks   …`, its further lines under the first. */
const entry = (label: string, text: string): string[] => wrapped(text, `  ${label.padEnd(9)}`, 11);

export const listExperiments = async (targetFile: string | undefined, isJson: boolean | undefined): Promise<void> => {
  const target = targetFile === undefined ? null : (await readTargetFile(targetFile)).target;
  const all = [...experimentsFor(target).values()];
  const listed = all.map(({ name, breaks, holds, store, meets }) => {
    const [{ link, fault }] = breaks;
    const what = breaks.map((breakage) => breaksBy(breakage, target));
    return {
      name,
      link,
      fault,
      stream: what[0]?.stream,
      breaks: what.map((one) => one.fault).join("; "),
      at_once: breaks.length === 1 ? undefined : breaks.map((one) => `${one.link}.${one.fault}`),
      needs_limiter: store,
      must_hold: [holds, ...HOLDS_ALWAYS],
      must_meet: meets,
    };
  });
  const lines = all.flatMap(({ name, breaks, holds, store, meets = [] }) => [
    name,
    ...entry("on", breaks.map(({ by, link }) => `${FROM[by]}${PART[link]}`).join(" and ")),
    ...entry("breaks", [...new Set(breaks.map((one) => breaksBy(one, target).fault))].join("; ")),
    ...(store === "redis" ? entry("needs", "--limiter redis") : []),
    ...entry("must", holds),
    ...(meets.length === 0 ? [] : entry("meets", meets.map((state) => FAULT_STATE_WORDS[state]).join("; "))),
  ]);
  printShown(isJson, {
    document: { schema: "floodgate/experiments@1", experiments: listed },
    lines: [...lines, "", "In every experiment:", ...HOLDS_ALWAYS.map((text) => `  - ${text}`)],
  });
};
