/** Parses addresses into one form, by which guard and drivers take a text for the same host. k6 has no `URL`. */

/** The message is "expected …" and never repeats the text, which may hold a password. */
export class AddressError extends Error {
  override name = "AddressError";
}

const wrong = (expected: string): AddressError => new AddressError(`expected ${expected}`);

export type HttpAddress = {
  readonly scheme: "http" | "https";
  /** In lower case; IPv4 as four decimal numbers, IPv6 in brackets and in its shortest form. */
  readonly host: string;
  /** Digits; empty for the scheme's default port. */
  readonly port: string;
  /** `user:password`, or empty. */
  readonly user: string;
  readonly path: string;
  /** With its question mark, or empty. */
  readonly query: string;
  readonly href: string;
};

/** The bytes of an address: 4 for IPv4 (also for ::ffff:a.b.c.d), 16 for IPv6; `null` for anything else. */
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

/** Formats IPv6 by RFC 5952: `::` replaces the longest run of two or more zero groups. */
const shortestIpv6 = (bytes: readonly number[]): string => {
  const groups = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i] as number) << 8) | (bytes[2 * i + 1] as number));
  let [from, length] = [0, 0];
  for (let i = 0; i < 8; i += 1) {
    let zeros = 0;
    while (i + zeros < 8 && groups[i + zeros] === 0) zeros += 1;
    if (zeros > length) [from, length] = [i, zeros];
  }
  const text = (some: number[]): string => some.map((group) => group.toString(16)).join(":");
  return length < 2 ? text(groups) : `${text(groups.slice(0, from))}::${text(groups.slice(from + length))}`;
};

const numberOf = (part: string): number => {
  if (/^0x[0-9a-f]*$/.test(part)) return part === "0x" ? 0 : Number.parseInt(part, 16);
  if (/^0[0-7]*$/.test(part)) return Number.parseInt(part, 8);
  return /^[1-9]\d*$/.test(part) ? Number(part) : Number.NaN;
};

/** Parses the forms that C libraries read as IPv4: `127.1`, `0x7f.1`, `0177.0.0.1`, `2130706433`. */
const ipv4 = (host: string): string => {
  const numbers = host.split(".").map(numberOf);
  const last = numbers.at(-1) as number;
  const others = numbers.slice(0, -1);
  const isOne = numbers.length <= 4 && others.every((one) => one <= 255) && last < 256 ** (5 - numbers.length);
  if (!isOne) throw wrong("a host name or an IP address; its last part is a number, and it is no IPv4 address");
  const whole = others.reduce((sum, one, i) => sum + one * 256 ** (3 - i), last);
  return [24, 16, 8, 0].map((bits) => Math.floor(whole / 2 ** bits) % 256).join(".");
};

/** The canonical form of a host in a URL or an option: a name, IPv4, or IPv6 with or without brackets. */
export const canonicalHost = (text: string): string => {
  const host = text.toLowerCase();
  if (host.includes(":") || host.startsWith("[")) {
    const bytes = /^(\[[0-9a-f:.]+\]|[0-9a-f:.]+)$/.test(host) ? parseAddress(host) : null;
    if (bytes === null) throw wrong("a host without port, user and zone; between brackets an IPv6 address");
    return bytes.length === 4 ? bytes.join(".") : `[${shortestIpv6(bytes)}]`;
  }
  if (host.endsWith(".")) throw wrong("a host without a dot at its end");
  const labels = host.split(".");
  if (/^(?:\d+|0x[0-9a-f]*)$/.test(labels.at(-1) as string)) return ipv4(host);
  const isName = host.length <= 253 && labels.every((label) => /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label));
  if (!isName)
    throw wrong(
      "a host name of letters, digits, hyphens and dots, or an IP address; a name in another script in its xn-- form",
    );
  return host;
};

/** Parses an http(s) URL; throws `AddressError` for anything else. */
export const parseHttpUrl = (text: string): HttpAddress => {
  if (!/^[\x21-\x5b\x5d-\x7e]+$/.test(text))
    throw wrong("a URL of visible ASCII characters, without blanks and backslashes");
  const [, scheme, authority, path, query = "", fragment = ""] =
    /^(https?):\/\/([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$/i.exec(text) ?? [];
  if (scheme === undefined || authority === undefined || path === undefined)
    throw wrong("a URL that begins with http:// or https://");
  if (fragment !== "") throw wrong("a URL without a fragment (#)");
  if (/(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i.test(path)) throw wrong("a path without . and .. between its slashes");
  const at = authority.lastIndexOf("@");
  const user = authority.slice(0, Math.max(at, 0));
  if (user.includes("@")) throw wrong("at most one @ before the host; write another as %40");
  const [, hostText, portText] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(authority.slice(at + 1)) ?? [];
  if (hostText === undefined || hostText === "") throw wrong("a host, and behind it at most :PORT");
  const portNumber = portText === undefined ? null : Number(portText);
  if (portNumber !== null && (portNumber < 1 || portNumber > 65_535)) throw wrong("a port from 1 to 65535");
  const plain = scheme.toLowerCase() as "http" | "https";
  const host = canonicalHost(hostText);
  const port = portNumber === null || portNumber === (plain === "http" ? 80 : 443) ? "" : `${portNumber}`;
  const place = `${host}${port === "" ? "" : `:${port}`}`;
  const href = `${plain}://${at < 0 ? "" : `${user}@`}${place}${path}${query}`;
  return { scheme: plain, host, port, user, path, query, href };
};

// Loopback hosts: the safety guard lets a run load them without a permit, and listeners there are private.

const LOOPBACK = /^(?:localhost|127(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}|\[::1\]|::1)$/;

/** `host`: a name or an address without a port, IPv6 with or without brackets. */
export const isLoopbackHost = (host: string): boolean => LOOPBACK.test(host.toLowerCase());
