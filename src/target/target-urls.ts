/**
 * Every URL of a target file, each parsed once (`contract/address.ts`): references are read first, then the canonical form
 * takes the place of what was written. Guard, drivers, doctor and fault control see nothing else.
 */
import { AddressError, type HttpAddress, parseHttpUrl } from "../contract/address.ts";
import { redactor } from "../supervision/redaction.ts";
import { isReference, type Secrets } from "./secrets.ts";
import type { Target } from "./target.ts";

/** `change` gets each URL that the file states, with the path of its field. */
export const mapTargetUrls = (target: Target, change: (field: string, url: string) => string): Target => {
  const one = <V extends string | null | undefined>(field: string, url: V): V =>
    typeof url === "string" ? (change(field, url) as V) : url;
  const { key_management_url, tile_url, transport, control, toxiproxy, watchdog, observers } = target;
  const prometheus = observers?.prometheus;
  return {
    ...target,
    base_url: one("base_url", target.base_url),
    ...(key_management_url && { key_management_url: one("key_management_url", key_management_url) }),
    ...(tile_url && { tile_url: one("tile_url", tile_url) }),
    ...(transport && {
      transport: { ...transport, ...(transport.proxy && { proxy: one("transport.proxy", transport.proxy) }) },
    }),
    ...(control && {
      control: {
        ...control,
        ...(control.keys && { keys: one("control.keys", control.keys) }),
        ...(control.limiter && { limiter: one("control.limiter", control.limiter) }),
        ...(control.api && { api: control.api.map((url, i) => one(`control.api[${i}]`, url)) }),
      },
    }),
    ...(toxiproxy && { toxiproxy: { ...toxiproxy, api_url: one("toxiproxy.api_url", toxiproxy.api_url) } }),
    ...(watchdog && { watchdog: { ...watchdog, url: one("watchdog.url", watchdog.url) } }),
    ...(observers &&
      prometheus && {
        observers: {
          ...observers,
          prometheus: { ...prometheus, url: one("observers.prometheus.url", prometheus.url) },
        },
      }),
  };
};

/** A query may stand in the one URL that is sent as it is written. */
const MAY_HAVE_QUERY = new Set(["tile_url"]);
/** User and password would reach logs, reports and whoever is asked; a proxy has no other way to be told them. */
const MAY_HAVE_USER = new Set(["transport.proxy"]);

/** The canonical address of a field. Throws `AddressError`. */
export const addressOfField = (field: string, url: string): HttpAddress => {
  const address = parseHttpUrl(url);
  if (address.user !== "" && !MAY_HAVE_USER.has(field)) {
    throw new AddressError("expected a URL without user and password; write keys under credentials");
  }
  if (field === "tile_url" && !["{z}", "{x}", "{y}"].every((part) => (address.path + address.query).includes(part))) {
    throw new AddressError("expected {z}, {x} and {y} behind the host");
  }
  if (address.query !== "" && !MAY_HAVE_QUERY.has(field)) throw new AddressError("expected a URL without a query (?)");
  return address;
};

/** A short text of harmless characters: anything else could be a secret or deceive the reader. */
const shownUrl = (url: string): string => (/^[\w.:/-]{1,80}$/.test(url) ? `"${url}"` : "another text");

/** References are left as they are: a file may be checked where their values are not. `problems` gets what is wrong. */
export const withCanonicalUrls = (target: Target, problems: string[]): Target =>
  mapTargetUrls(target, (field, url) => {
    if (isReference(url)) return url;
    redactor.registerUrl(url, field);
    try {
      const { href } = addressOfField(field, url);
      return field === "tile_url" ? href : href.replace(/\/+$/, "");
    } catch (error) {
      if (!(error instanceof AddressError)) throw error;
      problems.push(`${field}: ${error.message}; got ${shownUrl(url)}`);
      return url;
    }
  });

/** With the value in place of each reference. Throws `SecretError`. */
export const withUrlsRead = async (target: Target, secrets: Secrets): Promise<Target> => {
  const values = new Map<string, string>();
  const wanted: [field: string, ref: string][] = [];
  mapTargetUrls(target, (field, url) => {
    if (isReference(url)) wanted.push([field, url]);
    return url;
  });
  for (const [field, ref] of wanted) values.set(field, await secrets.read(ref, field));
  return mapTargetUrls(target, (field, url) => values.get(field) ?? url);
};
