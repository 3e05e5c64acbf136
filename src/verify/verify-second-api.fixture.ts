/** `verify` on a second deployment of its own, by the seed and at the pace of these tests. */

import { type SecondApi, type SecondApiOptions, startSecondApi } from "../../properties/second-api/start-second-api.ts";
import { createSecrets } from "../target/secrets.ts";
import { runVerify, type VerifyOptions, type VerifyResult } from "./run-verify.ts";

type Wish = Partial<VerifyOptions>;
type Verified = VerifyResult & {
  /** The deployment that was judged, already closed. */
  api: SecondApi;
};

/** No month begins within a day, whenever the tests run. */
const MID_MONTH_MS = Date.UTC(2026, 5, 15);

/** `wish` may ask the deployment something before the first call. */
export const verifySecondApi = async (
  options: SecondApiOptions,
  wish: Wish | ((api: SecondApi) => Wish | Promise<Wish>),
): Promise<Verified> => {
  const api = await startSecondApi(options);
  const target = api.target;
  try {
    const more = typeof wish === "function" ? await wish(api) : wish;
    const usual = {
      target,
      secrets: createSecrets("."),
      seed: 7,
      ratePerS: 400,
      wallMs: () => MID_MONTH_MS,
      settleMs: 50,
    };
    return { ...(await runVerify({ ...usual, ...more })), api };
  } finally {
    await api.close();
  }
};
