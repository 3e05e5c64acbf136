/**
 * One control call to toxiproxy's API, with a deadline. The npm client has none, drops the server's message and loses
 * the cause; and toxiproxy itself can wedge (removing a toxic may wait for a peer that does not read), so a call
 * without a deadline may never come back.
 */
import { Agent, request } from "undici";

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
    if (typeof parsed === "object" && parsed !== null && "error" in parsed) return String(parsed.error);
  } catch {
    // Not JSON: the text itself is the message.
  }
  return text.trim().slice(0, 200);
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
  close: () => Promise<void>;
};

/** `apiUrl` as in the target file, e.g. `http://127.0.0.1:8474`. Redirects are not followed. */
export const openTransport = (apiUrl: string, defaults: CallOptions = {}): Transport => {
  const base = apiUrl.replace(/\/+$/, "");
  // A wedged server must not hold a later call up behind an earlier one, hence no pipelining and short keep-alive.
  const agent = new Agent({ pipelining: 1, keepAliveTimeout: 1_000 });
  return {
    call: async (method, path, body, options = {}) => {
      const callMs = options.callMs ?? defaults.callMs ?? CONTROL_CALL_MS;
      const outer = options.signal ?? defaults.signal;
      const deadline = AbortSignal.timeout(callMs);
      const signal = outer === undefined ? deadline : AbortSignal.any([deadline, outer]);
      let status: number;
      let text: string;
      try {
        const answer = await request(`${base}${path}`, {
          method,
          signal,
          dispatcher: agent,
          ...(body === undefined
            ? {}
            : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
        });
        status = answer.statusCode;
        text = await answer.body.text();
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
