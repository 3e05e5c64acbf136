/** `Access-Control-Allow-Origin` echoed to whoever asks. */
import type { Mutant } from "./mutant.ts";

export const leaksAcao: Mutant = {
  name: "leaks-acao",
  harm: "a page on any site may read what a leaked server key gets",
  kills: ["verify/server-key-is-blocked-by-cors"],
  stage: "verify",
  spoil: (healthy) => ({
    ...healthy,
    cors: (call) => call.origin,
  }),
};
