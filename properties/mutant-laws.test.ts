/** The laws must condemn what is spoilt and acquit what is not, and say so in lines that a program can read. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MUTANTS } from "../src/mutants/catalogue.ts";
import { type Mutant, nobody } from "../src/mutants/mutant.ts";
import { HEALTHY } from "../src/platform/parts.ts";
import { PART_LAWS, type PartLaw } from "./laws/part-laws.ts";
import { lawsFor, tryLaw } from "./rigs/mutant-trial.ts";

const OPTIONS = { seed: 20_261, runs: null };
const mutantCalled = (name: string): Mutant => MUTANTS.find((mutant) => mutant.name === name) as Mutant;
const lawCalled = (name: string): PartLaw => PART_LAWS.find((law) => law.name === name) as PartLaw;

/** What each law was seen to condemn; a law that condemns nothing would prove nothing by its silence. */
const CONDEMNS: Readonly<Record<string, string>> = {
  order: "swaps-two-checks",
  repair: "swaps-scope-and-origin",
  "asks-no-further": "charges-the-shed",
  slots: "keeps-the-slot-of-the-refused",
  charges: "charges-other-products",
  admission: "unites-instead-of-intersects",
  "origin-named": "leaks-acao",
  envelopes: "wraps-the-flat-body",
  quota: "refunds-twice",
  "rate-window": "doubles-at-the-window-edge",
  "rate-bucket": "doubles-at-the-window-edge",
  shedding: "sheds-too-early",
  "key-creation": "vendor-without-acknowledgement",
  "key-change": "widens-beyond-the-tier",
  "foreign-key": "foreign-org-key-visible",
  "request-log": "prints-the-token",
  voice: "talks-after-error",
  exchange: "echoes-another-product",
  "real-server": "trusts-a-stale-key",
  faults: "answers-401-when-keys-are-down",
};

describe("the laws that take parts", () => {
  test("have names of their own, each with a mutant that it condemns", () => {
    expect(new Set(PART_LAWS.map(({ name }) => name)).size).toBe(PART_LAWS.length);
    expect(Object.keys(CONDEMNS).sort()).toEqual(PART_LAWS.map(({ name }) => name).sort());
  });

  test("look together at every part that there is", () => {
    const seen = new Set(PART_LAWS.flatMap(({ looksAt }) => looksAt));
    expect(Object.keys(HEALTHY).filter((part) => !seen.has(part as keyof typeof HEALTHY))).toEqual([]);
  });

  test.each(Object.entries(CONDEMNS))("%s condemns %s", async (law, mutant) => {
    const tried = await tryLaw(lawCalled(law), mutantCalled(mutant), OPTIONS);
    expect(tried).toMatchObject({ law, mutant, verdict: "killed", path: expect.stringMatching(/^\d+$/) });
  });

  test("are asked about one case again by the seed and the path of a line", async () => {
    const [law, mutant] = [lawCalled("order"), mutantCalled("swaps-two-checks")];
    const tried = await tryLaw(law, mutant, OPTIONS);
    const path = tried.path as string;
    expect(await tryLaw(law, mutant, { ...OPTIONS, path })).toEqual(tried);
    expect(await tryLaw(law, nobody, { ...OPTIONS, path })).toMatchObject({ reason: "held in this case" });
  });

  test("are asked about a mutant only where they look at what it spoils", () => {
    const names = lawsFor(mutantCalled("speaks-control-everywhere"), PART_LAWS).map(({ name }) => name);
    expect(names).toEqual(["real-server", "voice"]);
    expect(lawsFor(nobody, PART_LAWS)).toHaveLength(PART_LAWS.length);
  });

  test("decide nothing where the healthy platform fails the same case", async () => {
    const broken: PartLaw = {
      ...lawCalled("order"),
      open: async () => await lawCalled("order").open(mutantCalled("swaps-two-checks").spoil(HEALTHY)),
    };
    const tried = await tryLaw(broken, mutantCalled("swaps-kind-and-origin"), OPTIONS);
    expect(tried).toMatchObject({
      verdict: "undecided",
      reason: expect.stringContaining("the healthy platform fails"),
    });
  });

  test("ask a case again that was set aside because the machine stood still", async () => {
    let opened = 0;
    const stalled: PartLaw = {
      ...lawCalled("order"),
      open: async (parts) => {
        opened += 1;
        if (opened === 1 || opened > 3) return await lawCalled("order").open(parts);
        return { property: fc.property(fc.constant(null), () => fc.pre(false)), close: async () => undefined };
      },
    };
    expect(await tryLaw(stalled, mutantCalled("swaps-two-checks"), OPTIONS)).toMatchObject({ verdict: "killed" });
    expect(opened).toBe(5);
  });

  test("call a law that condemns the healthy platform by its name", async () => {
    const broken: PartLaw = {
      ...lawCalled("order"),
      open: async () => await lawCalled("order").open(mutantCalled("swaps-two-checks").spoil(HEALTHY)),
    };
    expect(await tryLaw(broken, nobody, OPTIONS)).toMatchObject({ verdict: "killed" });
  });
});

type Ended = { code: number; lines: Record<string, unknown>[]; err: string };

const run = (...args: string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const program = fileURLToPath(new URL("mutant-laws.ts", import.meta.url));
    execFile(process.execPath, [program, ...args], (error, out, err) => {
      const lines = out.split("\n").filter((line) => line !== "");
      resolve({ code: error === null ? 0 : Number(error.code), lines: lines.map((line) => JSON.parse(line)), err });
    });
  });

describe("the command", { concurrent: true }, () => {
  test("says a line for each mutant and law", async () => {
    const { code, lines } = await run("--json", "--runs", "20", "--law", "exchange", "mints-for-an-hour", "nobody");
    expect(code).toBe(0);
    // Whichever was done first.
    expect(lines.toSorted((a, b) => `${b.mutant}`.localeCompare(`${a.mutant}`))).toEqual([
      {
        mutant: "nobody",
        law: "exchange",
        verdict: "survived",
        reason: "held in all of 20 cases",
        seed: 20_261,
        path: null,
      },
      {
        mutant: "mints-for-an-hour",
        law: "exchange",
        verdict: "killed",
        reason: expect.stringContaining("expected 3600 to be 900"),
        seed: 20_261,
        path: expect.stringMatching(/^\d+$/),
      },
    ]);
  });

  test.each([
    ["a mutant that is not there", ["no-such-mutant"], "No mutant is called no-such-mutant"],
    ["a path without a seed", ["--path", "0", "nobody"], "needs --seed and --law"],
  ])("refuses %s in one sentence", async (_, args, sentence) => {
    const { code, lines, err } = await run(...args);
    expect([code, lines]).toEqual([2, []]);
    expect(err).toContain(sentence);
    expect(err.trim().split("\n")).toHaveLength(1);
  });
});
