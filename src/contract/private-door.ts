/**
 * Tells whether a browser sent a request to a listener for programs. A page can call a loopback port, but cannot hide its
 * origin, the name that it calls (`Host`, against DNS rebinding), or that its body is not JSON.
 */
import { AddressError, canonicalHost, isLoopbackHost, parseAddress } from "./address.ts";

type Knock = {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Holds the name and the value of each header in turn, as they came, so that a repeated header shows. */
  readonly rawHeaders: readonly string[];
};

type Foreign = { readonly status: 400 | 403 | 415; readonly error: string };

/** Names that no public registry assigns. */
const PRIVATE_NAME = /^[^.]+$|\.(?:localhost|local|internal|svc)$/;

type Door = {
  /** The listener's address. On loopback only loopback names are accepted. */
  readonly bound: string;
  /** Further accepted names beyond loopback. */
  readonly names: readonly string[];
};

const isOurs = (host: string, { bound, names }: Door): boolean => {
  try {
    const asked = canonicalHost(host);
    if (isLoopbackHost(asked)) return true;
    if (isLoopbackHost(bound)) return false;
    return parseAddress(asked) !== null || PRIVATE_NAME.test(asked) || names.includes(asked);
  } catch (error) {
    if (error instanceof AddressError) return false;
    throw error;
  }
};

export const whyForeign = ({ headers, rawHeaders }: Knock, door: Door): Foreign | null => {
  const hosts = rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === "host");
  if (hosts.length !== 1) return { status: 400, error: `expected one Host header, got ${hosts.length}` };
  const forbidden = (error: string): Foreign => ({ status: 403, error });
  const [, host = ""] = /^(\[[^\]]*\]|[^:]*)(?::\d+)?$/.exec(hosts[0] as string) ?? [];
  if (!isOurs(host, door)) {
    return forbidden(
      "expected a Host that is this machine's: loopback, or beyond it an IP address, a name without dots or one under .internal, .local or .svc",
    );
  }
  if (headers.origin !== undefined) return forbidden("expected no Origin: pages have no business here");
  if (!/^(?:none|same-origin)$/.test(`${headers["sec-fetch-site"] ?? "none"}`)) {
    return forbidden("expected no request that a page of another site makes");
  }
  const hasBody = headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
  const isJson = /^application\/json *(?:;|$)/i.test(`${headers["content-type"] ?? ""}`);
  return hasBody && !isJson ? { status: 415, error: "expected Content-Type: application/json" } : null;
};
