/** What a request carries, read only when the core asks for it (items 83, 202-203, 232): JSON, or malformed. */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { Type } from "typebox";
import { Compile, type Validator } from "typebox/schema";
import type { BodyError } from "../../contract/refusals.ts";
import { ROUTE_NAMES, type RouteName } from "../../contract/routes.ts";
import type { BodyRead } from "../../core/call.ts";
import { placeOf, SHAPES } from "../schemas.ts";

const BODY_MAX_BYTES = 1_048_576;

/** The largest body whose faults are all named; for a larger one, naming them would cost more than reading it. */
const EXPLAINED_MAX_BYTES = 65_536;

const malformed = (loc: BodyError["loc"], msg: string, type: string): BodyRead => ({
  ok: false,
  errors: [{ loc, msg, type }],
});

const explain = (validator: Validator, place: string, value: unknown): BodyError[] =>
  validator.Errors(value)[1].map(({ instancePath, message, keyword }) => ({
    loc: [place, ...instancePath.split("/").slice(1)],
    msg: message ?? "does not fit the schema",
    type: keyword,
  }));

const check = (validator: Validator, place: string, value: unknown, bytes: number): BodyRead => {
  if (validator.Check(value)) return { ok: true, value };
  if (bytes > EXPLAINED_MAX_BYTES) return malformed([place], "does not fit the schema", "schema");
  return { ok: false, errors: explain(validator, place, value) };
};

const readJson = (validator: Validator, body: Buffer, mayBeEmpty: boolean): BodyRead => {
  if (body.length === 0 && mayBeEmpty) return { ok: true, value: null };
  if (!isUtf8(body)) return malformed(["body"], "expected UTF-8", "encoding");
  let value: unknown;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch {
    return malformed(["body"], "expected JSON", "json");
  }
  return check(validator, "body", value, body.length);
};

/** Fields of a query or a path that are numbers, written as in JSON; any other text stays text and fails the check. */
const NUMBERS = new Set(["lat", "lon", "z", "x", "y"]);
const NUMBER = /^-?\d{1,40}(\.\d{1,400})?([eE][+-]?\d{1,4})?$/;

const readFields = (validator: Validator, place: string, fields: Record<string, unknown>): BodyRead => {
  const value: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(fields)) {
    const isNumber = NUMBERS.has(name) && typeof text === "string" && NUMBER.test(text);
    value[name] = isNumber ? Number(text) : text;
  }
  return check(validator, place, value, 0);
};

const NOTHING: BodyRead = { ok: true, value: null };
const READ = new Map(
  ROUTE_NAMES.map((name) => {
    const validator: Validator = Compile(SHAPES[name].request ?? Type.Unknown());
    return [name, { place: placeOf(name), validator }];
  }),
);

/** A request as Fastify has it. */
export type Asked = { readonly raw: IncomingMessage; readonly query: unknown; readonly params: unknown };

/** Calls `done` once: with what was read, or with `null` if the body is too large. Never if the client leaves. */
export const readRequest = (name: RouteName, asked: Asked, done: (read: BodyRead | null) => void): void => {
  const { place, validator } = READ.get(name) as NonNullable<ReturnType<typeof READ.get>>;
  if (place === null) done(NOTHING);
  else if (place === "query") done(readFields(validator, "query", asked.query as Record<string, unknown>));
  else if (place === "params") done(readFields(validator, "path", asked.params as Record<string, unknown>));
  else {
    const mayBeEmpty = name === "maps.loads";
    collectBody(asked.raw, (body) => done(body === null ? null : readJson(validator, body, mayBeEmpty)));
  }
};

const collectBody = (request: IncomingMessage, done: (body: Buffer | null) => void): void => {
  /** Emptied once read, because the stream that answers may live for minutes. */
  let chunks: Buffer[] = [];
  let bytes = 0;
  const finish = (body: Buffer | null): void => {
    chunks = [];
    done(body);
  };
  const onData = (chunk: Buffer): void => {
    const isFirstBeyond = bytes <= BODY_MAX_BYTES && bytes + chunk.length > BODY_MAX_BYTES;
    bytes += chunk.length;
    // The rest of a body that is too large is read and discarded, within the server's time limit.
    if (isFirstBeyond) finish(null);
    else if (bytes <= BODY_MAX_BYTES) chunks.push(chunk);
  };
  const onEnd = (): void => {
    if (bytes <= BODY_MAX_BYTES) finish(Buffer.concat(chunks));
  };
  if (Number(request.headers["content-length"]) > BODY_MAX_BYTES) finish(null);
  // A request without a body emits no events (`optimizeEmptyRequests` of the listener).
  else if (request.readableEnded) finish(Buffer.alloc(0));
  // Without a listener for errors, a client that leaves in the middle would be an uncaught one.
  else
    request
      .on("data", onData)
      .on("end", onEnd)
      .on("error", () => {});
};
