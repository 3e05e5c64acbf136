import { expect, test } from "vitest";
import type { Target } from "../../target/target.ts";
import { verifyFindings } from "./what-would-run.ts";

const server = { key: "env:KEY" };
const base: Target = { schema: "floodgate/target@1", base_url: "http://127.0.0.1:1/v1", credentials: { server } };
const skips = (target: Target): string[] =>
  verifyFindings(target).flatMap(({ state, name, text }) =>
    /rules?$/.test(name) ? [`${state} ${name}: ${text}`] : [],
  );

test("for a target with one key each reason is one line, with a count and the way to see all", () => {
  expect(skips(base)).toEqual([
    expect.stringMatching(
      /^skipped \d\d rules: need roles .*: publishable \d\d, .*expired 1.*; `verify --dry-run` names/,
    ),
    expect.stringMatching(/^skipped 3 rules: tile_url is not in the target file; `verify --dry-run` names each$/),
  ]);
});

test("a budget that allows too little is a reason beside the roles", () => {
  const [roles, ...others] = skips({ ...base, budget: { analyses: 0 }, tile_url: "http://127.0.0.1:1/{z}/{x}/{y}" });
  expect(roles).toContain("need roles");
  expect(others.join()).toMatch(/^skipped \d+ rules?: budget.analyses of the target file \(0\) does not allow/);
});
