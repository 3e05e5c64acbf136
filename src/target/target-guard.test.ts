import { describe, expect, test } from "vitest";
import type { Target } from "./target.ts";
import { guardTarget } from "./target-file.ts";

const target = (more: Partial<Target>): Target => ({
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:8080/v1",
  ...more,
});
const NOTHING = { load: false, faults: false, requests: 10 };

describe("the safety guard", () => {
  test("lets loopback through without asking for permits", async () => {
    expect(await guardTarget(target({}), [], { load: true, faults: true, requests: 1e6 })).toEqual([]);
  });

  test.each<[string, Partial<Target>]>([
    ["base_url", { base_url: "https://maps.example/v1" }],
    ["key_management_url", { key_management_url: "https://maps.example/v1" }],
    ["tile_url", { tile_url: "https://maps.example/{z}/{x}/{y}" }],
    ["control.keys", { control: { keys: "http://maps.example:9000" } }],
    ["control.api[0]", { control: { api: ["http://maps.example:9000"] } }],
    ["toxiproxy.api_url", { toxiproxy: { api_url: "http://maps.example:8474", proxies: {} } }],
    ["transport.proxy", { transport: { proxy: "http://maps.example:3128" } }],
  ])("refuses a foreign %s that nobody owns, and names it", async (name, more) => {
    const verdict = await guardTarget(target({ budget: { requests: 100 }, ...more }), [], NOTHING);
    expect(verdict.join("\n")).toContain(`${name} is on maps.example`);
    expect(await guardTarget(target({ budget: { requests: 100 }, ...more }), ["maps.example"], NOTHING)).toEqual([]);
  });

  test("owning one host does not own another", async () => {
    const verdict = await guardTarget(target({ base_url: "https://maps.example/v1" }), ["other.example"], NOTHING);
    expect(verdict).not.toEqual([]);
  });

  test.each<[string, Partial<Target>, Parameters<typeof guardTarget>[2]]>([
    ["budget.requests", {}, NOTHING],
    ["budget.requests allows 5", { budget: { requests: 5 } }, NOTHING],
    ["permits.load_max_rps", { budget: { requests: 100 } }, { ...NOTHING, load: true }],
    ["permits.chaos", { budget: { requests: 100 } }, { ...NOTHING, faults: true }],
  ])("asks a foreign target for %s", async (named, more, intent) => {
    const verdict = await guardTarget(
      target({ base_url: "https://maps.example/v1", ...more }),
      ["maps.example"],
      intent,
    );
    expect(verdict.join("\n")).toContain(named);
  });

  test("what is no URL is told as such", async () => {
    expect((await guardTarget(target({ base_url: "maps" }), [], NOTHING)).join("\n")).toContain(
      "base_url: expected a URL that begins with http",
    );
  });

  test("a reference that was not read is refused, whatever stands behind it", async () => {
    const verdict = await guardTarget(target({ transport: { proxy: "env:SOMEWHERE" } }), [], NOTHING);
    expect(verdict.join("\n")).toContain("transport.proxy: expected a URL");
  });

  test("localhost is loopback only while the resolver says so", async () => {
    const local = target({ base_url: "http://localhost:8080/v1" });
    for (const home of [["127.0.0.1"], ["::1", "127.0.0.1"], ["127.0.1.1"]])
      expect(await guardTarget(local, [], NOTHING, async () => home)).toEqual([]);
    const verdict = await guardTarget(local, [], NOTHING, async () => ["127.0.0.1", "203.0.113.9"]);
    expect(verdict.join("\n")).toContain("resolves to 203.0.113.9 here and not to loopback");
    const unknown = async () => Promise.reject(new Error("ENOTFOUND"));
    expect(await guardTarget(local, [], NOTHING, unknown)).toEqual([]);
  });

  test("an address is never asked for at a resolver", async () => {
    const never = async () => Promise.reject(new Error("asked"));
    for (const base_url of ["http://127.0.0.1:1/v1", "http://[::1]:1/v1"])
      expect(await guardTarget(target({ base_url }), [], NOTHING, never)).toEqual([]);
  });
});
