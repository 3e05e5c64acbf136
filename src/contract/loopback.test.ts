import { expect, test } from "vitest";
import { isLoopbackHost } from "./address.ts";

test.each(["localhost", "LOCALHOST", "127.0.0.1", "127.8.0.255", "::1", "[::1]"])("%s is loopback", (host) => {
  expect(isLoopbackHost(host)).toBe(true);
});

test.each([
  "0.0.0.0",
  "::",
  "[::]",
  "",
  "10.0.0.1",
  "128.0.0.1",
  "127.0.0.256",
  "127.0.0",
  "127.0.0.1.example",
  "1270.0.0.1",
  "[::ffff:10.0.0.1]",
  "localhost.example",
  "notlocalhost",
  "127.0.0.1:80",
  "::11",
  "[::1",
])("%j is not loopback", (host) => {
  expect(isLoopbackHost(host)).toBe(false);
});
