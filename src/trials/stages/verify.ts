/** Stages for the rules of `verify`, which see headers, bodies and key management. */
import type { Claim } from "../../history/run-document.ts";
import { createSecrets } from "../../target/secrets.ts";
import { runVerify, type VerifyOptions } from "../../verify/run-verify.ts";
import type { Bench, MiniStage } from "../stage-bench.ts";
import { paid } from "./load.ts";

/** Higher than the deployment can answer, so that `verify` does not wait between calls. */
const RATE_PER_S = 5_000;
const SEED = 1;
const ERROR_EVENTS = ["verify/stream-error-event", "verify/stream-nothing-after-error"];
/** Opens the streams that the rules about error events judge. */
const A_STREAM_RULE = "verify/stream-content-type";

/** `part` separates the call ids of two runs on one deployment in the ledger. */
const judge = async ({ target, clock, stage }: Bench, part: string, more: Partial<VerifyOptions>): Promise<Claim[]> => {
  const { claims } = await runVerify({
    target,
    secrets: createSecrets("."),
    seed: SEED,
    clock,
    ratePerS: RATE_PER_S,
    idPrefix: `mutants.${stage}.${part}`,
    // Always the middle of a month, so that no trial meets the end of one.
    wallMs: () => Date.UTC(2026, 5, 15),
    ...more,
  });
  return claims;
};

/** Every rule of `verify` that needs no load. */
export const verify: MiniStage = {
  rulesAlone: true,
  options: { tenants: [], limits: { service_ms: 180 }, tokens: 6 },
  play: async (bench) => {
    const allowed = { allowWrites: true, allowQuotaBurn: true };
    bench.claims.push(...(await judge(bench, "c", { ...allowed, skip: ERROR_EVENTS })));
    // No call can provoke an error event, so the control plane orders one.
    const fail_next = { route: "chat.button", mode: "error_event", after_events: 2, count: 1 };
    await bench.operate("/deployment", { fail_next });
    const failing = await judge(bench, "e", { ...allowed, only: [A_STREAM_RULE, ...ERROR_EVENTS] });
    bench.claims.push(...failing.filter(({ id }) => ERROR_EVENTS.includes(id)));
  },
};

/** Above the rate of a key and above the caps. */
const LOAD_MAX_RPS = 150;

/** The rules of `verify` about the request rate and the caps, which need load. */
export const verifyLoad: MiniStage = {
  rulesAlone: true,
  options: {
    tenants: paid(2),
    limits: { global_in_flight: 24, org_in_flight: 12, service_ms: 300, rate_per_s: 40, burst: 60 },
  },
  play: async (bench) => {
    const target = { ...bench.target, permits: { ...bench.target.permits, load_max_rps: LOAD_MAX_RPS } };
    bench.claims.push(...(await judge({ ...bench, target }, "c", { allowLoad: true, only: ["load"] })));
  },
};
