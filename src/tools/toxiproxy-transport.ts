/**
 * One control call to toxiproxy's API, with a deadline. The npm client has none, drops the server's message and loses
 * the cause; and toxiproxy itself can wedge (removing a toxic may wait for a peer that does not read), so a call
 * without a deadline may never come back.
 */

import { Agent } from "undici";
import { CONTROL_CALL_MS, callControl } from "../client/control-call.ts";
import { foreignSentence } from "../contract/foreign-text.ts";

/** A change that toxiproxy holds back for longer is given up. */
const LATE_CHANGE_MS = 300_000;

/** A control call that failed. `status` is the server's, or `null` when no answer came. */
export class ToxiproxyError extends Error {
  readonly status: number | null;
  readonly serverMessage: string | null;
  /** The transport's word where no answer came, e.g. `ECONNREFUSED`. */
  readonly code: string | null;
  constructor(message: string, status: number | null, serverMessage: string | null, code: string | null = null) {
    super(message);
    this.name = "ToxiproxyError";
    this.status = status;
    this.serverMessage = serverMessage;
    this.code = code;
  }
}

export type CallOptions = {
  callMs?: number;
  signal?: AbortSignal;
};

const messageIn = (text: string): string => {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null && "error" in parsed)
      return foreignSentence(String(parsed.error));
  } catch {
    // Not JSON: the text itself is the message.
  }
  return foreignSentence(text.trim());
};

type Transport = {
  /** The parsed answer (text where it is not JSON, `undefined` where it is empty). Throws `ToxiproxyError`. */
  call: (
    method: "GET" | "POST" | "PATCH" | "DELETE",
    path: string,
    body?: unknown,
    options?: CallOptions,
  ) => Promise<unknown>;
  /** Changes that were not answered in time and may still be carried out: toxiproxy does them when its lock is free again. */
  underWay: () => number;
  settled: (signal: AbortSignal) => Promise<void>;
  close: () => Promise<void>;
};

/** Its own time-out answers this, and goes on with the work behind it. */
const GOES_ON = 503;

/** `apiUrl` as in the target file, e.g. `http://127.0.0.1:8474`. Redirects are not followed. */
export const openTransport = (apiUrl: string, defaults: CallOptions = {}): Transport => {
  const base = apiUrl.replace(/\/+$/, "");
  // A wedged server must not hold a later call up behind an earlier one, hence no pipelining and short keep-alive.
  const agent = new Agent({ pipelining: 1, keepAliveTimeout: 1_000 });
  const late = new Set<Promise<void>>();
  /** Hanging up does not take a change back, so its answer is waited for behind the deadline. */
  const inTime = async <T extends { status: number }>(answered: Promise<T>, signal: AbortSignal): Promise<T> => {
    const over = new AbortController();
    const tooLate = new Promise<never>((_, reject) => {
      const fire = (): void => {
        const done: Promise<void> = answered.then(
          ({ status }) => void (status !== GOES_ON && late.delete(done)),
          () => void late.delete(done),
        );
        late.add(done);
        reject(signal.reason);
      };
      signal.addEventListener("abort", fire, { once: true, signal: over.signal });
    });
    return Promise.race([answered, tooLate]).finally(() => over.abort());
  };
  return {
    underWay: () => late.size,
    settled: async (signal) => {
      while (late.size > 0 && !signal.aborted) {
        const fired = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
        const before = late.size;
        await Promise.race([fired, Promise.any([...late])]);
        // What toxiproxy itself gave up on is never heard of again.
        if (late.size === before) await fired;
      }
    },
    call: async (method, path, body, options = {}) => {
      const callMs = options.callMs ?? defaults.callMs ?? CONTROL_CALL_MS;
      const outer = options.signal ?? defaults.signal;
      const deadline = AbortSignal.timeout(callMs);
      const signal = outer === undefined ? deadline : AbortSignal.any([deadline, outer]);
      const failed = ({ code, message }: NodeJS.ErrnoException): never => {
        const noAnswer = deadline.aborted
          ? `no answer within ${callMs} ms; toxiproxy may be wedged`
          : (code ?? message);
        const why = outer?.aborted === true ? "given up, because the run was asked to stop" : noAnswer;
        throw new ToxiproxyError(`toxiproxy at ${base}: ${method} ${path}: ${why}`, null, null, code ?? null);
      };
      if (signal.aborted) return failed(signal.reason);
      const call = { method, body, dispatcher: agent, withinMs: LATE_CHANGE_MS };
      const isRead = method === "GET";
      const answered = callControl(`${base}${path}`, isRead ? { ...call, signal } : call);
      const { status, text } = await (isRead ? answered : inTime(answered, signal)).catch(failed);
      if (status < 200 || status > 299) {
        const said = messageIn(text);
        throw new ToxiproxyError(`toxiproxy at ${base}: ${method} ${path} answered ${status}: ${said}`, status, said);
      }
      if (text === "") return undefined;
      try {
        return JSON.parse(text) as unknown;
      } catch {
        return text;
      }
    },
    close: () => agent.destroy(),
  };
};
