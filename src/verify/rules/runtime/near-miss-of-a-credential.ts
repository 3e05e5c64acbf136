/** Credentials that are almost good ones (items 2, 125, 153, 190): keys with an end cut off, in the other case, out of place. */
import { outcomeOf } from "../../../contract/refusals.ts";
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import { isAdmitted } from "../../sending/answer.ts";
import { exchangeCall, type TestCall } from "../../sending/test-call.ts";

const UNAUTHENTICATED = outcomeOf("unauthenticated");

/** So much of a key's end was surely drawn by chance: before it an organization's name may stand. */
const DRAWN = 12;

/** Every letter of what follows the prefix and its word in the other case; `null` where there is none. */
const inOtherCase = (key: string): { value: string; isEvident: boolean } | null => {
  const head = /^svc_(?:pk|sk)_(?:(?:live|test)_)?/.exec(key)?.[0] ?? "";
  const rest = key.slice(head.length);
  if (!/[a-z]/i.test(rest)) return null;
  const swapped = rest.replace(/[a-z]/gi, (letter) =>
    letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase(),
  );
  // Hexadecimal digits and the like mean the same in either case; an alphabet that has both cases distinguishes them.
  const end = rest.slice(-DRAWN);
  return { value: head + swapped, isEvident: /[a-z]/.test(end) && /[A-Z]/.test(end) };
};

type NearMiss = { testCall: TestCall; isOpen?: true };

const nearMissesOf = async (context: Context): Promise<NearMiss[]> => {
  const misses: NearMiss[] = [];
  const add = (testCall: TestCall, value: string, what: string, more: Omit<NearMiss, "testCall"> = {}): void => {
    const secret = { value, variable: "$ALMOST_A_KEY" };
    misses.push({ testCall: { ...testCall, credential: { as: "unknown" }, secret, what, open: true }, ...more });
  };
  const styles: TestCall = { route: "design.styles", credential: { as: "unknown" }, origin: "none" };
  for (const name of ["server", "publishable"] as const) {
    if (!context.has(name)) continue;
    const key = await context.secretOf(name);
    const origin = context.keyRole("publishable")?.origin;
    const mint = async (): Promise<TestCall> => ({
      ...exchangeCall("publishable", "listed", "chat", { form: (await context.exchangeForms())[0] ?? "bearer" }),
      ...(origin === undefined ? {} : { originValue: origin }),
    });
    const testCall = name === "server" ? styles : await mint();
    add(testCall, key.slice(0, -1), `the ${name} key without its last character`);
    add(testCall, `${key}x`, `the ${name} key and one character more`);
    add(testCall, `${key}.`, `the ${name} key and a full stop`);
    const swapped = inOtherCase(key);
    if (swapped === null) continue;
    const more = swapped.isEvident ? {} : { isOpen: true as const };
    add(testCall, swapped.value, `the ${name} key with its letters in the other case`, more);
  }
  if (context.has("admin_pro")) add(styles, await context.secretOf("admin_pro"), "an administrator's token");
  return misses;
};

/** Good keys with an end cut off or put on, in the other case, and an administrator's token where a key belongs (items 2, 125). */
export const nearMisses: Rule = {
  id: "near-miss-of-a-credential",
  level: "must",
  spec: [2, 153, 190],
  title: "a key that is almost a good one, or an administrator's token, is answered 401",
  phase: "lattice",
  needs: { anyOf: ["server", "publishable"] },
  cost: { calls: 9 },
  run: async (context) => {
    const checks = new Checks(UNAUTHENTICATED);
    await context.each(await nearMissesOf(context), async ({ testCall, isOpen }) => {
      const answer = await context.send(testCall);
      if (isOpen !== true) checks.expect(answer, { accepts: [UNAUTHENTICATED] });
      else if (isAdmitted(answer)) checks.note(`${testCall.what} is taken; such keys have letters of one case alone`);
    });
    return checks.result();
  },
};
