/**
 * Up and down faster than a circuit breaker or a pool settles. The toggling lives in the runner: when the runner dies it
 * stops, and the watchdog leaves the link up.
 */
import { pause } from "../../supervision/waiting.ts";
import { disableAsOurs, enableAgain, type FaultMaker } from "../fault.ts";

const DOWN_MS = 150;
const UP_MS = 150;

export const flapping: FaultMaker = {
  name: "flapping",
  stream: "both",
  make: () => {
    let stop: AbortController | undefined;
    let loop: Promise<void> = Promise.resolve();
    return {
      name: "flapping",
      stream: "both",
      disables: true,
      what: `the link goes down for ${DOWN_MS} ms and up for ${UP_MS} ms, over and over`,
      put: async (proxy, options) => {
        await disableAsOurs("flapping", proxy, options);
        stop = new AbortController();
        const { signal } = stop;
        // The caller's signal bounds the putting alone, not what goes on afterwards.
        const each = options?.callMs === undefined ? {} : { callMs: options.callMs };
        loop = (async () => {
          for (let down = true; !signal.aborted; down = !down) {
            await pause(down ? DOWN_MS : UP_MS, signal);
            if (!signal.aborted) await proxy.setEnabled(down, each);
          }
        })();
        // Reported by `take`; without this the process would end by an unhandled rejection in between.
        loop.catch(() => {});
      },
      take: async (proxy, options) => {
        stop?.abort();
        const stopped = await loop.then(
          () => null,
          (error: unknown) => error as Error,
        );
        await enableAgain("flapping", proxy, options);
        if (stopped !== null) throw new Error(`flapping had stopped by itself: ${stopped.message}`);
      },
      shows: (seen) => seen.ended === "refused",
    };
  },
};
