/**
 * Where below a URL the API is: as the URL stands, with the version segment behind it, or a step up. Users paste the address
 * of a documentation page or of the host as often as the one with `/v1`.
 */
import { ROUTES } from "../../contract/routes.ts";
import { createBudget } from "../../target/budget.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target, Transport } from "../../target/target.ts";
import { type Answered, openSingleCalls } from "./single-calls.ts";
import { askWhatAnswers, type WhatAnswers } from "./what-answers.ts";

export type Tried = { readonly url: string; readonly what: WhatAnswers };

type BaseUrlFound = {
  /** Best first; `null` where nothing at any of them is the API. */
  readonly found: Tried | null;
  readonly tried: readonly Tried[];
  /** With the other scheme, where that was not tried and may be meant. */
  readonly other: string | null;
};

const ROUTE_PATHS = Object.values(ROUTES).map(({ path }) => path.replace(/\{.*$/, ""));

/** Addresses to try, the likeliest first, without repetition. */
export const candidatesOf = (given: string): string[] => {
  const { origin, pathname } = new URL(given);
  let path = pathname.replace(/\/+$/, "");
  // The address of one operation is no base address.
  const route = ROUTE_PATHS.find((one) => path.endsWith(one.replace(/\/$/, "")));
  if (route !== undefined) path = path.slice(0, path.length - route.replace(/\/$/, "").length);
  const isVersioned = /\/v\d+$/.test(path);
  const paths = isVersioned ? [path, path.replace(/\/v\d+$/, "")] : [path, `${path}/v1`, "/v1"];
  return [...new Set(paths.map((one) => origin + one))];
};

const otherScheme = (url: string): string =>
  url.startsWith("https:") ? url.replace(/^https:/, "http:") : url.replace(/^http:/, "https:");

const RANK: Readonly<Record<WhatAnswers["is"], number>> = { api: 0, perhaps: 1, moved: 2, other: 3, silent: 4 };

/** `stated`: a scheme that a user typed is kept, so that nothing is looked for in clear that he wrote with TLS. */
export type Schemes = "stated" | "either";

/** `folder`: where `file:` references of the transport start. Two calls a candidate at the most. */
export const findBaseUrl = async (
  given: string,
  transport: Transport,
  folder: string,
  schemes: Schemes = "either",
): Promise<BaseUrlFound> => {
  const ask = async (url: string): Promise<Tried> => {
    const target: Target = { schema: "floodgate/target@1", base_url: url, transport };
    const calls = await openSingleCalls({
      target,
      secrets: createSecrets(folder),
      budget: createBudget(target, false),
    });
    try {
      return { url, what: await askWhatAnswers(calls) };
    } finally {
      await calls.close();
    }
  };
  const tried: Tried[] = [];
  for (const url of candidatesOf(given)) {
    tried.push(await ask(url));
    // Who does not listen does not listen at another path either.
    if (tried.at(-1)?.what.is === "silent") break;
    if (tried.at(-1)?.what.is === "api") break;
  }
  const speaks = (one: Tried): boolean => one.what.is === "api" || one.what.is === "perhaps";
  const mayBeOther = !tried.some(speaks) && tried.some(isOtherProtocol);
  if (mayBeOther && schemes === "either") {
    for (const url of candidatesOf(otherScheme(given))) {
      tried.push(await ask(url));
      if (tried.at(-1)?.what.is !== "other") break;
    }
  }
  // Where every path is refused alike, the version segment belongs to the address (specification section 9).
  const score = ({ url, what }: Tried): number => 2 * RANK[what.is] + (/\/v\d+$/.test(url) ? 0 : 1);
  const [best] = tried.toSorted((a, b) => score(a) - score(b));
  const found = best !== undefined && speaks(best) ? best : null;
  return { found, tried, other: mayBeOther && schemes === "stated" ? otherScheme(given) : null };
};

/** Plain HTTP to a TLS port is hung up on, answered 400 or led to https; TLS to a plain port breaks off in the handshake. */
const isOtherProtocol = ({ url, what }: Tried): boolean => {
  if (what.is === "moved") return what.to.startsWith(`${new URL(otherScheme(url)).protocol}//${new URL(url).hostname}`);
  return what.is === "silent"
    ? /^(EPROTO|ERR_SSL|HPE_|HTTPParserError|UND_ERR_SOCKET|ECONNRESET)/.test(what.code)
    : isBadRequest(what.first);
};

const isBadRequest = ({ answer }: Answered): boolean => answer.status === 400;
