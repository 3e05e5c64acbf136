/**
 * A credential has no place in an answer: it would stand in every log and cache on the way (item 50 shows a key once, at its
 * creation). No sentence of the specification forbids it, so this is no must. Nothing is sent for it.
 */
import { KEY_ROLES, type KeyRole } from "../../../target/target.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";
import { role } from "../../sending/test-call.ts";

/** Shorter ones may stand in an answer by chance. */
const LENGTH_MIN = 20;
const LOOKS_SECRET = /svc_|eyJ/;

/** Keys that this run has used, sessions that it was given, and whatever it sent in their place. */
const sentSecrets = async (context: Context): Promise<Set<string>> => {
  const secrets = new Set<string>();
  const used = (name: KeyRole): boolean =>
    context.answers.some(({ testCall: { credential } }) => "of" in credential && credential.of === role(name));
  for (const name of KEY_ROLES) if (context.has(name) && used(name)) secrets.add(await context.secretOf(name));
  for (const { fields, testCall } of context.answers) {
    if (typeof fields.session_token === "string") secrets.add(fields.session_token);
    if (testCall.secret !== undefined) secrets.add(testCall.secret.value);
  }
  return new Set([...secrets].filter((secret) => secret.length >= LENGTH_MIN && LOOKS_SECRET.test(secret)));
};

/** What of an answer has no reason to hold a credential: not where a session or a key is handed out. */
const textsOf = (answer: Answer): { where: string; text: string }[] => {
  const { route } = answer.testCall;
  const handsOut = route.startsWith("keys.") || (route === "sdk.sessions" && isAdmitted(answer));
  const headers = Object.entries(answer.headers).map(([name, text]) => ({ where: `the header ${name}`, text }));
  return handsOut ? headers : [...headers, { where: "the body", text: answer.text }];
};

const stay: Rule = {
  id: "credentials-are-not-echoed",
  level: "should",
  spec: [50],
  title: "no answer repeats a credential, in its headers or in its body",
  phase: "every-answer",
  needs: {},
  cost: { calls: 0 },
  run: async (context) => {
    const checks = new Checks(stay.title);
    const secrets = [...(await sentSecrets(context))];
    for (const answer of context.answers) {
      const found = textsOf(answer).find(
        ({ text }) => LOOKS_SECRET.test(text) && secrets.some((secret) => text.includes(secret)),
      );
      if (found === undefined) checks.fine();
      else {
        checks.breach({
          expected: "no credential in an answer",
          got: `one stands in ${found.where} of the answer to ${answer.request.method} ${new URL(answer.request.url).pathname}`,
          steps: [answer],
          accepts: null,
        });
      }
    }
    return checks.result();
  },
};

export const ECHO_RULES: readonly Rule[] = [stay];
