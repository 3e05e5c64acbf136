/** Sessions of a scenario that runs by itself: minted in setup(), and again by a VU for itself before they end. */
import type { HandOver } from "../../src/workload/handover.ts";
import { credentialName } from "../../src/workload/request.ts";
import { renewAtMs } from "../../src/workload/session-renewal.ts";
import { exchangeStep } from "../../src/workload/step.ts";
import type { SessionWanted, Story } from "../../src/workload/story.ts";
import { outcomeOf, sendStep } from "./calls.ts";
import { settled } from "./lease.ts";
import { Refusal } from "./stated-target.ts";

export type Sessions = Record<string, { token: string; renewAtMs: number }>;

const nameOf = (wanted: SessionWanted): string => credentialName({ as: "session", ...wanted });

const mint = (wanted: SessionWanted, handed: HandOver, id: string): Sessions[string] => {
  const step = exchangeStep(handed.view, 0, wanted.of, wanted.product);
  const answer = sendStep(step, id, { handed, sessionOf: () => undefined });
  settled();
  const what = `no session for ${wanted.of}, product ${wanted.product}`;
  if (answer.ended === "not_sent") throw new Refusal(`${what}: ${answer.error}`);
  const outcome = outcomeOf(answer);
  if (outcome !== "200" && outcome !== "201") {
    throw new Refusal(`${what}: expected 200 from the exchange, got ${outcome}${answer.error && ` (${answer.error})`}`);
  }
  const { session_token: token, expires_in } = JSON.parse(answer.body) as Record<string, unknown>;
  if (typeof token !== "string") throw new Refusal(`${what}: the answer has no session_token`);
  const lifeS = typeof expires_in === "number" && expires_in > 0 ? expires_in : 60;
  return { token, renewAtMs: renewAtMs(Date.now(), lifeS * 1000) };
};

export const mintSessions = (story: Story, handed: HandOver): Sessions =>
  Object.fromEntries(
    story.sessions(handed.view).map((wanted, n) => [nameOf(wanted), mint(wanted, handed, `${handed.idPrefix}-s${n}`)]),
  );

/** One VU's own copy of what setup() minted. */
export const sessionsOfVu = (
  story: Story,
  handed: HandOver,
): ((minted: Sessions) => (name: string) => string | undefined) => {
  let own: Sessions | undefined;
  let renewed = 0;
  return (minted) => {
    own ??= { ...minted };
    const held = own;
    return (name) => {
      const session = held[name];
      if (session === undefined || Date.now() < session.renewAtMs) return session?.token;
      const wanted = story.sessions(handed.view).find((one) => nameOf(one) === name);
      if (wanted === undefined) return session.token;
      renewed += 1;
      const anew = mint(wanted, handed, `${handed.idPrefix}-v${__VU}s${renewed}`);
      held[name] = anew;
      return anew.token;
    };
  };
};
