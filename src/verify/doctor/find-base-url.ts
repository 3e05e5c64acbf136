/**
 * Whether the API is at an address, and where else below it: as the URL stands, with the version segment behind it, or a
 * step up. Users paste the address of a documentation page or of the host as often as the one with `/v1`. Sends nothing
 * secret: the style catalog without a credential, which the contract refuses with 401, beside a path that does not exist.
 */
import { notAnswering } from "../../client/network-errors.ts";
import { parseHttpUrl } from "../../contract/address.ts";
import { codingOf } from "../../contract/envelopes.ts";
import { foreignAddress } from "../../contract/foreign-text.ts";
import { isLoopbackHost } from "../../contract/loopback.ts";
import { ROUTES } from "../../contract/routes.ts";
import type { Target, Transport } from "../../target/target.ts";
import { type Finding, finding } from "./finding.ts";
import { type Answered, headerOf, type SingleCalls, withSingleCalls } from "./single-calls.ts";

/** `api`: it answers as the API does. `perhaps`: it refuses every path alike. `other`: something else answers. */
type WhatAnswers =
  | { readonly is: "api" | "perhaps" | "other"; readonly first: Answered }
  | { readonly is: "moved"; readonly first: Answered; readonly to: string }
  | { readonly is: "silent"; readonly first: Answered; readonly code: string };

const CATALOG = { route: "design.styles", credential: { as: "none" } } as const;

/** Asks for any path without a credential. */
export const plainGet = (calls: SingleCalls, path: string): Promise<Answered> =>
  calls.ask(CATALOG, { route: "-", path });

/** The status, and why the body was not read. */
export const statusInWords = (sent: Answered): string => {
  const coding = codingOf(headerOf(sent, "content-encoding"));
  const coded = coding === null ? "" : `, coded (${coding}) though every call asks for no coding`;
  return `${sent.answer.status}${coded}`;
};

const isPage = (sent: Answered): boolean => /html/i.test(headerOf(sent, "content-type") ?? "");

/** One or two calls. */
const askWhatAnswers = async (calls: SingleCalls): Promise<WhatAnswers> => {
  const first = await calls.ask(CATALOG);
  const { status, error, ended } = first.answer;
  if (status === null) return { is: "silent", first, code: error ?? ended };
  const location = headerOf(first, "location");
  if (status >= 300 && status < 400)
    return { is: "moved", first, to: location === undefined ? "elsewhere" : foreignAddress(location) };
  // The API refuses the catalog in one of its own ways, or admits everybody with JSON.
  const isOurs = /^(401|200|(403|429|503) ?[a-z_]*)$/.test(first.line.outcome);
  if (isPage(first) || !isOurs) return { is: "other", first };
  const nowhere = await plainGet(calls, "/floodgate-no-such-path");
  return { is: nowhere.answer.status === status ? "perhaps" : "api", first };
};

export type Tried = { readonly url: string; readonly what: WhatAnswers };

type BaseUrlFound = {
  /** The best; `null` where nothing at any of them is the API. */
  readonly found: Tried | null;
  readonly tried: readonly Tried[];
  /** With the other scheme, where that was not tried and may be meant. */
  readonly other: string | null;
};

const ROUTE_PATHS = Object.values(ROUTES).map(({ path }) => path.replace(/\{.*$/, "").replace(/\/$/, ""));

/** Addresses to try, the likeliest first, without repetition. */
export const candidatesOf = (given: string): string[] => {
  const { origin, pathname } = new URL(given);
  const whole = pathname.replace(/\/+$/, "");
  // The address of one operation is no base address.
  const route = ROUTE_PATHS.find((one) => whole.endsWith(one)) ?? "";
  const path = whole.slice(0, whole.length - route.length);
  const isVersioned = /\/v\d+$/.test(path);
  const paths = isVersioned ? [path, path.replace(/\/v\d+$/, "")] : [path, `${path}/v1`, "/v1"];
  return [...new Set(paths.map((one) => origin + one))];
};

const otherScheme = (url: string): string =>
  url.startsWith("https:") ? url.replace(/^https:/, "http:") : url.replace(/^http:/, "https:");

/** Plain HTTP to a TLS port is hung up on, answered 400 or led to https; TLS to a plain port breaks off in the handshake. */
const isOtherProtocol = ({ url, what }: Tried): boolean => {
  if (what.is === "moved") return what.to.startsWith(`${new URL(otherScheme(url)).protocol}//${new URL(url).hostname}`);
  if (what.is !== "silent") return what.first.answer.status === 400;
  return /^(EPROTO|ERR_SSL|HPE_|HTTPParserError|UND_ERR_SOCKET|ECONNRESET)/.test(what.code);
};

const RANK: readonly WhatAnswers["is"][] = ["api", "perhaps", "moved", "other", "silent"];

/** `stated`: a scheme that a user typed is kept, so that https is never given up for http. */
export type Schemes = "stated" | "either";

/** Two calls a candidate at the most. */
export const findBaseUrl = async (
  given: string,
  transport: Transport,
  folder: string,
  schemes: Schemes = "either",
): Promise<BaseUrlFound> => {
  const tried: Tried[] = [];
  const tryEach = async (urls: readonly string[], last: readonly WhatAnswers["is"][]): Promise<void> => {
    for (const url of urls) {
      const target: Target = { schema: "floodgate/target@1", base_url: url, transport };
      const what = await withSingleCalls(target, folder, askWhatAnswers);
      tried.push({ url, what });
      if (last.includes(what.is)) return;
    }
  };
  // A host that does not listen does not listen at another path either.
  await tryEach(candidatesOf(given), ["silent", "api"]);
  const speaks = (one: Tried): boolean => one.what.is === "api" || one.what.is === "perhaps";
  const mayBeOther = !tried.some(speaks) && tried.some(isOtherProtocol);
  if (mayBeOther && schemes === "either") {
    await tryEach(candidatesOf(otherScheme(given)), ["silent", "api", "perhaps", "moved"]);
  }
  // Where every path is refused alike, the version segment belongs to the address (specification section 9).
  const score = ({ url, what }: Tried): number => 2 * RANK.indexOf(what.is) + (/\/v\d+$/.test(url) ? 0 : 1);
  const [best] = tried.toSorted((a, b) => score(a) - score(b));
  const found = best !== undefined && speaks(best) ? best : null;
  return { found, tried, other: mayBeOther && schemes === "stated" ? otherScheme(given) : null };
};

/** Calls that a search for the right address may make. */
const SEARCH_CALLS = 6;

const elsewhere = async (target: Target, folder: string, calls: SingleCalls): Promise<string | null> => {
  calls.take(SEARCH_CALLS);
  const { scheme, host } = parseHttpUrl(target.base_url);
  // Beyond this machine no advice gives TLS up.
  const schemes = scheme === "http" || isLoopbackHost(host) ? "either" : "stated";
  const { found } = await findBaseUrl(target.base_url, target.transport ?? {}, folder, schemes);
  return found === null ? null : `write "base_url": "${found.url}": the API answers there`;
};

/**
 * What stands at `base_url`, by up to eight calls without a credential. `goOn`: `yes` where the API is there; `one` where a
 * role decides, because some deployments answer 404 to whoever has no credential; `no` where keys must not be sent.
 */
export const addressFinding = async (
  target: Target,
  folder: string,
  calls: SingleCalls,
): Promise<{ readonly found: Finding; readonly goOn: "yes" | "one" | "no" }> => {
  const url = target.base_url;
  const ok = (text: string) => ({ found: finding("ok", "base_url", text), goOn: "yes" }) as const;
  const wrong = (got: string, todo: string, goOn: "one" | "no" = "no") => {
    return { found: finding("wrong", "base_url", `expected the API at ${url}; got ${got}`, todo), goOn };
  };
  const what = await askWhatAnswers(calls);
  switch (what.is) {
    case "api":
      return ok(`${url} answers as the API does`);
    case "perhaps":
      return ok(`${url} answers ${what.first.line.outcome} to every path; the roles show more`);
    case "moved": {
      const redirect = `a redirect (${what.first.answer.status}) to ${what.to}`;
      return wrong(`${redirect}, and redirects are never followed`, "write the address that it leads to");
    }
    case "other": {
      const there = await elsewhere(target, folder, calls);
      const todo = there ?? "does it include the version segment (v1), and is it this host?";
      const goOn = there === null && !isPage(what.first) ? "one" : "no";
      return wrong(`status ${statusInWords(what.first)} for the style catalog`, todo, goOn);
    }
    case "silent": {
      const { text, todo } = notAnswering(url, what.code);
      return { found: finding("silent", "base_url", text, todo), goOn: "no" };
    }
  }
};
