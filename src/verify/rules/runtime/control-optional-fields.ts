/**
 * The optional fields of the control stream (items 90, 102): a call is served with each and without all of them. Their types are
 * not shown, so a refusal alone says nothing: only a field that is refused whatever stands in it, and always with the same words,
 * while the call without it is served, is one that the deployment does not take.
 */
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import { type Context, callersOf } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import type { TestCall } from "../../sending/test-call.ts";
import { isMalformed } from "../../wording.ts";
import { specimens } from "../streams/stream-specimens.ts";

const LAT_LON = { lat: 52.52, lon: 13.37 };
/** All that a place on the map could need, for whoever reads what it knows and leaves the rest. */
const ANY_PLACE = {
  center: [13.37, 52.52],
  coords: LAT_LON,
  position: LAT_LON,
  ...LAT_LON,
  lng: 13.37,
  latitude: 52.52,
  longitude: 13.37,
  zoom: 14,
  accuracy: 10,
  name: "Harbour",
  label: "Harbour",
  address: "Harbour 1",
  city: "Berlin",
  country: "DE",
  type: "Point",
  coordinates: [13.37, 52.52],
};

/** The likeliest first: those are sent together. `null` is last, for it may stand for a field that is not there. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  location: [
    LAT_LON,
    { lat: 52.52, lng: 13.37 },
    { latitude: 52.52, longitude: 13.37 },
    ANY_PLACE,
    [13.37, 52.52],
    { type: "Point", coordinates: [13.37, 52.52] },
    "52.52,13.37",
    "Berlin",
    {},
    7,
    null,
  ],
  map_zoom: [14, 14.5, "14", 3, { zoom: 14, level: 14, value: 14 }, [14], null],
  lang: ["en", "en-US", "de", "EN", ["en"], { code: "en" }, null],
  session_id: [
    "6f1d2c3b-4a59-4e68-8f70-1a2b3c4d5e6f",
    "floodgate",
    "6f1d2c3b4a594e688f701a2b3c4d5e6f",
    "01J9Z3K4M5N6P7Q8R9S0T1V2W3",
    7,
    {},
    [],
    null,
  ],
  auto_actions: [true, [], {}, "auto", "on", "all", "none", "always", 1, ["zoom"], { enabled: true }, null],
  app_snapshot: [{}],
};

type Fields = Readonly<Record<string, unknown>>;

const ask = (context: Context, more: Fields): Promise<Answer> => {
  const caller = callersOf(context, "ai")[0] as Pick<TestCall, "credential" | "origin">;
  const messages = [{ role: "user", content: "Where is the harbour?" }];
  const names = Object.keys(more);
  const of = names.length === 1 ? JSON.stringify(more) : names.join(", ");
  return context.send({
    route: "chat.control",
    ...caller,
    body: { text: JSON.stringify({ messages, ...more }), is: "ok" },
    what: names.length === 0 ? "messages alone" : `messages and ${of}`,
    open: true,
  });
};

/** A deployment may take the ids alone that it gave out. */
const sessionIds = async (context: Context): Promise<unknown[]> => {
  const sent = (await specimens(context)).flatMap(({ sse }) => sse.frames.map(({ json }) => json));
  return sent.flatMap((json) => (json as { session_id?: unknown } | null | undefined)?.session_id ?? []).slice(0, 1);
};

/** Under these names a refusal repeats what was sent. */
const REPEATED = new Set(["input", "value", "received"]);

const reasonOf = ({ fields: { detail, error, errors } }: Answer, value: unknown): string => {
  const text = JSON.stringify([detail, error, errors], (name, inner) => (REPEATED.has(name) ? "..." : inner));
  return typeof value === "string" ? text.replaceAll(JSON.stringify(value), '"..."') : text;
};

type Refused = { answer: Answer; reason: string };

/** Every value in turn; `null` as soon as one is not refused as malformed. */
const refusedAlways = async (context: Context, name: string, checks: Checks): Promise<Refused[] | null> => {
  const seen: Refused[] = [];
  const values = [...(VALUES[name] ?? []), ...(name === "session_id" ? await sessionIds(context) : [])];
  for (const value of values) {
    const answer = await ask(context, { [name]: value });
    if (answer.transient) checks.unclear(inWords(answer));
    if (!isMalformed(answer)) return null;
    seen.push({ answer, reason: reasonOf(answer, value) });
  }
  return seen;
};

/** Which of the fields is not taken, where all together are refused. */
const judgeEach = async (context: Context, checks: Checks, bare: Answer): Promise<void> => {
  for (const name of Object.keys(VALUES)) {
    const seen = await refusedAlways(context, name, checks);
    const last = seen?.at(-1)?.answer;
    if (seen === null || last === undefined) continue;
    const isSame = new Set(seen.map(({ reason }) => reason)).size === 1;
    // What an application's snapshot holds, nobody outside it can guess.
    if (!isSame || seen.length === 1) {
      checks.note(`${name}: ${inWords(last)}, its type is not shown`);
      continue;
    }
    const got = `${bare.outcome} for messages alone, and ${inWords(last)} with ${name}, whatever stands in it (${seen.length} tries)`;
    checks.breach({ expected: `the optional field ${name} to be taken`, got, steps: [bare, last], accepts: null });
  }
};

const controlOptions: Rule = {
  id: "control-optional-fields",
  level: "must",
  spec: [90, 102],
  title: "the control stream is served with and without its optional fields",
  phase: "lattice",
  needs: { anyOf: ["publishable", "server"] },
  cost: { calls: 2 },
  run: async (context) => {
    const checks = new Checks("the same with the optional fields and without");
    const likely = Object.fromEntries(Object.entries(VALUES).map(([name, [value]]) => [name, value]));
    const bare = await ask(context, {});
    const full = await ask(context, likely);
    for (const answer of [bare, full]) {
      if (answer.transient) checks.unclear(inWords(answer));
      else if (isAdmitted(answer)) checks.fine();
      else if (!isMalformed(answer)) checks.note(`${answer.testCall.what}: ${inWords(answer)}`);
    }
    if (isMalformed(bare) && isAdmitted(full)) {
      const got = `${inWords(bare)} for messages alone, and ${full.outcome} for ${full.testCall.what}`;
      const expected = "none of the optional fields to be needed";
      checks.breach({ expected, got, steps: [full, bare], accepts: [ANY_SUCCESS] });
    } else if (isMalformed(full) && isAdmitted(bare)) {
      checks.note("not all of the likeliest values are taken");
      await judgeEach(context, checks, bare);
    } else if (isMalformed(bare)) checks.note(`refused with and without: ${inWords(bare)}`);
    return checks.result("the types of the fields are not shown in the specification");
  },
};

export const CONTROL_FIELD_RULES: readonly Rule[] = [controlOptions];
