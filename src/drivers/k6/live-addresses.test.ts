import { expect, test } from "vitest";
import { liveAddress, liveAddresses } from "./k6.ts";

const at = (address: string, failed: string | null = null) => ({
  address,
  family: address.includes(":") ? 6 : 4,
  failed,
});

test("k6 is given the address that answers where it might take another", () => {
  expect(liveAddress([at("127.0.0.2", "ECONNREFUSED"), at("127.0.0.1")])).toEqual({
    address: "127.0.0.1",
    dead: [at("127.0.0.2", "ECONNREFUSED")],
  });
  expect(liveAddress([at("127.0.0.1", "ETIMEDOUT"), at("::1")])?.address).toBe("::1");
});

test("k6 keeps its choice where every address that it might take answers, or none does", () => {
  expect(liveAddress([])).toBeNull();
  expect(liveAddress([at("127.0.0.1"), at("127.0.0.2")])).toBeNull();
  // A server that listens on IPv4 alone is usual, and k6 prefers IPv4.
  expect(liveAddress([at("::1", "ECONNREFUSED"), at("127.0.0.1")])).toBeNull();
  expect(liveAddress([at("127.0.0.1", "ECONNREFUSED"), at("127.0.0.2", "ECONNREFUSED")])).toBeNull();
});

test("an address in place of a name, and a proxy, are left alone", async () => {
  const target = { schema: "floodgate/target@1", base_url: "http://127.0.0.1:1/v1" } as const;
  expect(await liveAddresses(target)).toEqual({ hosts: {}, warnings: [] });
  const proxied = { ...target, base_url: "http://no-such-host.invalid/v1", transport: { proxy: "http://127.0.0.1:1" } };
  expect(await liveAddresses(proxied)).toEqual({ hosts: {}, warnings: [] });
});
