/** Starts the stub of a calibration and speaks with it. It has neither arguments nor environment, and dies with its stdin. */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { messageIn, readLines } from "../../supervision/lines.ts";
import { runMark } from "../../supervision/processes.ts";
import type { FromStub, NullReport, StubPhases, StubReport, ToStub } from "./stub-messages.ts";

const PROCESS = fileURLToPath(new URL("./stub-process.ts", import.meta.url));
const ANSWER_MS = 10_000;

export type CalibrationStub = {
  /** Its address, with `/v1`. */
  url: string;
  /** Forgets what it saw and waits for the first call of the next schedule. */
  begin(phases: StubPhases): Promise<void>;
  report(): Promise<StubReport>;
  /** The address of the null server beside it, and what came to that since the last look. */
  nullUrl: string;
  look(): Promise<NullReport>;
  end(): Promise<void>;
};

/** Throws a sentence when it does not start. */
export const startCalibrationStub = async (onSpawn?: (child: ChildProcess) => void): Promise<CalibrationStub> => {
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", PROCESS], {
    env: runMark(),
    stdio: ["pipe", "pipe", "ignore"],
    detached: true,
  });
  onSpawn?.(child);
  child.stdin.on("error", () => undefined);
  const gone = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(`it ended (${signal ?? code})`));
  });
  const heard: FromStub[] = [];
  let wake: () => void = () => undefined;
  readLines(child.stdout, (line) => {
    const message = messageIn(line) as FromStub | null;
    // What is lacking then is missed at its deadline.
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
  const tell = (message: ToStub): void => void child.stdin.write(`${JSON.stringify(message)}\n`);
  const end = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.stdin.end();
    const force = setTimeout(() => child.kill("SIGKILL"), ANSWER_MS);
    await gone;
    clearTimeout(force);
  };
  try {
    const { port, nullPort } = await next("listening");
    return {
      url: `http://127.0.0.1:${port}/v1`,
      begin: async (phases) => {
        tell({ type: "phases", phases });
        await next("ready");
      },
      nullUrl: `http://127.0.0.1:${nullPort}/v1`,
      look: async () => {
        tell({ type: "look" });
        const { type: _type, ...seen } = await next("seen");
        return seen;
      },
      report: async () => {
        tell({ type: "report" });
        const { type: _type, ...report } = await next("report");
        return report;
      },
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
};
