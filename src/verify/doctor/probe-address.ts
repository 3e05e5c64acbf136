/** What `init` finds out about an address without a key: where the API is, and what else is there. */

import { networkAdvice } from "../../client/network-errors.ts";
import { foreignProduct, foreignSentence } from "../../contract/foreign-text.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target, Transport } from "../../target/target.ts";
import { clockFinding, echoFinding, protocolFindings } from "./connection.ts";
import { findBaseUrl, plainGet, type Schemes, statusInWords, type Tried } from "./find-base-url.ts";
import { type Finding, finding } from "./finding.ts";
import { type Answered, headerOf, type SingleCalls, withSingleCalls } from "./single-calls.ts";

export type Probed = {
  readonly findings: readonly Finding[];
  /** Where the API is; `null` where it was not found. */
  readonly baseUrl: string | null;
  readonly tileUrl: string | undefined;
  readonly keyManagement: boolean;
  /** Nobody answered at all. */
  readonly silent: boolean;
};

/** Refused for want of a credential: the route is there. Whoever refuses every path alike shows nothing. */
const isThere = ({ line }: Answered): boolean => line.outcome === "401";

const triedInWords = ({ url, what }: Tried): string => {
  if (what.is === "silent") return `${url} does not answer (${what.code})`;
  if (what.is === "moved") return `${url} leads to ${what.to}`;
  return `${url} answers ${statusInWords(what.first)}`;
};

const notFound = (tried: readonly Tried[], other: string | null): Probed => {
  const text = `nothing of the API was found: ${tried.map(triedInWords).join("; ")}`;
  const silent = tried.every(({ what }) => what.is === "silent");
  const first = tried[0]?.what;
  const todo =
    other !== null
      ? `the scheme that you typed is kept; does ${other} answer?`
      : first?.is === "silent"
        ? networkAdvice(first.code).withoutFile
        : "is this the API's own address, and not that of its documentation or console?";
  const findings = [finding(silent ? "silent" : "wrong", "base_url", text, todo)];
  return { findings, baseUrl: null, tileUrl: undefined, keyManagement: false, silent };
};

/** The description of the API is beside the version segment or below it. */
const openApiFinding = async (base: string, calls: SingleCalls): Promise<Finding> => {
  for (const path of ["/openapi.json", "/../openapi.json"]) {
    const { answer } = await plainGet(calls, path);
    if (answer.status !== 200) continue;
    try {
      const { info, paths } = JSON.parse(answer.text) as { info?: { title?: string }; paths?: object };
      const title = typeof info?.title === "string" ? foreignSentence(info.title) : "no title";
      const text = `${new URL(base + path).href}: ${title}, ${Object.keys(paths ?? {}).length} paths`;
      return finding("ok", "openapi.json", text);
    } catch {
      // Something else is called so there.
    }
  }
  return finding("info", "openapi.json", "there is none; nothing depends on it");
};

/** About a dozen calls, none of them with a credential. */
export const probeAddress = async (
  given: string,
  transport: Transport,
  folder: string,
  schemes: Schemes = "either",
): Promise<Probed> => {
  const { found, tried, other } = await findBaseUrl(given, transport, folder, schemes);
  if (found === null) return notFound(tried, other);
  const { url, what } = found;
  const target: Target = { schema: "floodgate/target@1", base_url: url, transport };
  return withSingleCalls(target, folder, async (calls): Promise<Probed> => {
    const none = { credential: { as: "none" }, via: "authorization" } as const;
    const shows = what.is === "api";
    const hasTiles = shows && isThere(await calls.ask({ route: "maps.tiles", ...none }));
    const keys = await calls.ask({ route: "keys.create", ...none }, { body: "{}" });
    const tileUrl = hasTiles ? `${url}/maps/tiles/{z}/{x}/{y}` : undefined;
    const text = shows
      ? `${url} answers as the API does`
      : `${url} answers ${what.first.line.outcome} to every path: doctor will show whether the keys work there`;
    const server = headerOf(what.first, "server");
    // Before the call beside the version segment, where an id may not be echoed.
    const echo = echoFinding(calls.answers);
    const openApi = await openApiFinding(url, calls);
    const findings = [
      finding(shows ? "ok" : "warn", "base_url", text),
      ...(await protocolFindings(target, createSecrets(folder), Date.now())),
      finding("info", "server", server === undefined ? "says nothing of itself" : foreignProduct(server)),
      clockFinding([what.first, ...calls.answers]),
      echo,
      openApi,
      finding("info", "tiles", tileUrl ?? "not seen at the reference's path; set tile_url yourself"),
    ];
    return { findings, baseUrl: url, tileUrl, keyManagement: shows && isThere(keys), silent: false };
  });
};
