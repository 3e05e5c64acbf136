/** Calls that something on the way may cut off, time after time: to be sent again then would cost patience and show nothing. */
import type { Answer } from "./answer.ts";
import type { Context } from "./context.ts";
import type { Probe } from "./probe.ts";

export const isSilent = ({ exchanged }: Answer): boolean => /timeout/.test(exchanged.error ?? "");

/** What is cut off is so for good; any other answer that says nothing is waited for as usual. */
export const answerTo = async (context: Context, probe: Probe): Promise<Answer> => {
  const answer = await context.send(probe);
  const { once, ...patient } = probe;
  if (once !== true || !answer.transient || (answer.status === null && !isSilent(answer))) return answer;
  return context.send(patient);
};
