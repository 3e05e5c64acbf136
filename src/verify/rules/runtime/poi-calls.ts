/**
 * Calls for a place that differ in one optional parameter (item 99), and what a service itself says of one that it does not
 * take. Apart from the rules, because two of them look at the same calls.
 */
import { type Context, callersOf } from "../../context.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";
import type { TestCall } from "../../sending/test-call.ts";
import { isMalformed, reasonIn } from "../../wording.ts";

export const isServed = (answer: Answer): boolean => isAdmitted(answer) || answer.status === 404;

const REQUIRED = { lat: "52.52", lon: "13.37", name: "Cafe", category: "cafe" };
const ADDRESS = "https://cafe.example/1";
/** Values that nobody would be surprised by; the first of each go together. */
export const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
  lang: ["en", "en-US", "de", "fr", "es", "EN"],
  source: ["osm", "search", "map", "1", ADDRESS],
  id: ["1", "node/1", "cafe", "Q42", "00000000-0000-4000-8000-000000000001", ADDRESS],
  poi_context: ["cafe", "{}", "1", '{"name":"Cafe"}', ADDRESS],
};

const askPoi = async (
  context: Context,
  more: Readonly<Record<string, string>>,
  required: Readonly<Record<string, string>> = REQUIRED,
): Promise<Answer> => {
  const caller = callersOf(context, "ai")[0] as { credential: TestCall["credential"]; origin: "listed" | "none" };
  const names = Object.keys(more).join(", ");
  return context.send({
    route: "poi.enrich",
    ...caller,
    path: `/retrieval/poi/enrich?${new URLSearchParams({ ...required, ...more })}`,
    what: names === "" ? "the required parameters alone" : `the required parameters and ${names}`,
    open: true,
  });
};

/** `taken`: the first of its values that was not called malformed; `refused`: the others, in order. */
type Tried = { name: string; taken: Answer | null; refused: Answer[] };
type PoiCalls = { bare: Answer; full: Answer; tried: readonly Tried[] };

/** One parameter at a time, where all of them together were refused, or none was. */
export const poiCalls = (context: Context): Promise<PoiCalls> =>
  context.once("optional parameters of a place", async () => {
    const first = Object.fromEntries(Object.entries(OPTIONAL).map(([name, [value = ""]]) => [name, value]));
    const bare = await askPoi(context, {});
    const full = await askPoi(context, first);
    const tried: Tried[] = [];
    // Which one of them is needed is the question here; below, which one is not taken.
    const inDoubt = isMalformed(bare) ? !isServed(full) : isMalformed(full) && isServed(bare);
    for (const [name, values] of inDoubt ? Object.entries(OPTIONAL) : []) {
      const refused: Answer[] = [];
      let taken: Answer | null = null;
      for (const value of values) {
        const answer = await askPoi(context, { [name]: value });
        if (isMalformed(answer)) refused.push(answer);
        else taken = answer;
        if (taken !== null) break;
      }
      tried.push({ name, taken, refused });
      if (isMalformed(bare) && taken !== null && isServed(taken)) break;
    }
    return { bare, full, tried };
  });

export const neverTaken = ({ tried }: PoiCalls): Tried[] => tried.filter(({ taken }) => taken === null);

const UNLISTED = "floodgate_option";

/**
 * Whether a service itself says that it does not know a parameter: it refuses it in the words in which it refuses one that
 * is not listed, and not in those for a value that is malformed. A list of values that we did not guess is answered otherwise.
 */
export const saysUnknown = async (context: Context, { name, refused }: Tried): Promise<Answer | null> => {
  const [first] = refused;
  const [value = ""] = OPTIONAL[name] ?? [];
  if (first === undefined) return null;
  const unlisted = await askPoi(context, { [UNLISTED]: value });
  const malformed = await askPoi(context, {}, { ...REQUIRED, lat: "north" });
  if (!isMalformed(unlisted) || !isMalformed(malformed)) return null;
  const said = reasonIn(first, name, value);
  if (said !== reasonIn(unlisted, UNLISTED, value)) return null;
  return said === reasonIn(malformed, "lat", "north") ? null : unlisted;
};
