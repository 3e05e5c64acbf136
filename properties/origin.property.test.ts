/**
 * Origins and addresses (items 52-56): two spellings of one origin are one, two origins never are, and an address is in a
 * block exactly when their bits agree, in whatever notation either is written.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { parseAddress } from "../src/contract/address.ts";
import { addressListed, inBlock, normalizeOrigin, originListed } from "../src/core/origin.ts";
import { law } from "./laws/law.ts";
import { keyArb } from "./model/arbitraries.ts";

const RUNS = { quick: 1_000, nightly: 100_000 };

// ── origins ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const labelArb = fc
  .tuple(fc.constantFrom(..."abcxyz"), fc.string({ unit: fc.constantFrom(..."abcxyz019-"), maxLength: 6 }))
  .map(([first, rest]) => (first + rest).replace(/-+$/, ""));
const hostArb = fc.oneof(
  fc.array(labelArb, { minLength: 1, maxLength: 4 }).map((labels) => [...labels, "example"].join(".")),
  fc.constantFrom("localhost", "127.0.0.1", "[::1]", "[2001:db8::7]"),
);
const portArb = fc.oneof(fc.constantFrom(null, 80, 443, 8080), fc.integer({ min: 1, max: 65_535 }));
const schemeArb = fc.constantFrom("http" as const, "https" as const);
const originArb = fc.record({ scheme: schemeArb, host: hostArb, port: portArb });
type Origin = { scheme: "http" | "https"; host: string; port: number | null };

const DEFAULT_PORT = { http: 80, https: 443 };
const effectivePort = ({ scheme, port }: Origin): number => port ?? DEFAULT_PORT[scheme];
const same = (one: Origin, two: Origin): boolean =>
  one.scheme === two.scheme && one.host === two.host && effectivePort(one) === effectivePort(two);

/** One of the ways in which this origin can be written. */
const spelling = (origin: Origin): fc.Arbitrary<string> =>
  fc
    .record({ upper: fc.array(fc.boolean(), { minLength: 1, maxLength: 8 }), port: fc.boolean(), slash: fc.boolean() })
    .map(({ upper, port, slash }) => {
      const isDefault = effectivePort(origin) === DEFAULT_PORT[origin.scheme];
      const text = `${origin.scheme}://${origin.host}`
        .split("")
        .map((char, i) => (upper[i % upper.length] ? char.toUpperCase() : char))
        .join("");
      return `${text}${isDefault && !port ? "" : `:${effectivePort(origin)}`}${slash ? "/" : ""}`;
    });
const spelledArb = originArb.chain((origin) => fc.tuple(fc.constant(origin), spelling(origin)));

law(
  "a normalised origin is what the URL standard makes of it",
  () =>
    fc.property(spelledArb, ([, text]) => {
      expect(normalizeOrigin(text)).toBe(new URL(text).origin);
    }),
  RUNS,
);

law(
  "normalising twice is normalising once",
  () =>
    fc.property(
      fc.oneof(
        spelledArb.map(([, text]) => text),
        fc.webUrl(),
        fc.string(),
      ),
      (text) => {
        const once = normalizeOrigin(text);
        if (once !== null) expect(normalizeOrigin(once)).toBe(once);
      },
    ),
  RUNS,
);

law(
  "two spellings are one origin exactly when scheme, host and port agree",
  () =>
    fc.property(
      fc.oneof(
        fc.tuple(spelledArb, spelledArb),
        originArb.chain((origin) =>
          fc.tuple(
            spelling(origin).map((text): [Origin, string] => [origin, text]),
            spelling(origin).map((text): [Origin, string] => [origin, text]),
          ),
        ),
      ),
      ([[one, text], [two, other]]) => {
        expect(normalizeOrigin(text) === normalizeOrigin(other)).toBe(same(one, two));
      },
    ),
  RUNS,
);

law(
  "an origin is listed exactly when the list holds a spelling of it",
  () =>
    fc.property(
      keyArb,
      spelledArb,
      fc.array(spelledArb, { minLength: 1, maxLength: 4 }),
      (key, [origin, text], listed) => {
        const allowed_origins = listed.map(([, spelled]) => spelled);
        expect(originListed({ ...key, allowed_origins }, text)).toBe(listed.some(([other]) => same(origin, other)));
      },
    ),
  RUNS,
);

law(
  "an origin that only looks like a listed one is not listed",
  () =>
    fc.property(
      keyArb,
      spelledArb.filter(([origin]) => origin.host.endsWith("example")),
      labelArb,
      (key, [origin, text], label) => {
        const { scheme, host } = origin;
        const port = effectivePort(origin);
        const near = [
          `${scheme}://${label}.${host}:${port}`,
          `${scheme}://${host}.${label}:${port}`,
          `${scheme}://${label}${host}:${port}`,
          `${scheme}://${host}:${port}1`,
          `${scheme}://${label}@${host}:${port}`,
          `${scheme}://${host}:${port}/${label}`,
          `${scheme}://${host}:${port}?${label}`,
          `${scheme}://${host}:${port}#`,
          ` ${scheme}://${host}:${port}`,
          `${scheme}://${host}:${port}\n`,
          `${scheme}:${host}`,
          host,
          "null",
          "",
          "*",
        ];
        for (const other of near) {
          expect([other, originListed({ ...key, allowed_origins: [text] }, other)]).toEqual([other, false]);
        }
      },
    ),
  RUNS,
);

law(
  "the opaque origin is listed for nobody, not even by its name",
  () =>
    fc.property(keyArb, fc.constantFrom("null", "NULL", ""), (key, origin) => {
      expect(originListed({ ...key, allowed_origins: [...key.allowed_origins, "null"] }, origin)).toBe(false);
    }),
  RUNS,
);

law(
  "without a list only a test publishable key lets anyone in, and only from loopback",
  () =>
    fc.property(keyArb, spelledArb, (key, [origin, text]) => {
      const loopback = ["localhost", "127.0.0.1", "[::1]"].includes(origin.host);
      const open = key.kind === "publishable" && key.env === "test" && loopback;
      expect(originListed({ ...key, allowed_origins: [] }, text)).toBe(open);
    }),
  RUNS,
);

// ── addresses ─────────────────────────────────────────────────────────────────────────────────────────────────────────

type Address = { bits: string; text: string };
const bin = (value: number, width: number): string => value.toString(2).padStart(width, "0");
const byteArb = fc.oneof(fc.constantFrom(0, 1, 10, 127, 128, 254, 255), fc.nat({ max: 255 }));
const v4Arb: fc.Arbitrary<Address> = fc
  .tuple(byteArb, byteArb, byteArb, byteArb)
  .map((bytes) => ({ bits: bytes.map((byte) => bin(byte, 8)).join(""), text: bytes.join(".") }));

const groupArb = fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.nat({ max: 0xffff }));
const isMapped = (groups: number[]): boolean =>
  groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
/** The notations of RFC 4291 2.2: all eight groups, one run of zeros left out, the last four bytes as IPv4. */
const v6Text = (groups: number[], run: number, upper: boolean, dotted: boolean): string => {
  const tail = groups.slice(6);
  const quad = tail.flatMap((group) => [group >> 8, group & 255]).join(".");
  const words = [
    ...groups.slice(0, 6).map((group) => group.toString(16)),
    ...(dotted ? [quad] : tail.map((group) => group.toString(16))),
  ];
  const zeros: number[][] = [];
  for (let from = 0; from < 6; from += 1) {
    for (let to = from + 1; to <= 6 && groups[to - 1] === 0; to += 1) zeros.push([from, to]);
  }
  const [from, to] = run === 0 || zeros.length === 0 ? [-1, -1] : (zeros[run % zeros.length] as [number, number]);
  const text = from < 0 ? words.join(":") : `${words.slice(0, from).join(":")}::${words.slice(to).join(":")}`;
  return upper ? text.toUpperCase() : text;
};
const v6Arb: fc.Arbitrary<Address> = fc
  .tuple(fc.array(groupArb, { minLength: 8, maxLength: 8 }), fc.nat({ max: 30 }), fc.boolean(), fc.boolean())
  .filter(([groups]) => !isMapped(groups))
  .map(([groups, run, upper, dotted]) => ({
    bits: groups.map((group) => bin(group, 16)).join(""),
    text: v6Text(groups, run, upper, dotted),
  }));
const addressArb = fc.oneof(v4Arb, v6Arb);

/** Two addresses that share their first bits, so that long prefixes are met as well. */
const nearArb: fc.Arbitrary<[Address, Address]> = fc.oneof(
  fc.tuple(addressArb, addressArb),
  fc.tuple(v4Arb, fc.nat({ max: 32 }), v4Arb).map(([one, keep, other]): [Address, Address] => {
    const bits = one.bits.slice(0, keep) + other.bits.slice(keep);
    return [one, { bits, text: (bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)).join(".") }];
  }),
  fc
    .tuple(v6Arb, fc.nat({ max: 128 }), v6Arb, fc.nat({ max: 30 }))
    .map(([one, keep, other, run]): [Address, Address] => {
      const bits = one.bits.slice(0, keep) + other.bits.slice(keep);
      const groups = (bits.match(/.{16}/g) ?? []).map((group) => Number.parseInt(group, 2));
      return [one, { bits, text: v6Text(groups, run, false, false) }];
    }),
);

law(
  "an address is read as its bits, in whatever notation",
  () =>
    fc.property(addressArb, ({ bits, text }) => {
      expect([
        text,
        parseAddress(text)
          ?.map((byte) => bin(byte, 8))
          .join(""),
      ]).toEqual([text, bits]);
    }),
  RUNS,
);

law(
  "an IPv4 address written inside IPv6 is that IPv4 address",
  () =>
    fc.property(v4Arb, fc.constantFrom("::ffff:", "::FFFF:", "0:0:0:0:0:ffff:"), ({ text }, before) => {
      expect(parseAddress(before + text)).toEqual(parseAddress(text));
    }),
  RUNS,
);

law(
  "an address is in a block exactly when the first bits agree",
  () =>
    fc.property(nearArb, fc.nat({ max: 130 }), ([address, network], prefix) => {
      const sameFamily = address.bits.length === network.bits.length;
      const agree = address.bits.slice(0, prefix) === network.bits.slice(0, prefix);
      const expected = sameFamily && prefix <= network.bits.length && agree;
      expect(inBlock(address.text, `${network.text}/${prefix}`)).toBe(expected);
      expect(inBlock(address.text, network.text)).toBe(address.bits === network.bits);
    }),
  { quick: 3_000, nightly: 300_000 },
);

law(
  "a block that is written wrong lists nobody",
  () =>
    fc.property(
      addressArb,
      fc.constantFrom("/", "/ ", "/x", "/-1", "/1e1", "/0x8", "/8/8", "/8.5", "/129", " /8", "/+8", "/08888"),
      ({ text }, end) => {
        expect(inBlock(text, text + end)).toBe(false);
      },
    ),
  RUNS,
);

law(
  "no text makes the address rules throw, and nonsense is no address",
  () =>
    fc.property(
      fc.oneof(
        fc.string(),
        fc.string({ unit: fc.constantFrom(..."0123456789abcdef:./%[]") }),
        addressArb.map(({ text }) => text),
      ),
      fc.string({ unit: fc.constantFrom(..."0123456789abcdef:./%[] ") }),
      keyArb,
      (address, block, key) => {
        const bytes = parseAddress(address);
        expect(bytes === null || bytes.length === 4 || bytes.length === 16).toBe(true);
        expect(bytes?.every((byte) => Number.isInteger(byte) && byte >= 0 && byte <= 255) ?? true).toBe(true);
        if (bytes === null) expect(addressListed({ ...key, allowed_ips: [block] }, address)).toBe(false);
      },
    ),
  RUNS,
);
