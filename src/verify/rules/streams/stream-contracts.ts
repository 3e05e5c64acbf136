/**
 * The three streams speak three contracts (items 93-95; A10): distinguished by the names of their events and the fields of their
 * payloads, which is all that a client sees of a contract.
 */
import { isObject } from "../../../contract/envelopes.ts";
import { EVENT_NAMES_MOST, foreignName } from "../../../contract/foreign-text.ts";
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import { isStream, SHARED_EVENTS, SPECIMENS_COST, type Specimen, specimens } from "./stream-specimens.ts";

const payloadOf = (json: unknown): string => {
  if (!isObject(json)) return typeof json;
  // Where events share one name, a text under `type` distinguishes them.
  const kind = typeof json.type === "string" ? `${json.type}: ` : "";
  return kind + Object.keys(json).sort().join(",");
};

/** Names and the fields of their payloads: what makes up a contract that a client can see (A10). */
const contractOf = ({ sse }: Specimen): { names: string; shown: string; payloads: string } => {
  const own = sse.frames.filter(({ event }) => !SHARED_EVENTS.has(event));
  const names = [...new Set(own.map(({ event }) => event ?? ""))].sort();
  const fields = own.map(({ event, json }) => `${event}(${payloadOf(json)})`);
  const shown = names.slice(0, EVENT_NAMES_MOST).map(foreignName).join(" ");
  return { names: names.join(" "), shown, payloads: [...new Set(fields)].sort().join(" ") };
};

export const streamContracts: Rule = {
  id: "stream-contracts-differ",
  level: "must",
  spec: [93, 94, 95],
  title: "the three streams speak three different contracts",
  phase: "streams",
  needs: { anyOf: ["publishable", "server"] },
  cost: SPECIMENS_COST,
  run: async (context) => {
    const checks = new Checks("no two streams with the same event names and payload fields");
    const seen = (await specimens(context)).filter((specimen) => isStream(specimen) && specimen.sse.frames.length > 0);
    for (const [i, one] of seen.entries()) {
      for (const other of seen.slice(i + 1)) {
        const [a, b] = [contractOf(one), contractOf(other)];
        const same = a.payloads === b.payloads && a.names === b.names;
        checks.require(
          !same,
          other.answer,
          `another contract than that of the ${one.stream} stream`,
          `both have the events ${a.shown}, with the same fields`,
        );
        if (!same && a.names === b.names) checks.note(`${one.stream} and ${other.stream} differ in payloads only`);
      }
    }
    return checks.result("fewer than two streams were opened");
  },
};
