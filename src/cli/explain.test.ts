import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { REASON_CODES } from "../history/reason-codes.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { CLAIM_FAMILIES } from "../report/claim-families.ts";
import { meaningOf } from "../report/page/definitions.ts";
import { CURVE_CLAIMS } from "../shedding/curve-claims.ts";
import { RULES } from "../verify/catalogue.ts";
import { runCommand } from "./command.fixture.ts";
import { explain, requirements } from "./explain.ts";

test("every claim of a run can be explained", () => {
  const sample = new URL("../../reports/sample/run.json", import.meta.url);
  const { claims } = JSON.parse(readFileSync(sample, "utf8")) as { claims: { id: string }[] };
  expect(claims.length).toBeGreaterThan(10);
  for (const { id } of claims) expect(explain(id).means).not.toBe("");
});

test("what an invariant or a rule rests on is a requirement of the clone", () => {
  const known = requirements();
  expect([...known.keys()]).toEqual(Array.from({ length: 234 }, (_, index) => index + 1));
  for (const { id, spec } of [...INVARIANTS, ...RULES]) {
    for (const item of spec) expect(known.has(item), `${id} cites ${item}`).toBe(true);
  }
});

test("every claim about the curve is explained by a text of its own, which says its level", () => {
  const ofCurve = CURVE_CLAIMS.map(({ measure, level }) => ({ measure, level }));
  const settling = [
    { measure: "recovery", level: "must" },
    { measure: "reaction", level: "should" },
    { measure: "reaction/capacity-halved", level: "should" },
    { measure: "amplification", level: "should" },
    { measure: "isolation", level: "must" },
  ];
  for (const { measure, level } of [...ofCurve, ...settling]) {
    const { id, judged, spec } = explain(`curve/${measure}`);
    expect(id).toBe(`curve/${measure.split("/")[0]}`);
    expect(judged).toMatch(new RegExp(`^${level}: `));
    expect(spec).toContain(220);
  }
  for (const name of ["__proto__", "constructor"]) expect(meaningOf(name)).toBeUndefined();
  expect(() => explain("curve/hysterese")).toThrow("did you mean curve/hysteresis?");
});

test.each([
  ["ttfe_ms_p99", "first event of a stream"],
  ["refusal_price", "what a refused call costs"],
  ["inconclusive", "could not be decided"],
])("%s, which is no claim, is explained as the page does", async (word, means) => {
  const { code, out } = await runCommand(["explain", word]);
  expect([code, out]).toEqual([0, expect.stringMatching(new RegExp(`^${word}\\n\\nMeans  .*${means}`))]);
});

test("the list names every measurement of a run, beside the claims", async () => {
  const sample = new URL("../../reports/sample/run.json", import.meta.url);
  const { measurements } = JSON.parse(readFileSync(sample, "utf8")) as { measurements: { name: string }[] };
  const { out } = await runCommand(["explain"]);
  const [, listed = ""] = out.split("\nMeasurements, ");
  const names = new Set(measurements.map(({ name }) => name.replace(/_(?:p\d+|max)$/, "")));
  for (const name of names) if (!name.startsWith("streams_")) expect(listed).toMatch(new RegExp(`\\b${name}\\b`));
});

test("no claim is hidden by a word of the page", () => {
  const ids = [...INVARIANTS.map(({ id }) => id), ...CLAIM_FAMILIES.map(({ pattern }) => pattern.replace("/*", ""))];
  expect(ids.filter((id) => meaningOf(id) !== undefined)).toEqual([]);
});

test("an invariant is explained with the mutants that it kills", () => {
  const { means, breaks, spec } = explain("sheds-above-the-cap/chat-past-capacity");
  expect(means).toContain("calls are shed");
  expect(breaks.join()).toContain("never-sheds");
  expect(spec).toContain(210);
});

test.each([
  ["sheds-above-teh-cap/smoke", "did you mean sheds-above-the-cap?"],
  ["verify/exchange-mint", "did you mean verify/exchange-mints?"],
  ["zzz", "`npx floodgate explain` lists them"],
  ["limiter-refused", "a stage; npx floodgate chaos --list says what it plays, and its claims end in /limiter-refused"],
  ["steady-mix", "a stage; npx floodgate load says what it plays"],
])("%s is answered with what was meant, or where to look", (asked, answer) => {
  expect(() => explain(asked)).toThrow(answer);
});

test("a code is explained with where to look and what to do", async () => {
  const { code, out } = await runCommand(["explain", "role-missing", "--json"]);
  expect([code, JSON.parse(out)]).toEqual([0, { id: "role-missing", ...REASON_CODES["role-missing"], of: undefined }]);
  expect((await runCommand(["explain"])).out).toContain("role-missing");
});

test("a requirement is printed with what defends it", async () => {
  const { code, out } = await runCommand(["explain", "69", "--json"]);
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({
    id: "69",
    rules: expect.arrayContaining([expect.stringMatching(/^verify\//)]),
    claims: [],
    invariants: expect.arrayContaining([expect.stringMatching(/^first-failing-check-decides: /)]),
    tests: expect.arrayContaining([expect.stringContaining("properties/order.property.test.ts: P1 ")]),
  });
  expect((await runCommand(["explain", "210"])).out).toMatch(/Claims +curve\/shed_subcodes: /);
  expect((await runCommand(["explain", "235"])).err).toContain("no requirement has the number 235");
});
