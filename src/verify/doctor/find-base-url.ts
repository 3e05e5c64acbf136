/** Looks for the API at and around an address: asks for the style catalog without a credential. Sends no secret. */
import { networkAdvice, toldOf } from "../../client/network-errors.ts";
import { isLoopbackHost, parseHttpUrl } from "../../contract/address.ts";
import { foreignAddress, foreignProduct, foreignSentence } from "../../contract/foreign-text.ts";
import { codingOf, isObject, parseJson } from "../../contract/refusals.ts";
import { ROUTES } from "../../contract/routes.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target, Transport } from "../../target/target.ts";
import { NOT_A_PAGE, servesEverything } from "../reach.ts";
import { NO_SUCH_PATH } from "../sending/test-call.ts";
import { clockFinding, echoFinding, protocolFindings } from "./connection.ts";
import { type Finding, finding } from "./finding.ts";
import {
  type Answered,
  headerOf,
  openSingleCalls,
  type SingleCalls,
  UNCODED,
  withSingleCalls,
} from "./single-calls.ts";

/**
 * `api`: it answers as the API does. `perhaps`: it refuses every path alike. `all`: it serves every path, also without a key.
 * `other`: something else answers.
 */
type WhatAnswers =
  | { readonly is: "api" | "perhaps" | "all" | "other"; readonly first: Answered }
  | { readonly is: "moved"; readonly first: Answered; readonly to: string }
  | { readonly is: "silent"; readonly first: Answered; readonly code: string };

const CATALOG = { route: "design.styles", credential: { as: "none" } } as const;

const isServed = ({ answer: { status } }: Answered): boolean => status !== null && status >= 200 && status < 300;

const plainGet = (calls: SingleCalls, path: string): Promise<Answered> => calls.ask(CATALOG, { route: "-", path });

const isPage = (sent: Answered): boolean => /html/i.test(headerOf(sent, "content-type") ?? "");

const statusInWords = (sent: Answered): string => {
  const coding = codingOf(headerOf(sent, "content-encoding"));
  return `${sent.answer.status}${isPage(sent) ? " with an HTML page" : ""}${coding === null ? "" : `, coded (${coding}) though every call asks for no coding`}`;
};

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
  const nowhere = await plainGet(calls, NO_SUCH_PATH);
  if (nowhere.answer.status !== status) return { is: "api", first };
  return { is: isServed(first) ? "all" : "perhaps", first };
};

/**
 * Says that something else than the API serves every path of a target, also without a key; `null` if it does not. Takes one
 * call where the API answers.
 */
export const serverOfEverything = async (parts: Parameters<typeof openSingleCalls>[0]): Promise<string | null> => {
  const calls = await openSingleCalls(parts);
  try {
    const nowhere = await plainGet(calls, NO_SUCH_PATH);
    if (!isServed(nowhere) || !isServed(await calls.ask(CATALOG))) return null;
    return servesEverything(parts.target.base_url, nowhere.answer.status);
  } finally {
    await calls.close();
  }
};

export type Tried = { readonly url: string; readonly what: WhatAnswers };

const ROUTE_PATHS = Object.values(ROUTES).map(({ path }) => path.replace(/\{.*$/, "").replace(/\/$/, ""));

export const candidatesOf = (given: string): string[] => {
  const { origin, pathname } = new URL(given);
  const whole = pathname.replace(/\/+$/, "");
  // The path of an operation is cut off, because it is no part of the base address.
  const route = ROUTE_PATHS.find((one) => whole.endsWith(one)) ?? "";
  const path = whole.slice(0, whole.length - route.length);
  const isVersioned = /\/v\d+$/.test(path);
  const paths = isVersioned ? [path, path.replace(/\/v\d+$/, "")] : [path, `${path}/v1`, "/v1"];
  return [...new Set(paths.map((one) => origin + one))];
};

const otherScheme = (url: string): string => url.replace(/^http(s?):/, (_, s) => (s === "" ? "https:" : "http:"));

/** A TLS port closes on plain HTTP, answers 400 or redirects to https; a plain port fails the TLS handshake. */
const isOtherProtocol = ({ url, what }: Tried): boolean => {
  if (what.is === "moved") return what.to.startsWith(`${new URL(otherScheme(url)).protocol}//${new URL(url).hostname}`);
  if (what.is !== "silent") return what.first.answer.status === 400 && url.startsWith("http:");
  // What sends an alert or another version of TLS speaks TLS.
  return /^(EPROTO|ERR_SSL(?!.*(?:ALERT|TLSV1|UNSUPPORTED_PROTOCOL))|HPE_|HTTPParserError|UND_ERR_SOCKET|ECONNRESET)/.test(
    what.code,
  );
};

const BEHIND = "a gateway answers: is the API behind it running, and does it take these calls?";
/** AWS API Gateway answers so where it has no such path. */
const REFUSED =
  "is every part of the path there, up to the version segment (v1)? If so, a gateway refuses these calls: have it let them through";
const GUARDED =
  "does something in front of the API ask for a credential of its own (transport.headers), or put pages in place of refusals?";

const MISDIRECTED =
  'the gateway serves this address by another host name, or by HTTP/2 alone ("transport": { "protocol": "h2" })';
/** nginx answers so over TLS; others end the handshake. */
const UNCERTIFIED =
  'does the gateway want a client certificate ("transport": { "cert", "key" }), or another version segment (v1) in base_url?';

/** Advice if the answer shows by itself that a gateway stands before the API, else `null`. */
const gatewayAdvice = (sent: Answered, { base_url, transport }: Pick<Target, "base_url" | "transport">) => {
  const { status } = sent.answer;
  if (status === 421) return MISDIRECTED;
  const hasCertificate = typeof transport?.cert === "string";
  if (status === 400 && base_url.startsWith("https:") && !hasCertificate && isPage(sent)) return UNCERTIFIED;
  if (codingOf(headerOf(sent, "content-encoding")) !== null) return UNCODED;
  if (status === 403) return REFUSED;
  if (status === 401 && isPage(sent)) return GUARDED;
  return status !== null && status >= 500 ? BEHIND : null;
};

const RANK: readonly WhatAnswers["is"][] = ["api", "perhaps", "moved", "all", "other", "silent"];

/** `stated`: a scheme that a user typed is kept, so that https is never given up for http. */
type Schemes = "stated" | "either";

export const findBaseUrl = async (given: string, transport: Transport, folder: string, schemes: Schemes = "either") => {
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
  if (mayBeOther && schemes === "either")
    await tryEach(candidatesOf(otherScheme(given)), ["silent", "api", "perhaps", "moved"]);
  // If every path is refused alike, the address with the version segment is preferred (specification section 9).
  const score = ({ url, what }: Tried): number => 2 * RANK.indexOf(what.is) + (/\/v\d+$/.test(url) ? 0 : 1);
  const [best] = tried.toSorted((a, b) => score(a) - score(b));
  const found = best !== undefined && speaks(best) ? best : null;
  const moved = tried.find((one) => one.what.is === "moved" && isOtherProtocol(one))?.what;
  // A redirect may lead to another port as well.
  const other = moved?.is === "moved" ? moved.to.replace(/\/design\/styles$/, "") : otherScheme(given);
  return { found, tried, other: mayBeOther && schemes === "stated" ? other : null };
};

const SEARCH_CALLS = 6;

const elsewhere = async (target: Target, folder: string, calls: SingleCalls): Promise<string | null> => {
  calls.take(SEARCH_CALLS);
  const { scheme, host } = parseHttpUrl(target.base_url);
  // Except for this machine, no advice replaces https by http.
  const schemes = scheme === "http" || isLoopbackHost(host) ? "either" : "stated";
  const { found } = await findBaseUrl(target.base_url, target.transport ?? {}, folder, schemes);
  return found === null ? null : `write "base_url": "${found.url}": the API answers there`;
};

/** `goOn`: `yes`, the API is there; `one`, a role decides, because some answer 404 without a key; `no`, send no key. */
export const addressFinding = async (target: Target, folder: string, calls: SingleCalls) => {
  const url = target.base_url;
  const ok = (text: string) => ({ found: finding("ok", "base_url", text), goOn: "yes" }) as const;
  const wrong = (got: string, todo: string, goOn: "one" | "no" = "no") =>
    ({ found: finding("wrong", "base_url", `expected the API at ${url}; got ${got}`, todo), goOn }) as const;
  const what = await askWhatAnswers(calls);
  const { is, first } = what;
  if (is === "api") return ok(`${url} answers as the API does`);
  if (is === "perhaps") return ok(`${url} answers ${first.line.outcome} to every path; the roles show more`);
  const silent = (text: string, todo: string) =>
    ({ found: finding("silent", "base_url", text, todo), goOn: "no" }) as const;
  if (is === "silent") {
    const { text, todo } = toldOf(`${url} does not answer`, what.code);
    return silent(text, todo);
  }
  const redirect = `a redirect (${first.answer.status}) to ${is === "moved" ? what.to : ""}, and redirects are never followed`;
  if (is === "moved") return wrong(redirect, "write the address that it leads to");
  const everywhere = `status ${first.answer.status} to every path, also without a key and where nothing can be`;
  if (is === "all") return wrong(everywhere, NOT_A_PAGE);
  const there = await elsewhere(target, folder, calls);
  const todo =
    there ?? gatewayAdvice(first, target) ?? "does it include the version segment (v1), and is it this host?";
  // The address is right where a gateway says that the API behind it does not answer.
  if (todo === BEHIND && isPage(first)) return silent(`${url} answers ${statusInWords(first)}`, todo);
  const goOn = there === null && !isPage(first) ? "one" : "no";
  return wrong(`status ${statusInWords(first)} for the style catalog`, todo, goOn);
};

/** A 401 shows that the route exists, unless the server answers 401 on every path. */
const isThere = ({ line }: Answered): boolean => line.outcome === "401";

const triedInWords = ({ url, what }: Tried): string => {
  if (what.is === "silent") return toldOf(`${url} does not answer`, what.code).text;
  if (what.is === "moved") return `${url} leads to ${what.to}`;
  if (what.is === "all") return `${url} answers ${what.first.answer.status} to every path`;
  return `${url} answers ${statusInWords(what.first)}`;
};

const notFound = (tried: readonly Tried[], transport: Transport, other: string | null) => {
  const text = `nothing of the API was found: ${tried.map(triedInWords).join("; ")}`;
  const silent = tried.every(({ what }) => what.is === "silent");
  const first = tried[0]?.what;
  const elsewhere = "is this the API's own address, and not that of its documentation or console?";
  const [behind, ...others] = tried.map(({ url, what }) => gatewayAdvice(what.first, { base_url: url, transport }));
  const told = others.every((one) => one === behind) ? (behind ?? elsewhere) : elsewhere;
  const advice = first?.is === "silent" ? networkAdvice(first.code).withoutFile : told;
  const todo = other === null ? advice : `the scheme that you typed is kept; does ${other} answer?`;
  const findings = [finding(silent ? "silent" : "wrong", "base_url", text, todo)];
  return { findings, baseUrl: null, tileUrl: undefined, keyManagement: false, silent };
};

const openApiFinding = async (base: string, calls: SingleCalls): Promise<Finding> => {
  for (const path of ["/openapi.json", "/../openapi.json"]) {
    const { answer } = await plainGet(calls, path);
    const document = answer.status === 200 ? parseJson(answer.text) : null;
    if (!isObject(document)) continue;
    const { info, paths } = document as { info?: { title?: unknown } | null; paths?: object | null };
    const title = typeof info?.title === "string" ? foreignSentence(info.title) : "no title";
    const text = `${new URL(base + path).href}: ${title}, ${Object.keys(paths ?? {}).length} paths`;
    return finding("ok", "openapi.json", text);
  }
  return finding("info", "openapi.json", "there is none; nothing depends on it");
};

const NO_TILES = "no tiles at the path that the reference platform has; set tile_url if they are elsewhere";

export type Probed = Awaited<ReturnType<typeof probeAddress>>;

/** What `init` finds out about an address, by about a dozen calls without a credential. */
export const probeAddress = async (given: string, transport: Transport, folder: string, schemes?: Schemes) => {
  const { found, tried, other } = await findBaseUrl(given, transport, folder, schemes);
  if (found === null) return notFound(tried, transport, other);
  const { url, what } = found;
  const target: Target = { schema: "floodgate/target@1", base_url: url, transport };
  return withSingleCalls(target, folder, async (calls) => {
    const none = { credential: { as: "none" }, via: "authorization" } as const;
    const shows = what.is === "api";
    const hasTiles = shows && isThere(await calls.ask({ route: "maps.tiles", ...none }));
    const keys = await calls.ask({ route: "keys.create", ...none }, { body: "{}" });
    const tileUrl = hasTiles ? `${url}/maps/tiles/{z}/{x}/{y}` : undefined;
    const text = shows
      ? `${url} answers as the API does`
      : `${url} answers ${what.first.line.outcome} to every path: doctor will show whether the keys work there`;
    const server = headerOf(what.first, "server");
    // The echo is judged before the call outside the version segment, whose answer may echo no id.
    const echo = echoFinding(calls.answers);
    const openApi = await openApiFinding(url, calls);
    const findings = [
      finding(shows ? "ok" : "warn", "base_url", text),
      ...(await protocolFindings(target, createSecrets(folder), Date.now())),
      finding("info", "server", server === undefined ? "sends no Server header" : foreignProduct(server)),
      clockFinding([what.first, ...calls.answers]),
      echo,
      openApi,
      finding("info", "tiles", tileUrl ?? NO_TILES),
    ];
    return { findings, baseUrl: url, tileUrl, keyManagement: shows && isThere(keys), silent: false };
  });
};
