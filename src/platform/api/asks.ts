/**
 * What the core asks of the world, answered: sessions and remembered keys at once, the rest over links and from the client.
 * Every answer goes into the call, and the call goes on from there. No answer in time is an answer too (fail closed, B4).
 */
import type { RouteName } from "../../contract/routes.ts";
import { type Ask, UNAVAILABLE } from "../../core/call.ts";
import type { Take, TakeAnswer } from "../limiter.ts";
import { reasonOf } from "../reason-of.ts";
import type { EndingCall } from "./ending-call.ts";
import type { KeyAsk } from "./key-cache.ts";
import { collectBody, READERS } from "./request-body.ts";

/** A call that can wait for an answer: `go` runs its checks from where they stand. What it does when admitted is no concern here. */
type AskingCall = EndingCall<never> & { go(): void };

const nameOf = (ask: Extract<Ask, { ask: KeyAsk }>): string => (ask.ask === "key" ? ask.secret : ask.id);

/** Answers that need no waiting; whether there was one. */
export const answerAtOnce = ({ call, context, route, query, params }: AskingCall, ask: Ask): boolean => {
  if (ask.ask === "session") {
    call.session = context.sessions.read(ask.token, Math.floor(call.nowMs / 1000));
    return true;
  }
  if (ask.ask === "key" || ask.ask === "key-by-id") {
    call.lookup = context.keyCache.kept(ask.ask, nameOf(ask));
    return call.lookup !== undefined;
  }
  if (ask.ask === "body") {
    const reader = READERS[route.name as RouteName];
    if (reader.from === "body") return false;
    call.body = reader.read(query, params);
    return true;
  }
  return false;
};

/** Sends the question; the call goes on when the answer is there, unless it is over by then. */
export const answerLater = (incoming: AskingCall, ask: Ask): void => {
  incoming.watch();
  if (incoming.isOver) return;
  if (ask.ask === "key" || ask.ask === "key-by-id") lookUp(incoming, ask);
  else if (ask.ask === "body") readBody(incoming);
  else if (ask.ask === "take") take(incoming, ask);
};

const lookUp = (incoming: AskingCall, ask: Extract<Ask, { ask: KeyAsk }>): void => {
  const { call, context, requestId } = incoming;
  context.keyCache.find(ask.ask, nameOf(ask)).then(
    (snapshot) => {
      call.lookup = snapshot;
      incoming.go();
    },
    (error: unknown) => {
      context.log.debug({ requestId, reason: reasonOf(error) }, "no answer from the key service");
      call.lookup = UNAVAILABLE;
      incoming.go();
    },
  );
};

const readBody = (incoming: AskingCall): void => {
  const reader = READERS[incoming.route.name as RouteName];
  collectBody(incoming.request, (body) => {
    if (body === null) {
      incoming.refuse({ refuse: "payload_too_large" });
      return;
    }
    if (reader.from === "body") incoming.call.body = reader.read(body);
    incoming.go();
  });
};

const take = (incoming: AskingCall, { rate, meter }: Extract<Ask, { ask: "take" }>): void => {
  const { call, context, requestId } = incoming;
  const { key, org } = call.snapshot;
  if (meter !== null && context.settlement.isFull()) {
    call.taken = UNAVAILABLE;
    incoming.go();
    return;
  }
  const charge_id = context.parts.chargeId(context.freshId(), requestId);
  const asked: Take = { charge_id, request_id: requestId, org: org.id, key: key.id, rate, meter };
  context.limiter.take(asked, context.limiterBudgetMs).then(
    (answer) => taken(incoming, asked, answer),
    (error: unknown) => {
      context.log.debug({ requestId, reason: reasonOf(error) }, "no answer from the limiter");
      context.settlement.undo(asked, "answer-lost");
      call.taken = UNAVAILABLE;
      incoming.go();
    },
  );
};

const taken = (incoming: AskingCall, asked: Take, answer: TakeAnswer): void => {
  if (answer.verdict === "taken") {
    if (incoming.isOver) {
      incoming.context.settlement.undo(asked, "client-left");
      return;
    }
    if (asked.meter !== null) incoming.charged(asked);
  }
  incoming.call.taken = answer;
  incoming.go();
};
