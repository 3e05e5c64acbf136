/** Starts the stub of a calibration and asks it over the channel of `fork`: each question has one answer. */
import { fork } from "node:child_process";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Stamp } from "../../history/calibration-checks.ts";
import { type Hands, NO_HANDS } from "../../stages/play.ts";
import { runMark } from "../../supervision/processes.ts";

export type StubPhases = {
  /** When the first call is due, in microseconds after the start of the schedule. */
  firstUs: number;
  /** Microseconds: when the stub stands still after the start, for how long, and from when on it answers at once. */
  stallFromUs: number;
  stallUs: number;
  nullFromUs: number;
};

/** `StubPhases` resets the stub, which then waits for the first call of the next schedule. */
export type ToStub = StubPhases | "report" | "look";

export type StubReport = { stamps: Stamp[]; stoodStillUs: number };
/** Requests that the null server beside the stub received since the last look: how many, and when the last came. */
export type StubLook = { calls: number; lastUs: number };
/** Sent by the stub once both servers are warm. */
export type StubPorts = { port: number; nullPort: number };

const PROCESS = fileURLToPath(new URL("./stub-process.ts", import.meta.url));
const ANSWER_MS = 10_000;

export type CalibrationStub = Awaited<ReturnType<typeof startCalibrationStub>>;

export const startCalibrationStub = async (hands: Hands = NO_HANDS) => {
  const execArgv = ["--disable-warning=ExperimentalWarning"];
  const child = fork(PROCESS, {
    execArgv,
    env: runMark(),
    stdio: ["ignore", "ignore", "ignore", "ipc"],
    detached: true,
  });
  const forget = child.pid === undefined ? undefined : hands.adopt("the stub of the calibration", child.pid);
  const { promise: gone, resolve: end } = Promise.withResolvers<string>();
  child.on("error", (error) => end(error.message));
  child.once("exit", (code, signal) => end(`it ended (${signal ?? code})`));
  const answer = async <T>(question?: ToStub): Promise<T> => {
    const came = Promise.withResolvers<T>();
    child.once("message", came.resolve);
    if (question !== undefined) child.send(question, () => undefined);
    const late = after(ANSWER_MS, `it said nothing for ${ANSWER_MS / 1000} s`, { ref: false });
    const found = await Promise.race([came.promise, gone, late]);
    if (typeof found === "string") throw new Error(`the stub of the calibration: ${found}`);
    return found as T;
  };
  const close = async (): Promise<void> => {
    if (child.connected) child.disconnect();
    const force = setTimeout(() => child.kill("SIGKILL"), ANSWER_MS);
    await gone;
    clearTimeout(force);
    forget?.();
  };
  try {
    const { port, nullPort } = await answer<StubPorts>();
    return {
      url: `http://127.0.0.1:${port}/v1`,
      nullUrl: `http://127.0.0.1:${nullPort}/v1`,
      begin: (phases: StubPhases) => answer(phases),
      look: () => answer<StubLook>("look"),
      report: () => answer<StubReport>("report"),
      end: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
};
