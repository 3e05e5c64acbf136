/**
 * Whether the API is at an address: by its style catalog without a credential, which the contract refuses with 401, beside a
 * path that no deployment has. Sends nothing secret.
 */
import { codingOf } from "../../contract/envelopes.ts";
import { foreignAddress } from "../../contract/foreign-text.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { type Step, stepOf } from "../../workload/step.ts";
import type { Answered, SingleCalls } from "./single-calls.ts";
import { headerOf } from "./single-calls.ts";

/** `api`: it answers as the API does. `perhaps`: it refuses every path alike. `other`: something else answers. */
export type WhatAnswers =
  | { readonly is: "api" | "perhaps" | "other"; readonly first: Answered }
  | { readonly is: "moved"; readonly first: Answered; readonly to: string }
  | { readonly is: "silent"; readonly first: Answered; readonly code: string };

/** The status, and why its body is read by nobody. */
export const statusInWords = (sent: Answered): string => {
  const coding = codingOf(headerOf(sent, "content-encoding"));
  const coded = coding === null ? "" : `, coded (${coding}) though every call asks for no coding`;
  return `${sent.answer.status}${coded}`;
};

const NO_SUCH_PATH = "/floodgate-no-such-path";

export const plainGet = (view: TargetView, path: string): Step => ({
  ...stepOf(view, 0, { route: "design.styles", credential: { as: "none" }, path }),
  route: "-",
});

/** Says 401 and nothing more than that, or admits everybody with JSON: both are the API's way to answer a catalog. */
const looksLikeApi = (sent: Answered): boolean => {
  const { outcome } = sent.line;
  const isPage = /html/i.test(headerOf(sent, "content-type") ?? "");
  return !isPage && (outcome === "401" || outcome === "200" || /^(403|429|503) ?[a-z_]*$/.test(outcome));
};

/** One or two calls. */
export const askWhatAnswers = async (calls: SingleCalls): Promise<WhatAnswers> => {
  const first = await calls.call(stepOf(calls.view, 0, { route: "design.styles", credential: { as: "none" } }));
  const { status } = first.answer;
  if (status === null) return { is: "silent", first, code: first.answer.error ?? first.answer.ended };
  const location = headerOf(first, "location");
  if (status >= 300 && status < 400)
    return { is: "moved", first, to: location === undefined ? "elsewhere" : foreignAddress(location) };
  if (!looksLikeApi(first)) return { is: "other", first };
  const nowhere = await calls.call(plainGet(calls.view, NO_SUCH_PATH));
  return { is: nowhere.answer.status === status ? "perhaps" : "api", first };
};
