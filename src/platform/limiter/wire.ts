/**
 * What travels between the API and the limiter service. `POST /takes {takes, tokens}` and `POST /refunds
 * {refunds}` answer `{answers}`, one for each item in its order, each naming its charge: an answer that went astray is
 * distinguished from ours.
 */
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import type { Rate } from "../../core/rate-limit.ts";
import type { Refund, Take, TakeAnswer } from "../limiter.ts";
import { readEach } from "../links/batch.ts";
import type { StoreAnswer } from "./store.ts";

const MeterName = Type.Union([Type.Literal("map_loads"), Type.Literal("design_analyses")]);
const Named = { charge_id: Type.String(), request_id: Type.String(), org: Type.String(), key: Type.String() };
const Amount = Type.Integer({ minimum: 1 });
const RateLimit = Type.Union([
  Type.Null(),
  Type.Object({ perS: Type.Number({ exclusiveMinimum: 0 }), burst: Type.Number({ minimum: 1 }) }),
]);

/** Takes or refunds of one request. */
export const MAX_ITEMS = 256;

export const takesBody = Compile(
  Type.Object({
    takes: Type.Array(
      Type.Object({
        ...Named,
        rate: RateLimit,
        meter: Type.Object({
          name: MeterName,
          amount: Amount,
          cap: Type.Union([Type.Null(), Type.Integer({ minimum: 0 })]),
        }),
      }),
    ),
    tokens: Type.Array(
      Type.Object({
        key: Type.String(),
        rate: RateLimit,
        wanted: Type.Integer({ minimum: 1, maximum: MAX_ITEMS }),
      }),
      { maxItems: MAX_ITEMS },
    ),
  }),
);

export const refundsBody = Compile(
  Type.Object({ refunds: Type.Array(Type.Object({ ...Named, meter: MeterName, amount: Amount })) }),
);

export const meterBody = Compile(
  Type.Object({ org: Type.String(), meter: MeterName, used: Type.Integer({ minimum: 0 }) }),
);

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isWindow = (value: unknown): value is string => typeof value === "string" && /^\d{4}-\d\d$/.test(value);

/** Throws unless the answer is one to this take, also where the charge was refunded before it arrived. */
export const readTakeAnswer = (take: Take, value: unknown): TakeAnswer => {
  const answer = value as Partial<Record<string, unknown>> | null;
  if (typeof answer !== "object" || answer === null) throw new Error("expected an object");
  if (answer.charge_id !== take.charge_id) throw new Error("expected the answer to this charge, got another's");
  const { verdict, used, window, wait_ms } = answer;
  if (verdict === "taken" && isWindow(window)) {
    if (take.meter === null && used === null) return { verdict, used, window };
    if (take.meter !== null && isCount(used)) return { verdict, used, window };
  }
  if (verdict === "rate_limited" && take.rate !== null && typeof wait_ms === "number" && wait_ms >= 0) {
    return { verdict, wait_ms };
  }
  if (verdict === "over_cap" && take.meter !== null && isCount(used) && isWindow(window)) {
    return { verdict, used, window };
  }
  if (verdict === "refunded" && take.meter !== null) throw new Error("the charge was refunded before it arrived");
  throw new Error("expected an answer that fits the take");
};

export const readRefundAnswer = (refund: Refund, value: unknown): void => {
  const answer = value as { charge_id?: unknown; refunded?: unknown } | null;
  if (answer?.charge_id !== refund.charge_id || answer.refunded !== true)
    throw new Error("expected a confirmed refund");
};

/** `wanted`: how many calls of the key ask. */
type TokenLine = { key: string; rate: Rate | null; wanted: number };

/** `taken`: for so many of the calls, in `window`. The others may ask again after `wait_ms`. `null`: for no call. */
type TokenAnswer = { key: string; taken: number; window: string | null; wait_ms: number | null };

/** The body of a request, and of its reply: an answer for each take and for each line, in their order. */
type TakesBody = { takes: Take[]; tokens: TokenLine[] };
type TakesReply = { answers: unknown[]; tokens: TokenAnswer[] };

/** The calls of a line as a store decides them. */
const takesOf = ({ key, rate, wanted }: TokenLine): Take[] =>
  new Array<Take>(wanted).fill({ charge_id: "", request_id: "", org: "", key, rate, meter: null });

/** All takes of a request as a store decides them: those with a meter, then line by line the others. */
export const takesOfBody = ({ takes, tokens }: TakesBody): Take[] => [...takes, ...tokens.flatMap(takesOf)];

/** `answers`: of the store, to what `takesOfBody` gave it. */
export const replyOf = ({ takes, tokens }: TakesBody, answers: readonly StoreAnswer[]): TakesReply => {
  let next = takes.length;
  return {
    answers: takes.map(({ charge_id }, at) => ({ charge_id, ...answers[at] })),
    tokens: tokens.map(({ key, wanted }) => {
      const said: TokenAnswer = { key, taken: 0, window: null, wait_ms: null };
      for (const last = next + wanted; next < last; next += 1) {
        const answer = answers[next];
        if (answer?.verdict === "rate_limited") said.wait_ms ??= answer.wait_ms;
        if (answer?.verdict !== "taken") continue;
        said.taken += 1;
        said.window = answer.window;
      }
      return said;
    }),
  };
};

/** What the calls of a line are told: the first `left` of them `passed`, the others `refused`. */
type Told = { left: number; passed: TakeAnswer | null; refused: TakeAnswer | null };

/** Throws unless the answer is one to this line. */
const readTokenAnswer = (line: TokenLine, value: unknown): Told => {
  const { key, taken, window, wait_ms } = value as Record<keyof TokenAnswer, unknown>;
  if (key !== line.key) throw new Error("expected the answer to this key, got another's");
  if (!isCount(taken) || taken > line.wanted)
    throw new Error(`expected 0 to ${line.wanted} tokens taken, got ${taken}`);
  const [take] = takesOf(line) as [Take];
  const read = (said: object): TakeAnswer => readTakeAnswer(take, { charge_id: take.charge_id, ...said });
  return {
    left: taken,
    passed: taken === 0 ? null : read({ verdict: "taken", used: null, window }),
    refused: taken === line.wanted ? null : read({ verdict: "rate_limited", wait_ms }),
  };
};

const WITH_METER = -1;

/** `unpack`: what a reply says to each take, in their order; an error where that is nonsense. It throws where all of it is. */
export const bundleTakes = (
  takes: readonly Take[],
): { body: TakesBody; unpack(reply: unknown): readonly (TakeAnswer | Error)[] } => {
  const body: TakesBody = { takes: [], tokens: [] };
  const lineOf = new Map<string, number>();
  /** Of each take, where its line is. */
  const places = takes.map((take) => {
    const { key, rate, meter } = take;
    if (meter !== null) {
      body.takes.push(take);
      return WITH_METER;
    }
    const known = lineOf.get(key);
    const line = known === undefined ? undefined : body.tokens[known];
    // An operator may have changed the rate between two takes of a key.
    if (known !== undefined && line?.rate === rate) {
      line.wanted += 1;
      return known;
    }
    lineOf.set(key, body.tokens.length);
    return body.tokens.push({ key, rate, wanted: 1 }) - 1;
  });
  return {
    body,
    unpack: (reply) => {
      const { answers, tokens } = reply as Record<keyof TakesReply, unknown>;
      const read = readEach(body.takes, answers, readTakeAnswer).values();
      const told = readEach(body.tokens, tokens, readTokenAnswer);
      return places.map((place) => {
        if (place === WITH_METER) return read.next().value as TakeAnswer | Error;
        const line = told[place] as Told | Error;
        if (line instanceof Error) return line;
        line.left -= 1;
        return (line.left < 0 ? line.refused : line.passed) as TakeAnswer;
      });
    },
  };
};
