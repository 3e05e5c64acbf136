/** Ways to spoil what a refusal looks like when it leaves: its body, its headers. */
import type { AnyRefusalName } from "../contract/refusals.ts";
import { refusalOf } from "../contract/refusals.ts";
import type { Refuse } from "../core/call.ts";
import { type Answer, jsonHeaders } from "../platform/api/answer.ts";
import type { Parts } from "../platform/parts.ts";

type Body = Record<string, unknown>;

/** The same answer with another body; headers that describe the body follow it. */
export const withBody = ({ status, headers }: Answer, body: Body): Answer => {
  const text = JSON.stringify(body);
  const others = headers.filter((_, at) => !/^content-/i.test(headers[at - (at % 2)] as string));
  return { status, headers: [...jsonHeaders(text), ...others], body: text };
};

export const withoutHeader = (answer: Answer, name: string): Answer => ({
  ...answer,
  headers: answer.headers.filter(
    (_, at) => (answer.headers[at - (at % 2)] as string).toLowerCase() !== name.toLowerCase(),
  ),
});

export const withHeader = (answer: Answer, name: string, value: string): Answer => {
  const cleared = withoutHeader(answer, name);
  return { ...cleared, headers: [...cleared.headers, name, value] };
};

/** `spoil` is given the healthy answer and its body. */
export const spoiltRefusals = (
  healthy: Parts,
  spoil: (answer: Answer, refuse: Refuse, body: Body) => Answer,
): Pick<Parts, "writeRefusal"> => ({
  writeRefusal: (refuse) => {
    const answer = healthy.writeRefusal(refuse);
    return spoil(answer, refuse, JSON.parse(answer.body) as Body);
  },
});

export const isFlat = ({ refuse }: { refuse: AnyRefusalName }): boolean => refusalOf(refuse).envelope === "flat";
