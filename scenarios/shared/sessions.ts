/** Sessions of a scenario: minted by the runner or in setup(), and renewed by one VU for all before they end. */

import { sleep } from "k6";
import exec from "k6/execution";
import type { SseResponse } from "k6/x/sse";
import { isObject, parseJson } from "../../src/contract/refusals.ts";
import type { HandOver, HeldSession } from "../../src/workload/handover.ts";
import { credentialName, exchangeStep, type SessionWanted, type Step } from "../../src/workload/step.ts";
import type { Story } from "../../src/workload/story.ts";
import { renewAtMs } from "../../src/workload/timeouts.ts";
import { outcomeOf, sendStep } from "./calls.ts";
import { floodgate } from "./extension.ts";
import { Refusal } from "./stated-target.ts";

export type Sessions = Record<string, HeldSession>;

type SessionCall = SessionWanted & { id: string };

/** Called after each call that mints a session. */
type OnMinted = (made: SessionCall) => void;

/** How long the renewal of a session is left to the VU that claimed it. */
const CLAIM_MS = 5_000;
const LOOK_EVERY_S = 0.05;

const nameOf = (wanted: SessionWanted): string => credentialName({ as: "session", ...wanted });

const sessionFrom = (what: string, step: Step, answer: SseResponse): HeldSession => {
  if (answer.ended === "not_sent") throw new Refusal(`${what}: ${answer.error}`);
  const outcome = outcomeOf(answer, step);
  if (outcome !== "200" && outcome !== "201") {
    throw new Refusal(`${what}: expected 200 from the exchange, got ${outcome}${answer.error && ` (${answer.error})`}`);
  }
  const body = parseJson(answer.body);
  const { session_token: token, expires_in } = isObject(body) ? body : {};
  if (typeof token !== "string") throw new Refusal(`${what}: the answer has no session_token`);
  const lifeMs = 1000 * (typeof expires_in === "number" && expires_in > 0 ? expires_in : 60);
  return { token, renewAtMs: renewAtMs(Date.now(), lifeMs), endsAtMs: Date.now() + lifeMs };
};

const mint = (wanted: SessionWanted, handed: HandOver, id: string, onMinted?: OnMinted): HeldSession => {
  const step = exchangeStep(handed.view, 0, wanted.of, wanted.product);
  const answer = sendStep(step, id, { handed, sessionOf: () => undefined });
  onMinted?.({ ...wanted, id });
  floodgate.settled();
  return sessionFrom(`no session for ${wanted.of}, product ${wanted.product}`, step, answer);
};

export const mintSessions = (story: Story, handed: HandOver, onMinted?: OnMinted): Sessions =>
  Object.fromEntries(
    story
      .sessions(handed.view)
      .map((wanted, n) => [nameOf(wanted), mint(wanted, handed, `${handed.idPrefix}-s${n}`, onMinted)]),
  );

/** A VU's sessions: the newest that any VU has stored, else its own copy. */
const createHeld = (first: Sessions) => {
  const own: Sessions = { ...first };
  const texts: Record<string, string> = {};
  return {
    newest: (name: string): HeldSession | undefined => {
      const text = floodgate.recall(name);
      if (text !== null && text !== texts[name]) {
        texts[name] = text;
        own[name] = JSON.parse(text) as HeldSession;
      }
      return own[name];
    },
    keep: (name: string, session: HeldSession): void => {
      own[name] = session;
      floodgate.remember(name, JSON.stringify(session));
    },
  };
};

/** Gives one VU the token of a live session by `credentialName`. */
export const sessionsOfVu = (
  story: Story,
  handed: HandOver,
  onMinted?: OnMinted,
): ((first: Sessions) => (name: string) => string | undefined) => {
  let held: ReturnType<typeof createHeld> | undefined;
  let renewed = 0;
  return (first) => {
    held ??= createHeld(first);
    const sessions = held;
    return (name) => {
      let session = sessions.newest(name);
      while (session !== undefined && Date.now() >= session.renewAtMs && !floodgate.claim(name, CLAIM_MS)) {
        if (Date.now() < session.endsAtMs) return session.token;
        // The session has ended, and another VU is renewing it.
        sleep(LOOK_EVERY_S);
        session = sessions.newest(name);
      }
      if (session === undefined || Date.now() < session.renewAtMs) return session?.token;
      const wanted = story.sessions(handed.view).find((one) => nameOf(one) === name);
      if (wanted === undefined) return session.token;
      renewed += 1;
      try {
        const anew = mint(wanted, handed, `${handed.idPrefix}-v${exec.vu.idInTest}s${renewed}`, onMinted);
        sessions.keep(name, anew);
        return anew.token;
      } catch (error) {
        // The old token is valid until it ends; the next VU that claims the session tries again.
        if (error instanceof Refusal && Date.now() < session.endsAtMs) return session.token;
        throw error;
      }
    };
  };
};
