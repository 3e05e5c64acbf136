/** Starts the stub of a calibration and talks to it, one JSON value a line. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Stamp } from "../../history/calibration-checks.ts";
import type { Hands } from "../../stages/play.ts";
import { NO_HANDS } from "../../stages/play.ts";
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

export type ToStub = { type: "phases"; phases: StubPhases } | { type: "report" } | { type: "look" };

type StubReport = { stamps: Stamp[]; stoodStillUs: number };

/** What came to the null server beside the stub since the last look: how many requests, and when the last of them. */
type NullReport = { calls: number; lastUs: number };

export type FromStub =
  | { type: "listening"; port: number; nullPort: number }
  | { type: "ready" }
  | ({ type: "report" } & StubReport)
  | ({ type: "seen" } & NullReport);

const PROCESS = fileURLToPath(new URL("./stub-process.ts", import.meta.url));
const ANSWER_MS = 10_000;

export type CalibrationStub = {
  url: string;
  /** Forgets what it saw and waits for the first call of the next schedule. */
  begin(phases: StubPhases): Promise<void>;
  report(): Promise<StubReport>;
  /** The address of the null server beside it, and what came to that since the last look. */
  nullUrl: string;
  look(): Promise<NullReport>;
  end(): Promise<void>;
};

export const startCalibrationStub = async (hands: Hands = NO_HANDS): Promise<CalibrationStub> => {
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
  const heard: FromStub[] = [];
  let wake: () => void = () => undefined;
  readLines(child.stdout, (line) => {
    const message = messageIn(line) as FromStub | null;
    if (message === null) return;
    heard.push(message);
    wake();
  });
  const next = async <T extends FromStub["type"]>(type: T): Promise<Extract<FromStub, { type: T }>> => {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<string>((resolve) => {
      timer = setTimeout(() => resolve(`it said nothing for ${ANSWER_MS / 1000} s`), ANSWER_MS);
    });
    try {
      for (;;) {
        const found = heard.findIndex((message) => message.type === type);
        if (found >= 0) return heard.splice(found, 1)[0] as Extract<FromStub, { type: T }>;
        const came = new Promise<null>((resolve) => {
          wake = () => resolve(null);
        });
        const trouble = await Promise.race([came, gone, late]);
        if (trouble !== null) throw new Error(`the stub of the calibration: ${trouble}`);
      }
    } finally {
      clearTimeout(timer);
    }
  };
  const ask = <T extends FromStub["type"]>(message: ToStub, type: T): Promise<Extract<FromStub, { type: T }>> => {
    child.stdin.write(`${JSON.stringify(message)}\n`);
    return next(type);
  };
  const end = async (): Promise<void> => {
    child.stdin.end();
    const force = setTimeout(() => child.kill("SIGKILL"), ANSWER_MS);
    await gone;
    clearTimeout(force);
    forget?.();
  };
  try {
    const { port, nullPort } = await next("listening");
    return {
      url: `http://127.0.0.1:${port}/v1`,
      nullUrl: `http://127.0.0.1:${nullPort}/v1`,
      begin: async (phases) => void (await ask({ type: "phases", phases }, "ready")),
      look: () => ask({ type: "look" }, "seen"),
      report: () => ask({ type: "report" }, "report"),
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
};
