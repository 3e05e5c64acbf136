/** `chaos --list`: what there is to break, and what must hold. Nothing is sent. */

import { plannedEmbedded } from "../../deployments/embedded-deployment.ts";
import { linkBudgetMs } from "../../faults/beside-load/link-breaker.ts";
import {
  type Breakage,
  type BrokenPart,
  type ExperimentEntry,
  HOLDS_ALWAYS,
  type ProcessFaultName,
  type StoreErrorName,
} from "../../faults/experiments/experiment-entry.ts";
import { makeFault } from "../../faults/faults/catalogue.ts";
import { FAULT_STATE_WORDS } from "../../history/states-reached.ts";
import { experimentsFor } from "../../run/experiments/chosen.ts";
import type { Target } from "../../target/target.ts";
import { readTargetFile } from "../../target/target-file.ts";
import { printJson, printResult } from "./output.ts";

const BY_COMMAND = "what the commands of the target file do";

const NEW_MONTH = "the clock of all parts is moved to just before the next month, which then comes";

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
  switch (breakage.by) {
    case "process":
      return { fault: PROCESS[breakage.fault], stream: "both" };
    case "store":
      return { fault: STORE[breakage.fault], stream: "both" };
    case "command":
      return { fault: BY_COMMAND, stream: "both" };
    case "clock":
      return { fault: NEW_MONTH, stream: "both" };
    case "link": {
      const { what, stream } = makeFault(breakage.fault, {
        budgetMs: linkBudgetMs(breakage.link, (target ?? plannedEmbedded()).limits),
      });
      return { fault: what, stream };
    }
  }
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

const onWhat = ({ breaks }: ExperimentEntry): string =>
  breaks.map(({ by, link }) => `${FROM[by]}${PART[link]}`).join(" and ");

const WIDTH = 80;
const INDENT = " ".repeat(11);

/** `  breaks   …`, its further lines under the first. */
const wrapped = (label: string, text: string): string => {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || INDENT.length + last.length + 1 + word.length > WIDTH) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return `  ${label.padEnd(INDENT.length - 2)}${lines.join(`\n${INDENT}`)}`;
};

const meetsOf = ({ meets = [] }: ExperimentEntry): string[] =>
  meets.length === 0 ? [] : [wrapped("meets", meets.map((state) => FAULT_STATE_WORDS[state]).join("; "))];

export const listExperiments = async (targetFile: string | undefined, json: boolean): Promise<void> => {
  const target = targetFile === undefined ? null : (await readTargetFile(targetFile)).target;
  const all = [...experimentsFor(target).values()];
  if (json) {
    const listed = all.map((experiment) => {
      const { name, breaks, holds, store } = experiment;
      const [{ link, fault }] = breaks;
      const what = breaks.map((breakage) => breaksBy(breakage, target));
      return {
        name,
        link,
        fault,
        stream: what[0]?.stream,
        breaks: what.map((one) => one.fault).join("; "),
        ...(breaks.length === 1 ? {} : { at_once: breaks.map((one) => `${one.link}.${one.fault}`) }),
        ...(store === undefined ? {} : { needs_limiter: store }),
        must_hold: [holds, ...HOLDS_ALWAYS],
        ...(experiment.meets === undefined ? {} : { must_meet: experiment.meets }),
      };
    });
    printJson({ schema: "floodgate/experiments@1", experiments: listed });
    return;
  }
  const lines = all.flatMap((experiment) => [
    experiment.name,
    wrapped("on", onWhat(experiment)),
    wrapped("breaks", [...new Set(experiment.breaks.map((one) => breaksBy(one, target).fault))].join("; ")),
    ...(experiment.store === "redis" ? [wrapped("needs", "--limiter redis")] : []),
    wrapped("must", experiment.holds),
    ...meetsOf(experiment),
  ]);
  printResult(`${lines.join("\n")}\n\nIn every experiment:\n${HOLDS_ALWAYS.map((text) => `  - ${text}\n`).join("")}`);
};
