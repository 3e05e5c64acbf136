/** What stands at `base_url`, as findings, and whether it is worth asking further. */
import type { Target } from "../target/target.ts";
import { findBaseUrl } from "./find-base-url.ts";
import { type Finding, finding } from "./finding.ts";
import { networkAdvice } from "./network-errors.ts";
import type { SingleCalls } from "./single-calls.ts";
import { askWhatAnswers, type WhatAnswers } from "./what-answers.ts";

/** Calls that a search for the right address may make. */
const SEARCH_CALLS = 6;

const elsewhere = async (target: Target, folder: string, calls: SingleCalls): Promise<string> => {
  calls.take(SEARCH_CALLS);
  const { found } = await findBaseUrl(target.base_url, target.transport ?? {}, folder);
  return found === null
    ? "does it include the version segment (v1), and is it this host?"
    : `write "base_url": "${found.url}": the API answers there`;
};

const say = async (what: WhatAnswers, target: Target, folder: string, calls: SingleCalls): Promise<Finding> => {
  const url = target.base_url;
  switch (what.is) {
    case "api":
      return finding("ok", "base_url", `${url} answers as the API does`);
    case "perhaps":
      return finding("ok", "base_url", `${url} answers ${what.first.line.outcome} to every path; the roles show more`);
    case "moved":
      return finding(
        "wrong",
        "base_url",
        `expected the API; got a redirect (${what.first.answer.status}) to ${what.to}, and redirects are never followed`,
        "write the address that it leads to",
      );
    case "other": {
      const text = `expected the API at ${url}; got ${what.first.line.outcome} for the style catalog`;
      return finding("wrong", "base_url", text, await elsewhere(target, folder, calls));
    }
    case "silent": {
      const { means, todo } = networkAdvice(what.code);
      return finding("silent", "base_url", `${url} does not answer (${what.code}): ${means}`, todo);
    }
  }
};

/** Some deployments say 404 to whoever has no credential: then the roles decide whether the address is right. */
export const addressFinding = async (
  target: Target,
  folder: string,
  calls: SingleCalls,
): Promise<{ found: Finding; goOn: boolean }> => {
  const what = await askWhatAnswers(calls);
  const found = await say(what, target, folder, calls);
  return { found, goOn: what.is === "api" || what.is === "perhaps" };
};
