import { type OpenLoopResult, startOpenLoop } from "./driver.ts";

/** Starts, waits until it is ready, runs the whole schedule; where it never is ready, its result says why. */
export const runOpenLoop = async (options: Parameters<typeof startOpenLoop>[0]): Promise<OpenLoopResult> => {
  const loop = startOpenLoop(options);
  await loop.ready.then(
    () => loop.go(),
    () => undefined,
  );
  return loop.result;
};
