/** No judge is believed before it has condemned: each is tried on histories written by hand. */
import { describe, expect, test } from "vitest";
import { INVARIANTS } from "../src/invariants/catalogue.ts";
import type { Finding, Invariant } from "../src/invariants/invariant.ts";
import { judgeWith } from "../src/invariants/judge-with.fixture.ts";
import { SPECIMENS } from "../src/invariants/specimens/catalogue.fixture.ts";
import { type Specimen, stageOf } from "../src/invariants/specimens/specimen.fixture.ts";

const tried = (invariant: Invariant, { facts, lines }: Specimen): Finding =>
  judgeWith(invariant, stageOf(facts), lines);
const told = ({ reason, got }: Finding): string => `${reason}\n${got}`;

describe("the catalogue", () => {
  test("names each invariant once", () => {
    const ids = INVARIANTS.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("has a good, a bad and a thin history for each invariant, and none for anything else", () => {
    const lacking = INVARIANTS.filter(({ id }) => {
      const { good = [], bad = [], thin = [] } = SPECIMENS.get(id) ?? {};
      return good.length === 0 || bad.length === 0 || thin.length === 0;
    });
    expect(lacking.map(({ id }) => id)).toEqual([]);
    expect([...SPECIMENS.keys()].sort()).toEqual(INVARIANTS.map(({ id }) => id).sort());
  });

  test("does not take a judge that fails itself for one that acquits", () => {
    const broken: Invariant = {
      ...(INVARIANTS[0] as Invariant),
      judge: () => ({
        see: () => {
          throw new Error("no idea");
        },
        end: () => ({ verdict: "pass", code: "held", reason: "", got: "", evidence: [] }),
      }),
    };
    expect(judgeWith(broken, stageOf(), [{ type: "mark", stage: "s", name: "x", at_us: 0 }])).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringContaining("no idea"),
    });
  });
});

describe.each(INVARIANTS.map((invariant) => [invariant.id, invariant] as const))("%s", (id, invariant) => {
  const { good = [], bad = [], thin = [] } = SPECIMENS.get(id) ?? {};

  test.each(good.map((one) => [one.name, one] as const))("acquits: %s", (_, specimen) => {
    const finding = tried(invariant, specimen);
    expect(finding, told(finding)).toMatchObject({ verdict: "pass", evidence: [] });
    expect(told(finding)).toMatch(specimen.says ?? /^/);
  });

  test.each(bad.map((one) => [one.name, one] as const))("condemns: %s", (_, specimen) => {
    const finding = tried(invariant, specimen);
    expect(finding.verdict, told(finding)).toBe("fail");
    expect(told(finding)).toMatch(specimen.says);
    expect(finding.evidence.length).toBeLessThanOrEqual(10);
  });

  test.each(thin.map((one) => [one.name, one] as const))("concludes nothing from: %s", (_, specimen) => {
    const finding = tried(invariant, specimen);
    expect(finding.verdict, told(finding)).toBe(specimen.verdict);
    expect(told(finding)).toMatch(specimen.says);
  });
});
