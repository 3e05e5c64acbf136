/**
 * Event streams: the events of each of the three kinds, the pieces that they are sent in, and how they end. Defects of event
 * names, framing, buffering or a stream's end belong here.
 */
import type { ServerResponse } from "node:http";
import { constants, createGzip } from "node:zlib";
import type { ApiState } from "./state.ts";

const framesOf = ({ is, has }: ApiState, route: string): string[] => {
  const own = route.split("/")[2] as "control" | "summary" | "button";
  const asControl = has("speaks-control-everywhere") || (has("summary-speaks-control") && own === "summary");
  const kind = asControl ? "control" : own;
  const NL = is("crlf") ? "\r\n" : "\n";
  const name = { control: "token", summary: "summary_delta", button: "chunk" }[kind];
  const last = { control: "done", summary: "summary_done", button: "end" }[kind];
  const field = { control: "text", summary: "delta", button: "content" }[kind];
  const frame = (event: string, data: unknown): string =>
    has("nameless-events")
      ? `data: ${JSON.stringify(data)}${NL}${NL}`
      : `event: ${event}${NL}data: ${JSON.stringify(data)}${NL}${NL}`;
  const leak = has("shows-another-key") ? "svc_sk_live_4f0c6a1b92d83e57" : "";
  const frames = Array.from({ length: 6 }, (_, i) => frame(name, { type: name, [field]: `w\u00e9${i} ${leak}` }));
  if (own === "control") frames.splice(3, 0, frame("quota", { limit: 10, used: 1, remaining: 9 }));
  if (is("extra-events"))
    frames.splice(
      1,
      0,
      `: ping${NL}${NL}`,
      `event: nothing${NL}${NL}`,
      frame("heartbeat", { n: 1 }),
      frame("citation", { url: "x" }),
    );
  if (has("ends-with-done-text")) return [...frames, `data: [DONE]${NL}${NL}`];
  if (!has("error-events")) return [...frames, frame(last, { type: last })];
  const error = { type: "error", message: "m", code: "c" };
  frames.push(frame("error", has("error-without-partial-text") ? error : { ...error, partial_text: "w0" }));
  if (has("talks-after-error")) frames.push(frame(name, { type: name, [field]: "more" }));
  return frames;
};

const typeOf = ({ is, has }: ApiState): string => {
  if (has("stream-as-text")) return "text/plain";
  return is("charset") ? "text/event-stream; charset=utf-8" : "text/event-stream";
};

const inTinyPieces = (text: string): string[] => text.match(/[\s\S]{1,7}/g) ?? [];

/** Calls `done` once, when either side has ended the stream. */
export const stream = (api: ApiState, res: ServerResponse, route: string, done: () => void): void => {
  const { is, has } = api;
  const frames = framesOf(api, route);
  const isCoded =
    (has("compresses-streams-late") || is("compresses-streams")) && res.req.headers["accept-encoding"] !== "identity";
  const coder = isCoded
    ? createGzip({ flush: has("compresses-streams-late") ? constants.Z_NO_FLUSH : constants.Z_SYNC_FLUSH })
    : undefined;
  coder?.pipe(res);
  const out = coder ?? res;
  res.writeHead(200, { "Content-Type": typeOf(api), ...(isCoded ? { "Content-Encoding": "gzip" } : {}) });
  res.flushHeaders();
  let i = 0;
  const cut = api.streams++ % 3 === 0;
  let over = false;
  const finish = (): void => {
    if (over) return;
    over = true;
    clearInterval(timer);
    done();
  };
  const send = (piece: string): void => {
    if (has("streams-latin1")) out.write(Buffer.from(piece, "latin1"));
    else if (is("splits-letters")) for (const byte of Buffer.from(piece)) out.write(Uint8Array.of(byte));
    else out.write(piece);
  };
  const pieces = is("tiny-chunks") ? frames.flatMap(inTinyPieces) : frames;
  const perTick = Math.ceil(pieces.length / frames.length);
  const timer = setInterval(() => {
    if (has("buffers") && i < pieces.length - perTick) {
      i += perTick;
      return;
    }
    const text = has("buffers") ? pieces.join("") : pieces.slice(i, i + perTick).join("");
    i += perTick;
    if (is("tiny-chunks")) for (const piece of inTinyPieces(text)) send(piece);
    else send(text);
    if ((has("cuts-streams") || (is("cuts-a-stream-now-and-then") && cut)) && i > pieces.length / 2) {
      finish();
      res.destroy();
      return;
    }
    if (i < pieces.length) return;
    finish();
    if (is("cuts-after-the-last-event")) {
      setTimeout(() => res.destroy(), 20);
      return;
    }
    out.end();
  }, api.streamMs / frames.length);
  res.on("close", () => {
    if (has("keeps-the-slot-of-a-gone-client") && !over) {
      over = true;
      clearInterval(timer);
      return;
    }
    finish();
  });
};
