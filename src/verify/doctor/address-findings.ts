/** What stands at `base_url`, as findings, and whether it is worth asking further. */

import { notAnswering } from "../../client/network-errors.ts";
import { parseHttpUrl } from "../../contract/address.ts";
import { isLoopbackHost } from "../../contract/loopback.ts";
import type { Target } from "../../target/target.ts";
import { findBaseUrl } from "./find-base-url.ts";
import { type Finding, finding } from "./finding.ts";
import { headerOf, type SingleCalls } from "./single-calls.ts";
import { askWhatAnswers, statusInWords, type WhatAnswers } from "./what-answers.ts";

/** Calls that a search for the right address may make. */
const SEARCH_CALLS = 6;

/**
 * `yes`: the API is there. `one`: some deployments say 404 to whoever has no credential, so one role decides. `no`: keys
 * are not sent there.
 */
type AddressFound = { readonly found: Finding; readonly goOn: "yes" | "one" | "no" };

const elsewhere = async (target: Target, folder: string, calls: SingleCalls): Promise<string | null> => {
  calls.take(SEARCH_CALLS);
  const { scheme, host } = parseHttpUrl(target.base_url);
  // Nobody is advised to give TLS up beyond this machine.
  const schemes = scheme === "http" || isLoopbackHost(host) ? "either" : "stated";
  const { found } = await findBaseUrl(target.base_url, target.transport ?? {}, folder, schemes);
  return found === null ? null : `write "base_url": "${found.url}": the API answers there`;
};

const say = async (what: WhatAnswers, target: Target, folder: string, calls: SingleCalls): Promise<AddressFound> => {
  const url = target.base_url;
  switch (what.is) {
    case "api":
      return { found: finding("ok", "base_url", `${url} answers as the API does`), goOn: "yes" };
    case "perhaps": {
      const text = `${url} answers ${what.first.line.outcome} to every path; the roles show more`;
      return { found: finding("ok", "base_url", text), goOn: "yes" };
    }
    case "moved": {
      const redirect = `a redirect (${what.first.answer.status}) to ${what.to}`;
      const text = `expected the API at ${url}; got ${redirect}, and redirects are never followed`;
      return { found: finding("wrong", "base_url", text, "write the address that it leads to"), goOn: "no" };
    }
    case "other": {
      const text = `expected the API at ${url}; got status ${statusInWords(what.first)} for the style catalog`;
      const there = await elsewhere(target, folder, calls);
      const isPage = /html/i.test(headerOf(what.first, "content-type") ?? "");
      const todo = there ?? "does it include the version segment (v1), and is it this host?";
      return { found: finding("wrong", "base_url", text, todo), goOn: there === null && !isPage ? "one" : "no" };
    }
    case "silent": {
      const { text, todo } = notAnswering(url, what.code);
      return { found: finding("silent", "base_url", text, todo), goOn: "no" };
    }
  }
};

/** Up to eight calls, all without a credential. */
export const addressFinding = async (target: Target, folder: string, calls: SingleCalls): Promise<AddressFound> =>
  await say(await askWhatAnswers(calls), target, folder, calls);
