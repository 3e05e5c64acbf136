import { describe, expect, test } from "vitest";
import type { CallLine } from "../../history/line.ts";
import type { Target } from "../../target/target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import type { Printed, PrintedMint, PrintedNothing } from "../../workload/handover.ts";
import { createReader, problemsOf } from "./k6-process.ts";

const EPOCH_US = 1_000_000_000;
const target: Target = {
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:1/v1",
  tenants: [{ org: "org_a", server: { key: "svc_sk_live_a" } }],
};

const sent = (atUs: number): Omit<Printed, "type" | "i" | "step" | "attempt" | "intendedUs"> => ({
  startedUs: atUs,
  connectUs: 0,
  sentUs: atUs + 100,
  firstUs: atUs + 5_000,
  firstEventUs: null,
  lastEventUs: null,
  doneUs: atUs + 6_000,
  status: 200,
  ended: "refused",
  opened: false,
  events: 0,
  late: 0,
  names: [],
  gaps: [],
  error: "",
  body: "{}",
  aborted: false,
});

const call = (i: number, lagUs: number, over: Partial<Printed> = {}): Printed => {
  const intendedUs = EPOCH_US + i * 10_000;
  return { type: "call", i, step: 0, attempt: 0, intendedUs, ...sent(intendedUs + lagUs), ...over };
};

const read = (printed: readonly (Printed | PrintedMint | PrintedNothing)[], dropped = 0) => {
  const lines: CallLine[] = [];
  const reading = {
    story: STORIES.get("catalog-reads")!,
    seed: 1,
    view: viewOf(target),
    stage: "s",
    idPrefix: "r.s.c",
    epochUs: EPOCH_US,
  };
  const { seen, take } = createReader(reading, (line) => lines.push(line));
  for (const one of printed) take(JSON.stringify(one));
  const exit = { code: 0, signal: null, errors: [], errorCount: 0, warnings: [] };
  const iterations = printed.filter(({ type }) => type !== "mint").length;
  return { lines, problems: problemsOf(exit, { iterations, dropped }, seen) };
};

const many = (lagUs: number): Printed[] => Array.from({ length: 200 }, (_, i) => call(i, lagUs));

const LATE = { verdict: "inconclusive", code: "generator-was-the-limit" };

describe("what a k6 run amounts to", () => {
  test("an iteration for which the story plans no call lacks no line", () => {
    const { lines, problems } = read([call(0, 500), { type: "nothing", i: 1 }, call(2, 500)]);
    expect(lines).toHaveLength(2);
    expect(problems.filter(({ about }) => about !== "time")).toEqual([]);
  });

  test("calls that left in time put nothing in doubt", () => {
    const { lines, problems } = read(many(2_000));
    expect(problems).toEqual([]);
    expect(lines[3]).toMatchObject({ intended_us: 30_000, started_us: 32_000, sent_us: 32_100, first_us: 37_000 });
  });

  test("calls that left late put in doubt what is about time, and nothing else", () => {
    const { lines, problems } = read(many(300_000));
    expect(lines).toHaveLength(200);
    expect(problems).toEqual([{ ...LATE, reason: expect.stringMatching(/bottleneck/), about: "time" }]);
  });

  test("a retry that left late is no arrival that did", () => {
    const retries = many(300_000).map((one): Printed => ({ ...one, attempt: 1 }));
    expect(read([...many(0), ...retries].sort((a, b) => a.i - b.i)).problems.map(({ about }) => about)).not.toContain(
      "time",
    );
  });

  test("calls that were given up were never sent, which is in doubt whatever a claim is about", () => {
    const { problems } = read(many(0), 1);
    expect(problems).toEqual([{ ...LATE, reason: expect.stringMatching(/1 of 201 calls/) }]);
  });

  test("a session that was minted anew is due when it left, and no arrival", () => {
    const mint: PrintedMint = {
      type: "mint",
      id: "r.s.c-v3s1",
      of: "tenant:org_a/server",
      product: "tile",
      ...sent(EPOCH_US + 7_000),
    };
    const { lines, problems } = read([call(0, 0), mint]);
    expect(problems).toEqual([]);
    expect(lines[1]).toMatchObject({ id: "r.s.c-v3s1", intended_us: 7_000, started_us: 7_000, unscheduled: "mint" });
  });
});
