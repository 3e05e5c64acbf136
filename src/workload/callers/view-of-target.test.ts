import { expect, test } from "vitest";
import type { Target } from "../../target/target.ts";
import { viewOf } from "./view-of-target.ts";

const target: Target = {
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:1/v1",
  tenants: [
    { org: "org_1", tier: "Pro", limit: 10, weight: 3, publishable: { key: "env:A", origin: "https://a.example" } },
    { org: "org_2", publishable: { key: "env:B" }, server: { key: "env:C" } },
  ],
  credentials: { publishable_expendable: { key: "env:D", origin: "https://d.example", org: "org_d", limit: 5 } },
  budget: { map_loads: 12 },
};

test("what is stated is in the view, what was read as well, and nothing that was neither", () => {
  const view = viewOf(target, { org_1: { used: 4 }, org_d: { used: 2 } });
  expect(view.tenants).toEqual([
    { org: "org_1", tier: "Pro", allowance: 10, used: 4, weight: 3, publishable: true, server: false },
    // Without an origin the publishable key is of no use.
    { org: "org_2", publishable: false, server: true },
  ]);
  expect(view.roles.publishable_expendable).toEqual({ org: "org_d", allowance: 5, used: 2, hasOrigin: true });
  expect(view).toMatchObject({ budget: { mapLoads: 12 }, tiles: false, limits: {} });
  expect(view.permits).toEqual({ writes: false, quotaBurn: false });
});

test("nobody read what is used, so it is not in the view", () => {
  const view = viewOf(target);
  expect(view.tenants[0]).not.toHaveProperty("used");
  expect(view.roles.publishable_expendable).not.toHaveProperty("used");
  expect(JSON.stringify(view)).not.toContain("env:");
});

test("tiles are where the file says; map loads are offered where tiles are at the reference's own path", () => {
  const withTiles = (tile_url: string) => viewOf({ ...target, tile_url });
  expect(withTiles("https://tiles.example/{z}/{x}/{y}.pbf")).toMatchObject({ tiles: true, mapLoads: false });
  expect(withTiles("http://127.0.0.1:1/v1/maps/tiles/{z}/{x}/{y}")).toMatchObject({ tiles: true, mapLoads: true });
  expect(viewOf(target)).toMatchObject({ tiles: false, mapLoads: false });
});
