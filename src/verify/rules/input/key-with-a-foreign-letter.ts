/**
 * Credentials with a letter outside ASCII (items 58, 153, 190, 223): HTTP lets such bytes through, and what takes a header for
 * ASCII or compares texts of bytes stumbles over them. That it does not break is judged by `hostile-input`, with the same calls.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { UNKNOWN_KEYS } from "../../../workload/request.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, inWords } from "../../sending/answer.ts";
import { answerTo } from "../../sending/sent-once.ts";
import type { Form, TestCall } from "../../sending/test-call.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");

/** Headers are sent as Latin-1: the byte of that letter, and the two bytes of the same letter in UTF-8. */
const LETTERS = [
  { letter: "\u00e9", what: "one byte above 127" },
  { letter: "\u00c3\u00a9", what: "two bytes of UTF-8" },
] as const;

const testCallsOf = (context: Context): TestCall[] => {
  const forms: readonly Form[] = ["x-api-key", "bearer"];
  return LETTERS.flatMap(({ letter, what }, i) => {
    const common = (
      key: string,
      form: Form | undefined,
    ): Pick<TestCall, "credential" | "secret" | "form" | "what" | "once" | "open"> => ({
      credential: { as: "unknown" },
      secret: { value: key + letter, variable: "$NON_ASCII_KEY" },
      ...(form === undefined ? {} : { form }),
      what: `a key with ${what} at its end`,
      once: true,
      open: true,
    });
    return [
      { route: "design.styles", origin: "none", ...common(UNKNOWN_KEYS.server, forms[i]) },
      {
        route: "sdk.sessions",
        ...common(UNKNOWN_KEYS.publishable, forms[1 - i]),
        origin: "foreign",
        originValue: context.keyRole("publishable")?.origin ?? "https://app.example",
        product: "chat",
      },
    ];
  });
};

/** Sent by whichever rule asks first. */
export const foreignLetters = (context: Context): Promise<Answer[]> =>
  context.once("keys with letters outside ASCII", async () => {
    const answers: Answer[] = [];
    await context.each(testCallsOf(context), async (testCall) => answers.push(await answerTo(context, testCall)));
    return answers;
  });

const refused: Rule = {
  id: "key-with-a-foreign-letter",
  level: "must",
  spec: [58, 153, 190],
  title: "an unknown key with a letter outside ASCII is answered 401, as any other",
  phase: "lattice",
  needs: {},
  cost: { calls: 4, shared: "foreign letters" },
  run: async (context) => {
    const checks = new Checks("401");
    for (const answer of await foreignLetters(context)) {
      const { status, testCall, outcome } = answer;
      // What stands before the service may refuse such a head altogether.
      if (status === null || status === 400 || /^edge 4/.test(outcome))
        checks.note(`${testCall.what}: ${inWords(answer)}`);
      else if (answer.transient) checks.unclear(inWords(answer));
      else if (status >= 500) checks.note(`${testCall.what}: ${status}, of which hostile-input says more`);
      else checks.expect(answer, { accepts: [UNAUTHENTICATED] });
    }
    return checks.result("no such key was looked at");
  },
};

export const FOREIGN_LETTER_RULES: readonly Rule[] = [refused];
