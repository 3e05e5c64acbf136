import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AddressError, canonicalHost, isLoopbackHost, parseHttpUrl } from "./address.ts";

describe("a host has one spelling", () => {
  test.each([
    ["0x7f.1", "127.0.0.1"],
    ["0X7F.0.0.1", "127.0.0.1"],
    ["0x7f000001", "127.0.0.1"],
    ["127.1", "127.0.0.1"],
    ["127.0.1", "127.0.0.1"],
    ["2130706433", "127.0.0.1"],
    ["017700000001", "127.0.0.1"],
    ["0177.0.0.1", "127.0.0.1"],
    ["127.0.0.01", "127.0.0.1"],
    ["0", "0.0.0.0"],
    ["10.258", "10.0.1.2"],
    ["[::ffff:127.0.0.1]", "127.0.0.1"],
    ["[::ffff:7f00:1]", "127.0.0.1"],
    ["[::1]", "[::1]"],
    ["::1", "[::1]"],
    ["[0:0:0:0:0:0:0:1]", "[::1]"],
    ["[::]", "[::]"],
    ["[2001:DB8:0:0:1:0:0:1]", "[2001:db8::1:0:0:1]"],
    ["LOCALHOST", "localhost"],
    ["Maps.Example", "maps.example"],
    ["my_service", "my_service"],
    ["xn--mnchen-3ya.example", "xn--mnchen-3ya.example"],
    ["127.0.0.1.nip.io", "127.0.0.1.nip.io"],
    ["localhost.evil", "localhost.evil"],
  ])("%s is %s", (written, canonical) => {
    expect(canonicalHost(written)).toBe(canonical);
    // What the clients of Node make of the canonical form is the same.
    expect(new URL(`http://${canonical}/`).hostname).toBe(canonical);
  });

  test.each([
    "",
    " ",
    "*",
    "*.example",
    "localhost.",
    "127.0.0.1.",
    "[::1%25eth0]",
    "[fe80::1%eth0]",
    "fe80::1%eth0",
    "[::1",
    "::1]",
    "1.2.3.4.5",
    "127.0.0.256",
    "256.1",
    "4294967296",
    "08.0.0.1",
    "maps.example.0x",
    "a..b",
    "-a.example",
    "a-.example",
    "maps example",
    "maps.example:443",
    "127.0.0.1:80",
    "https://maps.example",
    "maps.example/",
    "user@maps.example",
    "m\u00fcnchen.example",
    "\uff11\uff12\uff17.0.0.1",
    "127\u30020\u30020\u30021",
    "maps%2eexample",
    "a,b",
    "\u200bmaps.example",
  ])("%j is refused", (written) => {
    expect(() => canonicalHost(written)).toThrow(AddressError);
  });
});

describe("a URL has one reading", () => {
  test.each([
    ["HTTP://127.1:08080/v1", "http://127.0.0.1:8080/v1"],
    ["https://Maps.Example:443/V1", "https://maps.example/V1"],
    ["http://[::ffff:127.0.0.1]:80", "http://127.0.0.1"],
    ["http://h/{z}/{x}/{y}?key=1", "http://h/{z}/{x}/{y}?key=1"],
    ["http://u:p%40@h:1/", "http://u:p%40@h:1/"],
  ])("%s is %s", (written, canonical) => {
    expect(parseHttpUrl(written).href).toBe(canonical);
    expect(parseHttpUrl(canonical).href).toBe(canonical);
  });

  test("whoever stands before the @ is no host", () => {
    expect(parseHttpUrl("http://127.0.0.1@evil.example/")).toMatchObject({ host: "evil.example", user: "127.0.0.1" });
    expect(parseHttpUrl("http://evil.example/@127.0.0.1")).toMatchObject({ host: "evil.example", user: "" });
  });

  test.each([
    "http://127.0.0.1\\@evil.example/",
    "http:\\\\127.0.0.1/",
    "http:/127.0.0.1/",
    "http:127.0.0.1",
    "//127.0.0.1/",
    "http://",
    "http:///v1",
    "http://h:/",
    "http://h:0/",
    "http://h:65536/",
    "http://h:80:80/",
    "http://h#@127.0.0.1/",
    "http://h/#x",
    "http://127.0.0.1\t.evil.example/",
    "http://127.0.0.1\n/",
    " http://h/",
    "http://h/ ",
    "http://h/a/../v1",
    "http://h/%2e%2E/v1",
    "http://h/./v1",
    "http://a@b@h/",
    "http://{z}.h/",
    "http://h{z}/",
    "ftp://h/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "env:NAME",
    "maps",
    "",
  ])("%j is refused, and its text is not repeated", (written) => {
    expect(() => parseHttpUrl(written)).toThrow(AddressError);
  });
});

test("whatever is accepted, the parser of the platform reads as the same host, port and user", () => {
  const piece = fc.constantFrom(
    ...[
      "127",
      "1",
      "0x7f",
      "0177",
      "2130706433",
      ".",
      "..",
      ":",
      "[",
      "]",
      "::",
      "ffff",
      "@",
      "\\\\",
      "/",
      "#",
      "?",
      "%2e",
    ],
    ...["localhost", "evil.example", "xn--a", "8080", "\\t", "\u3002", "\uff11", "-", "_", "{z}", "a", "Z", " "],
  );
  const text = fc.array(piece, { maxLength: 8 }).map((parts) => parts.join(""));
  let accepted = 0;
  fc.assert(
    fc.property(fc.constantFrom("http://", "https://", "HTTP://", "http:/"), text, (scheme, rest) => {
      let href: string;
      let read: ReturnType<typeof parseHttpUrl>;
      try {
        read = parseHttpUrl(scheme + rest);
        href = read.href;
      } catch (error) {
        expect(error).toBeInstanceOf(AddressError);
        return;
      }
      accepted += 1;
      for (const url of [new URL(href), new URL(scheme + rest)]) {
        const mapped = /^\[::ffff:([0-9a-f]+):([0-9a-f]+)\]$/.exec(url.hostname);
        if (mapped === null) expect(url.hostname).toBe(read.host);
        expect(url.port).toBe(read.port);
        expect(url.protocol).toBe(`${read.scheme}:`);
      }
    }),
    { numRuns: 20_000 },
  );
  expect(accepted).toBeGreaterThan(200);
});

test("no spelling that leaves the machine counts as loopback", () => {
  for (const host of ["evil.example", "127.0.0.1.nip.io", "localhost.evil", "0", "[::ffff:10.0.0.1]", "10.127.1"])
    expect([host, isLoopbackHost(canonicalHost(host))]).toEqual([host, false]);
  for (const host of ["0x7f.1", "127.1", "2130706433", "[::ffff:127.0.0.1]", "localhost", "[0::1]"])
    expect([host, isLoopbackHost(canonicalHost(host))]).toEqual([host, true]);
});
