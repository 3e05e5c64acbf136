/**
 * Matches origins and addresses against a key's lists (items 43-44, 52-56, 71-73, 145-152; A6). Any `Origin` means a browser.
 */
import { isLoopbackHost, parseAddress } from "../contract/address.ts";
import type { KeyRecord } from "./call.ts";

const DEFAULT_PORT: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

/** `scheme://host[:port]` in lower case without a default port; `null` for anything else, `null` included (item 53). */
export const normalizeOrigin = (origin: string): string | null => {
  const match = /^([a-z][a-z0-9+.-]*:)\/\/(\[[0-9a-f:.]+\]|[^/?#@:[\]\s]+)(?::(\d{1,5}))?\/?$/i.exec(origin);
  if (match === null) return null;
  const scheme = (match[1] as string).toLowerCase();
  const port = match[3];
  const host = (match[2] as string).toLowerCase();
  return port === undefined || port === DEFAULT_PORT[scheme] ? `${scheme}//${host}` : `${scheme}//${host}:${port}`;
};

const isLoopback = (normalized: string): boolean => {
  const host = /^https?:\/\/(\[[^\]]+\]|[^:]+)(?::\d+)?$/.exec(normalized)?.[1];
  return host !== undefined && isLoopbackHost(host);
};

/** Reports whether the key admits this origin; a test key without a list admits loopback alone (item 54). */
export const originListed = (key: KeyRecord, origin: string): boolean => {
  // Fast path: this runs on every call of a session.
  if (key.allowed_origins.includes(origin) && origin !== "null") return true;
  const normalized = normalizeOrigin(origin);
  if (normalized === null) return false;
  if (key.allowed_origins.length === 0)
    return key.kind === "publishable" && key.env === "test" && isLoopback(normalized);
  for (const listed of key.allowed_origins) if (normalizeOrigin(listed) === normalized) return true;
  return false;
};

/** Reports whether `address` is in `block`, an address or a CIDR block of either family (item 55). */
export const inBlock = (address: string, block: string): boolean => {
  const [network, bitsText, more] = block.split("/");
  if (more !== undefined) return false;
  const a = parseAddress(address);
  const b = parseAddress(network as string);
  if (a === null || b === null || a.length !== b.length) return false;
  // `Number("")` is 0, so `a.b.c.d/` would list the whole internet.
  if (bitsText !== undefined && !/^\d{1,3}$/.test(bitsText)) return false;
  const bits = bitsText === undefined ? a.length * 8 : Number(bitsText);
  if (bits > a.length * 8) return false;
  for (let i = 0; i < a.length; i += 1) {
    const wanted = Math.min(8, Math.max(0, bits - i * 8));
    const mask = (0xff << (8 - wanted)) & 0xff;
    if (((a[i] as number) & mask) !== ((b[i] as number) & mask)) return false;
  }
  return true;
};

export const isBlock = (block: string): boolean => inBlock(block.split("/", 1)[0] as string, block);

export const addressListed = (key: KeyRecord, address: string): boolean =>
  key.allowed_ips.length === 0 || key.allowed_ips.some((block) => inBlock(address, block));
