/**
 * Bodies that are good but for one odd value (items 202, 223, 232): what a parser, a database or a log behind the service may
 * stumble over. On the exchange the value stands beside the product, on the control stream it is what the user says.
 */
import type { RouteName } from "../../../contract/routes.ts";
import type { TestCall } from "../../sending/test-call.ts";

type Body = NonNullable<TestCall["body"]>;
type OddBody = { readonly what: string; readonly body: Body; readonly once?: true };

/** A size that servers commonly stop at; barely more, so that the answer is not lost with the rest of the body. */
const MIB = 1 << 20;
const LONG_TEXT = 20_000;

type Frame = (value: string, extra?: string) => string;
const FRAMES: Readonly<Record<"exchange" | "control", Frame>> = {
  exchange: (value, extra = "") => `{"product": "chat", "floodgate": ${value}${extra}}`,
  control: (value, extra = "") => {
    const isText = value.startsWith('"');
    const content = isText ? value : '"Where is the harbour?"';
    return `{"messages": [{"role": "user", "content": ${content}}]${isText ? "" : `, "floodgate": ${value}`}${extra}}`;
  },
};

const ok = (text: string, more: Partial<Body> = {}): Body => ({ text, is: "ok", ...more });

export const oddBodies = (where: "exchange" | "control"): readonly OddBody[] => {
  const frame = FRAMES[where];
  const long = (n: number): string => `"${"a".repeat(n)}"`;
  const shown = (words: string): { shown: string } => ({ shown: frame(`"<${words}>"`) });
  // The letter of that number in Latin-1 is the byte 255, which stands nowhere in UTF-8.
  const latin = frame('"caf\u00ff"');
  return [
    // An upload that is too long is often cut off, and would be time after time.
    { what: "a body over 1 MiB", body: ok(frame(long(MIB)), shown(`${MIB} letters`)), once: true },
    { what: `a text of ${LONG_TEXT} characters`, body: ok(frame(long(LONG_TEXT)), shown(`${LONG_TEXT} letters`)) },
    { what: "the number 1e400", body: ok(frame("1e400")) },
    { what: "the number 99999999999999999999", body: ok(frame("99999999999999999999")) },
    {
      what: "a text with a byte that is no UTF-8",
      body: ok(latin, { bytes: Buffer.from(latin, "latin1"), ...shown("the byte 255") }),
    },
    { what: "a text with half a surrogate pair", body: ok(frame('"\\ud800"')) },
    { what: "a text with a null character", body: ok(frame('"\\u0000"')) },
    { what: "a member named __proto__", body: ok(frame("7", ', "__proto__": {"floodgate": 7}')) },
  ];
};

/** Texts that some parsers take for JSON and others do not, and members that are not what they seem; each is sent to one route. */
export const oddTexts = (): readonly (OddBody & { readonly route: RouteName })[] => {
  const control = FRAMES.control('"Where is the harbour?"');
  const places = '{"places": [{"name": "Station"}, {"name": "Market"}], "profile": "walking", "raw_query": "there"}';
  const broken = (text: string): Body => ({ text, is: "malformed" });
  return [
    { route: "sdk.sessions", what: "the same member twice", body: ok('{"product": "chat", "product": "chat"}') },
    // No key of a hash table, and a name that every object of some languages has.
    { route: "sdk.sessions", what: "a product that is a list", body: ok('{"product": ["chat"]}') },
    { route: "sdk.sessions", what: "a product that is an object", body: ok('{"product": {"chat": 1}}') },
    { route: "sdk.sessions", what: "a product named constructor", body: ok('{"product": "constructor"}') },
    { route: "sdk.sessions", what: "a member that is NaN", body: broken(FRAMES.exchange("NaN")) },
    { route: "chat.control", what: "letters behind the body", body: broken(`${control}}] more`) },
    { route: "chat.route", what: "a byte order mark before the body", body: ok(`\ufeff${places}`) },
    { route: "design.apply", what: "a dataset that is -Infinity", body: broken('{"dataset": {"n": -Infinity}}') },
  ];
};
