/**
 * Where a call comes from: the browser's `Origin` against a key's allowlist, the caller's address against a server key's
 * (items 43-44, 52-56, 71-73, 145-152; A6). A browser is whoever sends an `Origin`, whatever its value.
 */
import { isLoopbackHost } from "../contract/loopback.ts";
import type { KeyRecord } from "./records.ts";

const DEFAULT_PORT: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

/**
 * `scheme://host[:port]` with lower-case scheme and host and without a default port; `null` for anything else, also for
 * the opaque origin `null` (item 53).
 */
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

/** Whether a key's allowlist names this origin. A test publishable key without a list admits loopback only (item 54). */
export const originListed = (key: KeyRecord, origin: string): boolean => {
  // The common case is an exact spelling, and this runs on every call of a session.
  if (key.allowed_origins.includes(origin) && origin !== "null") return true;
  const normalized = normalizeOrigin(origin);
  if (normalized === null) return false;
  if (key.allowed_origins.length === 0)
    return key.kind === "publishable" && key.env === "test" && isLoopback(normalized);
  for (const listed of key.allowed_origins) if (normalizeOrigin(listed) === normalized) return true;
  return false;
};

/** An address as bytes: 4 for IPv4 (also when written as ::ffff:a.b.c.d), 16 for IPv6; `null` for no address. */
export const parseAddress = (text: string): number[] | null => {
  const v4 = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (v4 !== null) {
    const bytes = v4.slice(1).map(Number);
    return bytes.every((byte) => byte <= 255) ? bytes : null;
  }
  const bare = text.replace(/^\[|\]$/g, "").replace(/%.*$/, "");
  if (!/^[0-9a-fA-F:.]+$/.test(bare) || !bare.includes(":")) return null;
  const mapped = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(bare);
  let groups = bare;
  if (mapped !== null) {
    const tail = parseAddress(mapped[2] as string);
    if (tail === null) return null;
    const [a, b, c, d] = tail as [number, number, number, number];
    groups = `${mapped[1]}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  }
  const halves = groups.split("::");
  if (halves.length > 2) return null;
  const side = (half: string): number[] =>
    half === ""
      ? []
      : half.split(":").map((group) => (/^[0-9a-fA-F]{1,4}$/.test(group) ? Number.parseInt(group, 16) : Number.NaN));
  const head = side(halves[0] as string);
  const tail = halves.length === 2 ? side(halves[1] as string) : [];
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null;
  const all = [...head, ...new Array<number>(halves.length === 2 ? missing : 0).fill(0), ...tail];
  if (all.some(Number.isNaN)) return null;
  const bytes = all.flatMap((group) => [group >> 8, group & 0xff]);
  const isMapped = bytes.slice(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff && bytes[11] === 0xff;
  return isMapped ? bytes.slice(12) : bytes;
};

/** Whether `address` lies in `block`, an address or a CIDR block of either family (item 55). */
export const inBlock = (address: string, block: string): boolean => {
  const [network, bitsText, more] = block.split("/");
  if (more !== undefined) return false;
  const a = parseAddress(address);
  const b = parseAddress(network as string);
  if (a === null || b === null || a.length !== b.length) return false;
  // Not `Number`, to which an empty text is 0: a slip of the pen must not list the whole internet.
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

/** Whether the text is an address or a CIDR block at all. */
export const isBlock = (block: string): boolean => inBlock(block.split("/", 1)[0] as string, block);

export const addressListed = (key: KeyRecord, address: string): boolean =>
  key.allowed_ips.length === 0 || key.allowed_ips.some((block) => inBlock(address, block));
