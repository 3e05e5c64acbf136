/** The terminal error event of a stream (items 167-169, 174-175), wherever in the run one came. */

import { isObject } from "../../../contract/envelopes.ts";
import { shapeOf } from "../../../contract/foreign-text.ts";
import { ERROR_EVENT } from "../../../contract/streams.ts";
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import type { Answer } from "../../sending/answer.ts";
import { SPECIMENS_COST, type StreamRule, specimens } from "./stream-specimens.ts";

/** Every error event that came during the whole run: nothing from outside makes one come. */
const errorEvents = (rule: StreamRule, judge: (checks: Checks, answer: Answer, data: unknown) => void): Rule => ({
  ...rule,
  phase: "every-answer",
  needs: { anyOf: ["publishable", "server"] },
  cost: SPECIMENS_COST,
  run: async (context) => {
    await specimens(context);
    const checks = new Checks(rule.title);
    for (const answer of context.answers) {
      const kept = answer.received.seen?.kept ?? [];
      const event = kept.find(({ name }) => name === ERROR_EVENT);
      if (event === undefined) continue;
      let data: unknown;
      try {
        data = JSON.parse(event.data);
      } catch {
        data = undefined;
      }
      judge(checks, answer, data);
    }
    const result = checks.result("no error event came, and nothing from outside makes one come");
    return result.verdict === "skipped" ? { ...result, idle: true } : result;
  },
});

const errorEventFields = errorEvents(
  {
    id: "stream-error-event",
    level: "must",
    spec: [167, 169, 174, 175],
    title: "an error event carries type error, message, code and partial_text",
  },
  (checks, answer, data) => {
    const fields = isObject(data) ? data : {};
    const texts = ["message", "code", "partial_text"].filter((name) => typeof fields[name] !== "string");
    checks.require(
      fields.type === "error" && texts.length === 0 && fields.code !== "",
      answer,
      "{ type: 'error', message, code, partial_text }, the last three texts",
      `it was ${shapeOf(data)}`,
    );
  },
);

const errorEventIsLast = errorEvents(
  {
    id: "stream-nothing-after-error",
    level: "must",
    spec: [168],
    title: "an error event ends its stream: nothing comes after it",
  },
  (checks, answer) => {
    const kept = answer.received.seen?.kept ?? [];
    const at = kept.findIndex(({ name }) => name === ERROR_EVENT);
    const late = kept.slice(at + 1).map(({ name }) => name);
    checks.require(
      late.length === 0,
      answer,
      "the end of the stream",
      `${late.length} more events came: ${shapeOf(late[0])}`,
    );
  },
);

export const STREAM_ERROR_RULES: readonly Rule[] = [errorEventFields, errorEventIsLast];
