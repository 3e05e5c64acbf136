/**
 * One control call to toxiproxy's API, with a deadline. The npm client has none, drops the server's message and loses
 * the cause; and toxiproxy itself can wedge (removing a toxic may wait for a peer that does not read), so a call
 * without a deadline may never come back.
 */

import { Agent, request } from "undici";
import { foreignSentence } from "../contract/foreign-text.ts";
import { textWithin } from "../target/text-within.ts";

const CONTROL_CALL_MS = 5_000;

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
  /** Deadline of this one call in milliseconds. */
  callMs?: number;
  /** Ends the call early. */
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

const whyNoAnswer = (error: unknown, callMs: number, outer: AbortSignal | undefined): string => {
  if (outer?.aborted === true) return "given up, because the run was asked to stop";
  const { name, code, message } = error as { name?: string; code?: string; message?: string };
  if (name === "TimeoutError" || name === "AbortError") return `no answer within ${callMs} ms; toxiproxy may be wedged`;
  return code ?? message ?? String(error);
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
  /** Resolves when there are none, or when the signal fires. */
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
  /** A change is not taken back by hanging up, so its answer is waited for behind the deadline. */
  const keepAsking = (answered: Promise<{ status: number }>): void => {
    const over: Promise<void> = answered.then(
      ({ status }) => void (status !== GOES_ON && late.delete(over)),
      () => void late.delete(over),
    );
    late.add(over);
  };
  const ask = async (
    method: "GET" | "POST" | "PATCH" | "DELETE",
    path: string,
    body: unknown,
    signal?: AbortSignal,
  ) => {
    const answer = await request(`${base}${path}`, {
      method,
      dispatcher: agent,
      ...(signal === undefined ? {} : { signal }),
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    return { status: answer.statusCode, text: await textWithin(answer.body) };
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
      let status: number;
      let text: string;
      try {
        signal.throwIfAborted();
        if (method === "GET") ({ status, text } = await ask(method, path, body, signal));
        else {
          const answered = ask(method, path, body);
          const over = new AbortController();
          const inTime = new Promise<never>((_, reject) => {
            const fire = (): void => {
              keepAsking(answered);
              reject(signal.reason);
            };
            signal.addEventListener("abort", fire, { once: true, signal: over.signal });
          });
          ({ status, text } = await Promise.race([answered, inTime]).finally(() => over.abort()));
        }
      } catch (error) {
        const why = whyNoAnswer(error, callMs, outer);
        throw new ToxiproxyError(
          `toxiproxy at ${base}: ${method} ${path}: ${why}`,
          null,
          null,
          (error as { code?: string }).code ?? null,
        );
      }
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
