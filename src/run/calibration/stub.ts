/** Starts the stub of a calibration and talks to it, one JSON value a line: each question has one answer, of the same `type`. */
import { spawn } from "node:child_process";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Stamp } from "../../history/calibration-checks.ts";
import { type Hands, NO_HANDS } from "../../stages/play.ts";
import { messageIn, readLines } from "../../supervision/lines.ts";
import { runMark } from "../../supervision/processes.ts";

export type StubPhases = {
  /** When the first call is due, in microseconds after the start of the schedule. */
  firstUs: number;
  /** After the start: from when on the stub stands still, and for how long; from when on it answers everything at once. */
  stallFromUs: number;
  stallUs: number;
  nullFromUs: number;
};

type StubAnswers = {
  /** Said unasked, once both servers are warm. */
  listening: { port: number; nullPort: number };
  /** It has forgotten what it saw, and waits for the first call of the next schedule. */
  phases: object;
  report: { stamps: Stamp[]; stoodStillUs: number };
  /** What came to the null server beside the stub since the last look: how many requests, and when the last of them. */
  look: { calls: number; lastUs: number };
};

export type ToStub = ({ type: "phases" } & StubPhases) | { type: "report" | "look" };

const PROCESS = fileURLToPath(new URL("./stub-process.ts", import.meta.url));
const ANSWER_MS = 10_000;

export type CalibrationStub = Awaited<ReturnType<typeof startCalibrationStub>>;

export const startCalibrationStub = async (hands: Hands = NO_HANDS) => {
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", PROCESS], {
    env: runMark(),
    stdio: ["pipe", "pipe", "ignore"],
    detached: true,
  });
  const forget = child.pid === undefined ? undefined : hands.adopt("the stub of the calibration", child.pid);
  child.stdin.on("error", () => undefined);
  const gone = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(`it ended (${signal ?? code})`));
  });
  let hear: (message: object) => void = () => undefined;
  readLines(child.stdout, (line) => {
    const message = messageIn(line);
    if (message !== null) hear(message);
  });
  const answerTo = async <T extends keyof StubAnswers>(_type: T, question: ToStub | null): Promise<StubAnswers[T]> => {
    const came = new Promise<object>((resolve) => {
      hear = resolve;
    });
    if (question !== null) child.stdin.write(`${JSON.stringify(question)}\n`);
    const late = after(ANSWER_MS, `it said nothing for ${ANSWER_MS / 1000} s`, { ref: false });
    const found = await Promise.race([came, gone, late]);
    if (typeof found === "string") throw new Error(`the stub of the calibration: ${found}`);
    return found as StubAnswers[T];
  };
  const end = async (): Promise<void> => {
    child.stdin.end();
    const force = setTimeout(() => child.kill("SIGKILL"), ANSWER_MS);
    await gone;
    clearTimeout(force);
    forget?.();
  };
  try {
    const { port, nullPort } = await answerTo("listening", null);
    return {
      url: `http://127.0.0.1:${port}/v1`,
      nullUrl: `http://127.0.0.1:${nullPort}/v1`,
      begin: (phases: StubPhases) => answerTo("phases", { type: "phases", ...phases }),
      look: () => answerTo("look", { type: "look" }),
      report: () => answerTo("report", { type: "report" }),
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
};
