/** Mints sessions when first needed and caches them by role and product; renews one when most of its life has passed. */
import type { Product } from "../contract/routes.ts";
import type { KeyRole } from "../target/target.ts";
import { renewAtMs } from "../workload/timeouts.ts";
import { callInWords, isSessionsOff } from "./checks.ts";
import { type Answer, isAdmitted } from "./sending/answer.ts";
import { mint as mintCall, type TestCall } from "./sending/test-call.ts";
import { CannotJudge, inconclusive, type Open, skipped } from "./verdict.ts";

const LIFE_UNSTATED_MS = 900_000;

/** `tileShortage`: why no tile session can be paid for. */
export const createSessions = (tileShortage: () => Open | null, send: (call: TestCall) => Promise<Answer>) => {
  const minted = new Map<string, { answer: Promise<Answer>; renewAtMs: number }>();

  const mint = (of: KeyRole, product: Product): Promise<Answer> => {
    const name = `${of} ${product}`;
    const found = minted.get(name);
    if (found !== undefined) return found.answer;
    const short = product === "tile" ? tileShortage() : null;
    if (short !== null) return Promise.reject(new CannotJudge(short));
    const entry = { answer: send(mintCall(of, product)), renewAtMs: Number.POSITIVE_INFINITY };
    minted.set(name, entry);
    entry.answer.then(
      ({ transient, fields: { expires_in: lifeS } }) => {
        const lifeMs = typeof lifeS === "number" && lifeS > 0 ? lifeS * 1000 : LIFE_UNSTATED_MS;
        entry.renewAtMs = renewAtMs(Date.now(), lifeMs);
        // A transient refusal is not cached.
        if (transient) minted.delete(name);
      },
      () => minted.delete(name),
    );
    return entry.answer;
  };

  /** Throws if no session can be minted. */
  const tokenOf = async (of: KeyRole, product: Product): Promise<string> => {
    const known = minted.get(`${of} ${product}`);
    if (known !== undefined && Date.now() > known.renewAtMs) minted.delete(`${of} ${product}`);
    const answer = await mint(of, product);
    const { session_token: token } = answer.fields;
    if (isAdmitted(answer) && typeof token === "string") return token;
    const why = `no session could be minted: ${callInWords(answer)}`;
    throw isSessionsOff(answer) ? skipped(why) : inconclusive(why);
  };

  return { mint, tokenOf, forget: () => minted.clear() };
};
