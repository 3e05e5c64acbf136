/** The driver process's side of the pipe to the runner: messages, secrets, the clock's offset. */
import { wallUs } from "../../client/clock.ts";
import { messageIn, readLines } from "../../supervision/lines.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { FromProcess, ToProcess } from "./job.ts";

const FLUSH_EVERY_MS = 50;
const FLUSH_AT_CHARS = 1 << 16;
const PINGS = 9;

export type ProcessPipe = {
  /** Lines are gathered for up to 50 ms, unless `now`. */
  tell(message: FromProcess, now?: boolean): void;
  /** The next message of a kind; `n` is the number it answers. */
  once<T extends ToProcess["type"]>(type: T, n?: number): Promise<Extract<ToProcess, { type: T }>>;
  /** Values come from the runner, which alone reads the references of the target file. */
  secrets: Secrets;
  measureClock(): Promise<{ offsetUs: number; errorUs: number }>;
  end(code: number): void;
};

export const openProcessPipe = (): ProcessPipe => {
  let pending = "";
  const flush = (): void => {
    if (pending === "") return;
    process.stdout.write(pending);
    pending = "";
  };
  setInterval(flush, FLUSH_EVERY_MS).unref();
  const tell: ProcessPipe["tell"] = (message, now = false) => {
    pending += `${JSON.stringify(message)}\n`;
    if (now || pending.length > FLUSH_AT_CHARS) flush();
  };

  const waiting = new Map<string, (message: ToProcess) => void>();
  const once: ProcessPipe["once"] = (type, n = 0) =>
    new Promise((resolve) => {
      waiting.set(`${type} ${n}`, resolve as (message: ToProcess) => void);
    });
  const hear = (line: string): void => {
    const message = messageIn(line) as ToProcess | null;
    if (message === null) return;
    const key = `${message.type} ${"n" in message ? message.n : 0}`;
    const resolve = waiting.get(key);
    waiting.delete(key);
    resolve?.(message);
  };
  // The runner is gone, so nobody wants the load.
  readLines(process.stdin, hear, () => process.exit(0));

  let asked = 0;
  const secrets: Secrets = {
    read: async (ref, what) => {
      const n = asked++;
      const answered = Promise.race([once("secret", n), once("no-secret", n)]);
      tell({ type: "secret?", n, ref, what }, true);
      const answer = await answered;
      waiting.delete(`secret ${n}`);
      waiting.delete(`no-secret ${n}`);
      if (answer.type === "no-secret") throw new Error(answer.message);
      return answer.value;
    },
    forget: (ref) => tell({ type: "forget", ref }, true),
  };

  return {
    tell,
    once,
    secrets,
    // The quickest of a few round trips gives the offset; half of that trip bounds its error.
    measureClock: async () => {
      let best = { offsetUs: 0, errorUs: Number.POSITIVE_INFINITY };
      for (let n = 0; n < PINGS; n++) {
        const answered = once("pong", n);
        const sentUs = wallUs();
        tell({ type: "ping", n }, true);
        const { atUs } = await answered;
        const gotUs = wallUs();
        const errorUs = Math.ceil((gotUs - sentUs) / 2);
        if (errorUs < best.errorUs) best = { offsetUs: Math.round(atUs - (sentUs + gotUs) / 2), errorUs };
      }
      return best;
    },
    end: (code) => {
      flush();
      process.stdout.write("", () => process.exit(code));
    },
  };
};
