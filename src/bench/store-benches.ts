/** What runs without a network: ledger appends, and the decisions of the core alone. */
import { type Bench, type Block, blockOf, compare, compareWith, inTurn } from "./comparison.ts";
import { type BenchChild, startBenchChild } from "./processes/child.ts";
import type { DecisionQuestion } from "./processes/decisions-process.ts";
import type { LedgerQuestion } from "./processes/ledger-process.ts";

/** Charges of one transaction: about what a busy link brings in one batch. */
const BATCH = 64;
/** Decisions per second that the core is to make. */
const DECISIONS_PER_S = 1_000_000;

const rateOf = (child: BenchChild, question: unknown): Promise<Block> =>
  blockOf(async () => (await child.ask(question)) as number);

const ledger: Bench = {
  name: "ledger",
  what: `charges a second in batches of ${BATCH}: the limiter's SQLite store against plain inserts of the same rows`,
  run: async (settings, { supervisor }) => {
    await using store = await startBenchChild(supervisor, "ledger-process.ts", "store");
    await using bare = await startBenchChild(supervisor, "ledger-process.ts", "bare");
    const played = (child: BenchChild) => (durationS: number) =>
      rateOf(child, { durationMs: durationS * 1_000, batch: BATCH } satisfies LedgerQuestion);
    const pairs = await inTurn(settings, played(store), played(bare));
    return [compare({ ...ledger, unit: "charges/s", target: null }, pairs)];
  },
};

const core: Bench = {
  name: "core",
  what: `decisions a second of the core alone, over ${DECISIONS_PER_S}`,
  run: async ({ rounds, blockS }, { supervisor }) => {
    await using child = await startBenchChild(supervisor, "decisions-process.ts", null);
    const names = child.made as DecisionQuestion["decision"][];
    const blocks = new Map<string, Block[]>(names.map((name) => [name, []]));
    for (let round = -1; round < rounds; round += 1) {
      for (const decision of names) {
        const question: DecisionQuestion = { decision, durationMs: (blockS * 1_000) / names.length };
        const block = await rateOf(child, question);
        if (round >= 0) blocks.get(decision)?.push(block);
      }
    }
    const about = { what: core.what, unit: "decisions/s", target: { atLeast: 1 } };
    return [...blocks].map(([name, of]) => compareWith({ ...about, name: `core ${name}` }, DECISIONS_PER_S, of));
  },
};

export const STORE_BENCHES: readonly Bench[] = [ledger, core];
