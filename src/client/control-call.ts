/**
 * Calls an API beside the deployment: control plane, toxiproxy, watchdog, Prometheus. Anything may answer there, so a
 * call has a deadline, a limit on the answer's length, and follows no redirects.
 */
import { Agent, type Dispatcher, request } from "undici";
import { shapeOfBody } from "../contract/foreign-text.ts";
import { parseJson } from "../contract/refusals.ts";
import { tokenOfDoor } from "../supervision/private-file.ts";
import { redactor } from "../supervision/redaction.ts";

export const CONTROL_CALL_MS = 5_000;
/** Enough for a list of thousands of proxies or series. */
const ANSWER_MOST_BYTES = 4 << 20;

export type ControlCall = {
  method?: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  headers?: Record<string, string>;
  body?: unknown;
  /** Deadline for the whole answer. */
  withinMs?: number;
  /** Limit for the head, and between two parts of the body; unbounded if absent. */
  silentMs?: number;
  mostBytes?: number;
  signal?: AbortSignal | undefined;
  dispatcher?: Dispatcher;
};

/** Ignores proxies that the environment names (`NODE_USE_ENV_PROXY`), as every driver does. */
const DIRECT = new Agent();

export const callControl = async (url: string, call: ControlCall = {}): Promise<{ status: number; text: string }> => {
  const { method = "GET", body, withinMs = CONTROL_CALL_MS, silentMs = 0, mostBytes = ANSWER_MOST_BYTES } = call;
  const { dispatcher = DIRECT } = call;
  const deadline = AbortSignal.timeout(Math.ceil(withinMs));
  const json = body === undefined ? {} : { "content-type": "application/json" };
  try {
    const answer = await request(url, {
      method,
      headers: { ...call.headers, ...json },
      body: body === undefined ? null : JSON.stringify(body),
      headersTimeout: silentMs,
      bodyTimeout: silentMs,
      signal: call.signal === undefined ? deadline : AbortSignal.any([deadline, call.signal]),
      dispatcher,
    });
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of answer.body as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      // The throw leaves the loop, which closes the connection.
      if (bytes > mostBytes) throw new Error(`the answer is longer than ${mostBytes >> 20} MiB`);
      chunks.push(chunk);
    }
    return { status: answer.statusCode, text: Buffer.concat(chunks).toString("utf8") };
  } catch (error) {
    throw deadline.aborted ? new Error(`no answer within ${withinMs} ms`) : error;
  }
};

/** A header with the stated token, else the one that a local service left for this user. `field` names its place. */
export const bearer = async (
  url: string,
  stated: string | null | undefined,
  { otherwise = "", field }: { otherwise?: string | undefined; field?: string },
): Promise<Record<string, string>> => {
  const token = stated ?? (await tokenOfDoor(url)) ?? otherwise;
  if (token === "") return {};
  redactor.register(token, field);
  return { authorization: `Bearer ${token}` };
};

/** The JSON object that a text holds. Throws for any other text, without a parser's message, which would quote it. */
export const objectIn = (text: string): object => {
  const json = parseJson(text);
  if (typeof json === "object" && json !== null) return json;
  throw new Error(`expected a JSON object; got ${shapeOfBody(text, json)}`);
};

/** The newest value of each series by an instant query; NaN if a value is not a number. */
export const queryPrometheus = async (url: string, query: string): Promise<number[]> => {
  const at = `${url.replace(/\/+$/, "")}/api/v1/query?query=${encodeURIComponent(query)}`;
  const { status, text } = await callControl(at);
  if (status !== 200) throw new Error(`status ${status}`);
  const series = (objectIn(text) as { data?: { result?: { value?: unknown[] }[] } }).data?.result;
  return Array.isArray(series) ? series.map((one) => Number(one?.value?.[1])) : [];
};
