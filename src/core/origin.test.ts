import { describe, expect, test } from "vitest";
import { parseAddress } from "../contract/address.ts";
import type { KeyRecord } from "./call.ts";
import { addressListed, inBlock, normalizeOrigin, originListed } from "./origin.ts";

const key = (more: Partial<KeyRecord>): KeyRecord =>
  ({ kind: "publishable", env: "live", allowed_origins: [], allowed_ips: [], ...more }) as KeyRecord;

describe("a normalised origin (item 52)", () => {
  test.each<[string, string | null]>([
    ["https://app.example", "https://app.example"],
    ["HTTPS://App.Example", "https://app.example"],
    ["https://app.example:443", "https://app.example"],
    ["http://app.example:80", "http://app.example"],
    ["http://app.example:443", "http://app.example:443"],
    ["https://app.example/", "https://app.example"],
    ["http://[::1]:5173", "http://[::1]:5173"],
    ["null", null],
    ["", null],
    ["app.example", null],
    ["https://app.example/path", null],
    ["https://user@app.example", null],
    ["https://app.example?x", null],
    ["https://app.example:port", null],
  ])("%j is %j", (text, normalized) => {
    expect(normalizeOrigin(text)).toBe(normalized);
  });
});

describe("an origin is listed", () => {
  const listed = { allowed_origins: ["https://App.example:443", "http://localhost:5173"] };
  test.each<[string, Partial<KeyRecord>, string, boolean]>([
    ["in another spelling", listed, "https://app.example", true],
    ["by its port", listed, "http://localhost:5173", true],
    ["not by another port", listed, "http://localhost:5174", false],
    ["not by another scheme", listed, "http://app.example", false],
    ["not by a subdomain", listed, "https://evil.app.example", false],
    ["not by a longer name", listed, "https://app.example.evil", false],
    ["not by a wildcard", { allowed_origins: ["https://*.example"] }, "https://app.example", false],
    ["never as the opaque origin (item 53)", { allowed_origins: ["null"] }, "null", false],
    ["without a list, for a test key from loopback (item 54)", { env: "test" }, "http://127.0.0.1:3000", true],
    ["without a list, for a test key from IPv6 loopback", { env: "test" }, "http://[::1]", true],
    ["without a list, not for a test key from elsewhere", { env: "test" }, "https://app.example", false],
    ["without a list, not from a name that begins like loopback", { env: "test" }, "http://127.0.0.1.evil", false],
    ["without a list, not for a live key", {}, "http://localhost", false],
  ])("%s", (_, record, origin, expected) => {
    expect(originListed(key(record), origin)).toBe(expected);
  });
});

describe("an address", () => {
  test.each<[string, number[] | null]>([
    ["10.1.2.3", [10, 1, 2, 3]],
    ["::ffff:10.1.2.3", [10, 1, 2, 3]],
    ["::1", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]],
    ["[::1]", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]],
    ["fe80::1%eth0", [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]],
    ["::ff:10.1.2.3", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 10, 1, 2, 3]],
    ["10.1.2.256", null],
    ["::ffff:10.1.2.256", null],
    ["10.1.2", null],
    ["1:2:3:4:5:6:7:8:9", null],
    ["1::2::3", null],
    ["1:2:3:4:5:6:7:8::9::a", null],
    ["1.2::3", null],
    ["12345::", null],
    [":::", null],
    ["", null],
    ["localhost", null],
  ])("%j is %j", (text, bytes) => {
    expect(parseAddress(text)).toEqual(bytes);
  });
});

describe("an address lies in a block (item 55)", () => {
  test.each<[string, string, boolean]>([
    ["10.1.2.3", "10.0.0.0/8", true],
    ["11.1.2.3", "10.0.0.0/8", false],
    ["10.1.2.3", "10.1.2.3", true],
    ["10.1.2.3", "10.1.2.2/31", true],
    ["10.1.2.3", "10.1.2.4/31", false],
    ["10.1.2.3", "0.0.0.0/0", true],
    ["::ffff:10.1.2.3", "10.0.0.0/8", true],
    ["2001:db8::1", "2001:db8::/32", true],
    ["2001:db9::1", "2001:db8::/32", false],
    ["10.1.2.3", "::/0", false],
    ["10.1.2.3", "10.0.0.0/33", false],
    ["10.1.2.3", "10.0.0.0/", false],
    ["10.1.2.3", "10.0.0.0/ 0", false],
    ["10.1.2.3", "10.0.0.0/8/8", false],
    ["10.1.2.3", "nonsense", false],
    ["nonsense", "0.0.0.0/0", false],
  ])("%s in %s: %s", (address, block, expected) => {
    expect(inBlock(address, block)).toBe(expected);
  });

  test("an empty list restricts nobody, a list admits its own", () => {
    expect(addressListed(key({}), "203.0.113.9")).toBe(true);
    expect(addressListed(key({ allowed_ips: ["192.0.2.1", "10.0.0.0/8"] }), "10.9.9.9")).toBe(true);
    expect(addressListed(key({ allowed_ips: ["192.0.2.1", "10.0.0.0/8"] }), "203.0.113.9")).toBe(false);
  });
});
