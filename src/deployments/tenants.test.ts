import { expect, test } from "vitest";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { plannedEmbedded, plannedTenants } from "./tenants.ts";

const target = plannedEmbedded();
const orgs = (wish: Parameters<typeof plannedTenants>[0]): string[] =>
  (plannedTenants(wish, target).tenants ?? []).map(({ org }) => org);

test("a stage has the tenants of the deployment, three of them, or some with one map load left beside them", () => {
  const all = (target.tenants ?? []).map(({ org }) => org);
  expect(orgs(undefined)).toEqual(all);
  expect(orgs("few")).toEqual(all.slice(0, 3));
  expect(orgs("last-units").slice(0, all.length)).toEqual(all);
  expect(new Set(orgs("last-units")).size).toBe(all.length + 24);
});

test("with them, and not without them, last units can be taken", () => {
  const missing = (wish: Parameters<typeof plannedTenants>[0]) =>
    STORIES.get("last-units")?.missing(viewOf(plannedTenants(wish, target)));
  expect(missing("last-units")).toEqual([]);
  expect(missing(undefined)?.join()).toContain("one map load left");
});
