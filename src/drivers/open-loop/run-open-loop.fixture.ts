import { type OpenLoopResult, playOpenLoop, startTogether } from "./driver.ts";

type Options = Parameters<typeof playOpenLoop>[0];

/** Runs the whole schedule; where the process never is ready, its result says why. */
export const runOpenLoop = (
  options: Omit<Options, "begin" | "signal"> & Partial<Pick<Options, "signal">>,
): Promise<OpenLoopResult> => {
  const { begin } = startTogether(1, options.job.epochUs);
  return playOpenLoop({ begin, signal: new AbortController().signal, ...options });
};
