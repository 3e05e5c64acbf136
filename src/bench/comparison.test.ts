import { describe, expect, test } from "vitest";
import { plainBlock as block, CLIENT_SATURATED, compare, inTurn, perCpuSecond } from "./comparison.ts";

const about = { name: "read", what: "a read", unit: "calls/s", target: { atLeast: 0.5 } } as const;

describe("a comparison", () => {
  test("the figure is typical of the ratios of pairs, as in the gate, and not the ratio of the medians", () => {
    const row = compare(about, [
      { ours: block(50), against: block(100) },
      { ours: block(10), against: block(40) },
      { ours: block(90), against: block(100) },
    ]);
    // The median of the means of all pairs of logarithms: between ln 0.5 and that of 0.25 with 0.9.
    const typical = Math.exp((Math.log(0.5) + (Math.log(0.25) + Math.log(0.9)) / 2) / 2);
    expect([row.ratio, row.ratioMin, row.ratioMax, row.rounds]).toEqual([expect.closeTo(typical), 0.25, 0.9, 3]);
  });

  test("a target is reached at its edge and missed below it", () => {
    expect(compare(about, [{ ours: block(50), against: block(100) }]).verdict).toBe("reached");
    expect(compare(about, [{ ours: block(49), against: block(100) }]).verdict).toBe("missed");
    const atMost = { ...about, target: { atMost: 1.3 } };
    expect(compare(atMost, [{ ours: block(131), against: block(100) }]).verdict).toBe("missed");
    expect(compare({ ...about, target: null }, [{ ours: block(1), against: block(100) }]).verdict).toBe("reported");
  });

  test("a target that the median reaches is not reached where the rounds lie more than a fifth of it apart", () => {
    const rounds = (...values: number[]) => values.map((value) => ({ ours: block(value), against: block(100) }));
    expect(compare(about, rounds(91, 100, 110)).verdict).toBe("reached");
    expect(compare(about, rounds(89, 100, 110)).verdict).toBe("too-wide");
    // Below the target there is nothing to take back.
    expect(compare(about, rounds(20, 40, 60)).verdict).toBe("missed");
    expect(compare({ ...about, target: null }, rounds(1, 100)).verdict).toBe("reported");
    expect(compare({ ...about, target: { atMost: 2 } }, rounds(100, 100, 150)).verdict).toBe("too-wide");
  });

  test("a doubt of one block is a doubt of the row, reported once with how often it came", () => {
    const doubts = ["the client was the bottleneck"];
    const row = compare(about, [
      { ours: block(1, { doubts }), against: block(1) },
      { ours: block(1), against: block(1, { doubts }) },
    ]);
    expect(row.doubts).toEqual(["the client was the bottleneck (2 blocks)"]);
  });

  test("pairs that others disturbed are left out while three are left; else they count, and the row says so", () => {
    const clean = { ours: block(60), against: block(100) };
    const disturbed = { ours: block(10, { disturbances: ["other processes used the CPU"] }), against: block(100) };
    const enough = compare(about, [clean, disturbed, clean, clean]);
    expect([enough.ratio, enough.rounds, enough.leftOut, enough.doubts]).toEqual([expect.closeTo(0.6), 3, 1, []]);
    const few = compare(about, [clean, disturbed, disturbed]);
    expect(few.ratio).toBeLessThan(0.3);
    expect([few.rounds, few.leftOut]).toEqual([3, 0]);
    expect(few.doubts).toEqual(["other processes used the CPU (2 blocks)"]);
  });

  test("what went wrong on our side is reported even where the pair is left out", () => {
    const clean = { ours: block(60), against: block(100) };
    const both = block(1, { doubts: ["expected only 200, got 429"], disturbances: ["other processes used the CPU"] });
    expect(compare(about, [clean, clean, clean, { ours: both, against: both }]).doubts).toEqual([
      "expected only 200, got 429 (2 blocks)",
    ]);
  });

  test("while others disturb, more rounds are run, but not without end", async () => {
    let blocks = 0;
    const disturbed = async () => {
      blocks += 1;
      return block(1, { disturbances: ["other processes used the CPU"] });
    };
    expect(await inTurn({ rounds: 2, blockS: 1 }, disturbed, disturbed)).toHaveLength(6);
    expect(blocks).toBe(14);
  });

  test("by CPU, a saturated client is no doubt, and wrong answers are", () => {
    const doubts = [CLIENT_SATURATED, "expected only 200, got 429"];
    const pairs = [{ ours: block(7, { cpuUsEach: 20, doubts }), against: block(7, { cpuUsEach: 10 }) }];
    const row = compare(about, perCpuSecond(pairs));
    expect([row.ours, row.against, row.ratio]).toEqual([50_000, 100_000, expect.closeTo(0.5)]);
    expect(row.doubts).toEqual(["expected only 200, got 429 (1 block)"]);
  });

  test("who goes first changes from pair to pair, and the first block of each side is not counted", async () => {
    const said: string[] = [];
    const side = (name: string) => async () => {
      said.push(name);
      return block(said.length);
    };
    const pairs = await inTurn({ rounds: 4, blockS: 1 }, side("ours"), side("bare"));
    expect(said.slice(0, 2)).toEqual(["bare", "ours"]);
    const first = [2, 4, 6, 8].map((at) => said[at]);
    expect(first.filter((name) => name === "ours")).toHaveLength(2);
    for (const [at, { ours, against }] of pairs.entries()) {
      // Each block's value is its place in the row.
      expect([ours.value, against.value].sort((a, b) => a - b)).toEqual([2 * at + 3, 2 * at + 4]);
      expect([said[ours.value - 1], said[against.value - 1]]).toEqual(["ours", "bare"]);
    }
  });
});
