/** Sentences are for people: with every word of them replaced where judges make them, no verdict, no code and no exit code changes. */
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { REASON_CODES } from "../src/history/reason-codes.ts";
import type { Claim, RunDocument } from "../src/history/run-document.ts";
import { INVARIANTS } from "../src/invariants/catalogue.ts";
import { mergeClaims } from "../src/report/verdict.ts";
import { judgeAgain } from "../src/run/read-run.ts";
import { RULES } from "../src/verify/catalogue.ts";
import { CannotJudge } from "../src/verify/checks.ts";
import { verifySecondApi } from "../src/verify/verify-second-api.fixture.ts";

const words = vi.hoisted(() => ({ areReplaced: false }));

/** What a budget lacks is put into words outside the rules. */
vi.mock(import("../src/verify/planning/needs.ts"), async (original) => {
  const { createBudget, lackOf, ...rest } = await original();
  const asWords = <T extends object>(found: T | null): T | null =>
    found !== null && words.areReplaced ? reworded(found) : found;
  return {
    ...rest,
    createBudget: (...about) => {
      const budget = createBudget(...about);
      return { ...budget, shortage: (...of) => asWords(budget.shortage(...of)) };
    },
    lackOf: (...about) => asWords(lackOf(...about)),
  };
});

afterEach(() => {
  words.areReplaced = false;
  vi.restoreAllMocks();
});

const reworded = <T extends object>(of: T): T =>
  Object.fromEntries(
    Object.entries(of).map(([name, value]) =>
      /^(?:reason|expected|got|spent)$/.test(name) ? [name, value?.replace(/\p{L}+/gu, "word")] : [name, value],
    ),
  ) as T;

const rewordJudges = (): void => {
  words.areReplaced = true;
  for (const one of INVARIANTS) {
    const judge = one.judge.bind(one);
    vi.spyOn(one, "judge").mockImplementation((facts, settling) => {
      const made = judge(facts, settling);
      return "end" in made ? { ...made, end: () => reworded(made.end()) } : reworded(made);
    });
  }
  const thrown = (error: unknown) => {
    throw error instanceof CannotJudge ? new CannotJudge(reworded(error.open)) : error;
  };
  for (const rule of RULES) {
    const run = rule.run.bind(rule);
    vi.spyOn(rule, "run").mockImplementation((context) => run(context).then(reworded, thrown));
  }
};

const verdictsOf = (claims: readonly Claim[]) =>
  claims.map(({ id, level, verdict, code }) => {
    const of = verdict === "pass" || verdict === "fail" ? verdict : "open";
    expect(REASON_CODES[code]?.of, `${id}: ${code}`).toContain(of);
    return [id, level, verdict, code];
  });

test.each([
  ["as it was", 0, (text: string) => text],
  ["with a refusal that nothing explains", 1, (text: string) => text.replace('"429 limiter_unavailable"', '"401"')],
  ["without its calls", 4, () => ""],
])("the sample run %s", (_, exitCode, change) => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-words-"));
  cpSync(join(import.meta.dirname, "../reports/sample"), folder, { recursive: true });
  const history = join(folder, "history.ndjson");
  const changed = change(readFileSync(history, "utf8"));
  writeFileSync(history, changed);
  const recorded = join(folder, "run.json");
  const run = JSON.parse(readFileSync(recorded, "utf8")) as RunDocument;
  // A history that is shorter than the run's own count is refused as cut short.
  if (changed === "") for (const { calls } of run.stages) calls.sent = 0;
  writeFileSync(recorded, JSON.stringify(run));
  const { document: before } = judgeAgain(folder);
  writeFileSync(recorded, JSON.stringify({ ...before, claims: before.claims.map(reworded) }));
  rewordJudges();
  const { document: after } = judgeAgain(folder);
  expect(after.claims.every(({ reason }) => reason.includes("word word"))).toBe(true);
  expect(verdictsOf(after.claims)).toEqual(verdictsOf(before.claims));
  expect([before.exit_code, after.exit_code, after.verdict]).toEqual([exitCode, exitCode, before.verdict]);
});

test("verify: a deployment with a defect, and a budget that does not last", async () => {
  const verified = async (requests?: number) => {
    const { claims, idle } = await verifySecondApi({ defects: ["500-on-depth"] }, ({ target }) => ({
      target: { ...target, budget: { ...target.budget, requests } },
      only: ["lattice", "order", "bodies"],
    }));
    return { exitCode: mergeClaims(claims, []).exit_code, verdicts: verdictsOf(claims), idle };
  };
  const before = [await verified(), await verified(60)];
  expect(before.map(({ exitCode }) => exitCode)).toEqual([1, 4]);
  rewordJudges();
  expect([await verified(), await verified(60)]).toEqual(before);
});
