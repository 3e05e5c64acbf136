/**
 * The three streams in the description of the API: one schema for each event, its data described as the JSON that it is
 * (specification section 6; items 92-95, 104-105, 166-176). More names may come with no new version (item 15), so a name
 * that is not listed is no fault.
 */
import { type TSchema, Type } from "typebox";
import type { Stream } from "../../../contract/routes.ts";
import { ERROR_EVENT, VOCABULARIES } from "../../../contract/streams.ts";

const Whole = Type.Integer({ minimum: 0 });

/** What events carry beside `type`, which repeats the event's name. Only that of `error` is in the specification (item 167). */
const FIELDS: Readonly<Record<string, Record<string, TSchema>>> = {
  token: { text: Type.String() },
  action: { action: Type.String(), args: Type.Object({}) },
  quota: { meter: Type.Literal("chat_turns"), limit: Whole, used: Whole, remaining: Whole },
  done: { session_id: Type.String() },
  summary_delta: { delta: Type.String() },
  summary_done: { summary_type: Type.Enum(["poi", "building"]) },
  chunk: { content: Type.String() },
  end: {},
  [ERROR_EVENT]: {
    message: Type.String(),
    code: Type.String({ minLength: 1 }),
    partial_text: Type.String(),
  },
};

/** Every event that a stream may have, the terminal ones last. */
export const eventNames = (kind: Stream): string[] => {
  const { content, quota, done } = VOCABULARIES[kind];
  return [...content, ...(quota ? ["quota"] : []), done, ERROR_EVENT];
};

/** The data of one event, parsed. */
const eventData = (name: string): TSchema =>
  Type.Object({ type: Type.Literal(name), ...FIELDS[name] }, name === ERROR_EVENT ? {} : { "x-harness-choice": true });

/** In OpenAPI 3.1 the schema of an event stream is that of one event: its name, and its data as text. */
export const streamContent = (kind: Stream): Record<string, unknown> => {
  const names = eventNames(kind);
  const { done } = VOCABULARIES[kind];
  const known = names.map((name) => ({
    properties: {
      event: { const: name },
      data: { type: "string", contentMediaType: "application/json", contentSchema: eventData(name) },
    },
  }));
  return {
    "text/event-stream": {
      schema: {
        type: "object",
        description: `${done} and ${ERROR_EVENT} end the stream.`,
        required: ["event", "data"],
        properties: { event: { type: "string" }, data: { type: "string" } },
        anyOf: [...known, { properties: { event: { not: { enum: names } } } }],
      },
    },
  };
};
