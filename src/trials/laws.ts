/**
 * Runs the laws of `properties/` in a child process with a mutant's parts in place of the healthy ones, and reads one line of
 * JSON for each law and mutant.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { nobody } from "../mutants/mutant.ts";
import { lastLines, NODE_ARGUMENTS } from "../supervision/child.ts";
import { readLines } from "../supervision/lines.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import type { Trial, TrialVerdict } from "./trials.ts";

type LawLine = Record<"mutant" | "law" | "reason", string> & {
  verdict: "killed" | "survived" | "undecided";
  seed?: number;
  path?: string | null;
};

/** `program`: relative to the repository's root. */
type LawsOptions = { mutants: readonly string[]; onTrial?(trial: Trial): void; signal?: AbortSignal; program?: string };

const PROGRAM = "properties/mutant-laws.ts";
const NO_LAW = "(laws)";

const VERDICTS: Record<LawLine["verdict"], { healthy: TrialVerdict; spoilt: TrialVerdict }> = {
  killed: { healthy: "false-positive", spoilt: "seen" },
  survived: { healthy: "acquitted", spoilt: "not-seen" },
  undecided: { healthy: "undecided", spoilt: "undecided" },
};

const trialOf = ({ mutant, law, verdict, reason, seed, path }: LawLine, durationMs: number): Trial => {
  const healthy = mutant === nobody.name;
  const replay = seed === undefined ? "" : ` (seed ${seed}${path ? `, path ${path}` : ""})`;
  return {
    mutant,
    column: "properties",
    stage: law,
    own: healthy,
    intended: healthy && law !== NO_LAW ? [law] : [],
    by: verdict === "killed" ? [law] : [],
    verdict: VERDICTS[verdict][healthy ? "healthy" : "spoilt"],
    reasons: verdict === "survived" ? [] : [`${law}: ${verdict}: ${reason}${replay}`],
    attempts: 1,
    durationMs,
  };
};

const parsed = (text: string): LawLine | null => {
  try {
    const line = JSON.parse(text) as LawLine | null;
    return typeof line?.law === "string" && line.verdict in VERDICTS ? line : null;
  } catch {
    return null;
  }
};

/**
 * Makes one trial for each law and mutant. A mutant without a line is undecided if the process failed; otherwise no law
 * looks at what it spoils, and it gets no trial. Never rejects.
 */
export const tryLaws = async (options: LawsOptions): Promise<Trial[]> => {
  const { mutants, onTrial } = options;
  const trials: Trial[] = [];
  let sinceMs = performance.now();
  const add = (line: LawLine): void => {
    const trial = trialOf(line, Math.round(performance.now() - sinceMs));
    sinceMs = performance.now();
    trials.push(trial);
    onTrial?.(trial);
  };
  const ended = await listen(options, add);
  for (const mutant of mutants) {
    if (trials.some((trial) => trial.mutant === mutant) || (ended.well && mutant !== nobody.name)) continue;
    add({ mutant, law: NO_LAW, verdict: "undecided", reason: ended.how });
  }
  return trials;
};

/** Runs the program, passes its lines to `onLaw` and resolves to how the process ended. */
const listen = async ({ mutants, signal, program = PROGRAM }: LawsOptions, onLaw: (line: LawLine) => void) => {
  if (!existsSync(join(REPOSITORY, program))) return { well: false, how: `${program} is not there` };
  const child = spawn(process.execPath, [...NODE_ARGUMENTS, program, "--json", ...mutants], {
    cwd: REPOSITORY,
    stdio: ["ignore", "pipe", "pipe"],
    signal,
    killSignal: "SIGKILL",
  });
  // Ends with this process in any case.
  const end = (): void => void child.kill("SIGKILL");
  process.once("exit", end);
  const complaints = lastLines(child.stderr, 1);
  child.on("error", ({ message }) => void complaints.push(message));
  readLines(child.stdout, (text) => {
    const line = parsed(text);
    if (line !== null && mutants.includes(line.mutant)) onLaw(line);
  });
  return new Promise<{ well: boolean; how: string }>((resolve) => {
    child.on("close", (code, how) => {
      process.off("exit", end);
      const last = complaints.at(-1);
      const words = last === undefined ? "" : `; its last words: ${last}`;
      resolve({ well: code === 0, how: `${program} ended (${how ?? code}) without a result for it${words}` });
    });
  });
};
