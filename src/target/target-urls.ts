/** Replaces every URL of a target file, references resolved, by its canonical form (`contract/address.ts`). */
import { resolve } from "node:path";
import { AddressError, type HttpAddress, parseHttpUrl } from "../contract/address.ts";
import type { TargetName } from "../supervision/journal.ts";
import { redactor } from "../supervision/redaction.ts";
import { isReference, type Secrets } from "./secrets.ts";
import type { Target } from "./target.ts";

const URL_FIELDS = [
  ...["base_url", "key_management_url", "tile_url", "transport.proxy", "control.keys", "control.limiter"],
  ...["control.api", "toxiproxy.api_url", "watchdog.url", "observers.prometheus.url"],
];

type Fields = Record<string, unknown>;

/** Every URL of the file with its field's path, such as `control.api[0]`. */
export const urlsOf = (target: Target): { field: string; url: string; replace(by: string): void }[] =>
  URL_FIELDS.flatMap((field) => {
    const names = field.split(".");
    const last = names.pop() as string;
    const holder = names.reduce<unknown>((node, name) => (node as Fields | null | undefined)?.[name], target) as Fields;
    const found = holder?.[last];
    const put = (within: Fields, at: string | number) => (by: string) => void Object.assign(within, { [at]: by });
    if (typeof found === "string") return [{ field, url: found, replace: put(holder, last) }];
    const list = Array.isArray(found) ? (found as string[]) : [];
    return list.map((url, i) => ({ field: `${field}[${i}]`, url, replace: put(found as Fields, i) }));
  });

/** The canonical address of a field. Throws `AddressError`. */
export const addressOfField = (field: string, url: string): HttpAddress => {
  const address = parseHttpUrl(url);
  // Credentials in a URL would reach logs and reports. A proxy has no other place for them.
  if (address.user !== "" && field !== "transport.proxy") {
    throw new AddressError("expected a URL without user and password; write keys under credentials");
  }
  if (field === "tile_url" && !["{z}", "{x}", "{y}"].every((part) => (address.path + address.query).includes(part))) {
    throw new AddressError("expected {z}, {x} and {y} behind the host");
  }
  // Only a tile's URL may have a query, because it is sent as written.
  if (address.query !== "" && field !== "tile_url") throw new AddressError("expected a URL without a query (?)");
  return address;
};

/** Quotes only ordinary URLs; other characters could be a secret or mislead the reader. */
const shownUrl = (url: string): string => (/^[\w.:/-]{1,80}$/.test(url) ? `"${url}"` : "another text");

/** Makes URLs canonical, except references, whose values may not be available. Adds errors to `problems`. */
export const withCanonicalUrls = (target: Target, problems: string[]): Target => {
  const copy = structuredClone(target);
  for (const { field, url, replace } of urlsOf(copy)) {
    if (isReference(url)) continue;
    redactor.registerUrl(url, field);
    try {
      const { href } = addressOfField(field, url);
      replace(field === "tile_url" ? href : href.replace(/\/+$/, ""));
    } catch (error) {
      if (!(error instanceof AddressError)) throw error;
      problems.push(`${field}: ${error.message}; got ${shownUrl(url)}`);
    }
  }
  return copy;
};

/** Replaces URLs that are references by their values. Throws `SecretError`. */
export const withUrlsRead = async (target: Target, secrets: Secrets): Promise<Target> => {
  const copy = structuredClone(target);
  for (const { field, url, replace } of urlsOf(copy)) {
    if (isReference(url)) replace(await secrets.read(url, field));
  }
  return copy;
};

/** Normalizes a base URL: drops what identifies no target (host's case, trailing slash, credentials, query). */
export const targetUrl = (baseUrl: string): string => {
  const url = new URL(baseUrl);
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/+$/, "")}`;
};

/** Identifies a deployment in a journal: base URL, and for people the name and place of its target file. */
export const targetName = ({ name, base_url }: Target, file?: string): TargetName => ({
  base_url: targetUrl(base_url),
  name,
  ...(file !== undefined && { file: resolve(file) }),
});

export const isSameTarget = (named: TargetName, { base_url }: Pick<Target, "base_url">): boolean =>
  named.base_url === targetUrl(base_url);
