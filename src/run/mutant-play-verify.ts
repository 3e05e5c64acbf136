/** The black-box rules on a small deployment: they see headers, bodies and key management, which no invariant does. */
import { createSecrets } from "../drivers/secrets.ts";
import { runVerify, type VerifyOptions } from "../verify/run-verify.ts";
import type { MiniStage } from "./mutant-stages.ts";

/** As fast as it answers: it is ours, and its keys bear it. */
const RATE_PER_S = 5_000;
const SEED = 1;
const ERROR_EVENTS = ["verify/stream-error-event", "verify/stream-nothing-after-error"];
/** Makes the streams that the rules about error events look at, and minds no failure of theirs. */
const A_STREAM_RULE = "verify/stream-content-type";

export const verify: MiniStage = {
  about: "every rule of `verify` that needs no load",
  proves: ["verify/server-key-is-blocked-by-cors", "verify/stream-error-event", "verify/keys-limit-reached"],
  options: { tenants: [], serviceMs: 60, tokens: 6 },
  play: async ({ target, clock, operate, claim }) => {
    const judge = (more: Partial<VerifyOptions>) =>
      runVerify({
        ...{ target, secrets: createSecrets("."), seed: SEED, clock, ratePerS: RATE_PER_S },
        ...{ idPrefix: "mutants.verify.c", allowWrites: true, allowQuotaBurn: true, ...more },
      });
    const { claims } = await judge({ skip: ERROR_EVENTS });
    claim(claims);
    // Rules about error events need one to look at, and nothing from outside makes one come.
    const fail_next = { route: "chat.button", mode: "error_event", after_events: 2, count: 1 };
    await operate("PATCH", "/deployment", { fail_next });
    const failing = await judge({ only: [A_STREAM_RULE, ...ERROR_EVENTS] });
    claim(failing.claims.filter(({ id }) => ERROR_EVENTS.includes(id)));
  },
};
