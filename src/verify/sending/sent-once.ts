/** Calls that something on the way may cut off, time after time: to be sent again then would cost patience and show nothing. */
import type { Context } from "../context.ts";
import type { Answer } from "./answer.ts";
import type { TestCall } from "./test-call.ts";

export const isSilent = ({ received }: Answer): boolean => /timeout/.test(received.error ?? "");

/** What is cut off is so for good; any other answer that says nothing is waited for as usual. */
export const answerTo = async (context: Context, testCall: TestCall): Promise<Answer> => {
  const answer = await context.send(testCall);
  const { once, ...patient } = testCall;
  if (once !== true || !answer.transient || (answer.status === null && !isSilent(answer))) return answer;
  return context.send(patient);
};
