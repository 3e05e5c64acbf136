import { mkdirSync, mkdtempDisposableSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { WATCHDOG_PROCESS } from "../faults/watchdog-process.ts";
import { EXIT, EXIT_OF_SIGNAL } from "../run/exit-codes.ts";
import { commitOf } from "../run/run-reports.ts";
import { openJournal } from "../supervision/journal.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { listenForStop } from "../supervision/stop-signals.ts";
import { openSupervisor } from "../supervision/supervisor.ts";
import { type Bench, type BenchRoom, type Row, type Settings, tableOf } from "./comparison.ts";
import { generators, k6Generators } from "./generators-bench.ts";
import { ROUTE_BENCHES, STREAM_BENCHES, soak } from "./routes-benches.ts";
import { shedding } from "./shedding-bench.ts";
import { sse } from "./sse-bench.ts";
import { STORE_BENCHES } from "./store-benches.ts";

const BENCHES: readonly Bench[] = [
  ...[...ROUTE_BENCHES, ...STREAM_BENCHES, ...STORE_BENCHES],
  ...[generators, k6Generators, sse, shedding, soak],
];

type Options = {
  quick?: true;
  only?: string[];
  rounds?: number;
  soak?: true;
  connections: number;
  out?: string;
  json?: true;
};

const FULL = { rounds: 11, blockS: 2 };
const QUICK = { rounds: 3, blockS: 0.5 };
const SOAK_CALLS = 1_000_000;

const positive = (text: string): number => {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new InvalidArgumentError("expected a whole number above 0.");
  return value;
};

const measure = async (options: Options, room: BenchRoom) => {
  const names = BENCHES.map(({ name }) => name);
  const unknown = (options.only ?? []).filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new InvalidArgumentError(`expected one of ${names.join(", ")}, got ${unknown.join()}.`);
  const { rounds, blockS } = options.quick ? QUICK : FULL;
  const { connections } = options;
  const settings: Settings = { rounds: options.rounds ?? rounds, blockS, connections, soakCalls: SOAK_CALLS };
  const wanted = BENCHES.filter(({ name, isLong }) =>
    options.only === undefined ? isLong !== true || options.soak === true : options.only.includes(name),
  );
  const rows: Row[] = [];
  const skipped: { name: string; reason: string }[] = [];
  const startedAt = new Date();
  for (const bench of wanted) {
    process.stderr.write(`${bench.name}: ${bench.what}\n`);
    const came = await bench.run(settings, room);
    if (typeof came === "string") skipped.push({ name: bench.name, reason: came });
    else rows.push(...came);
  }
  return {
    schema: "floodgate/bench@1",
    started_at: startedAt.toISOString(),
    commit: await commitOf(REPOSITORY),
    environment: { node: process.versions.node, cores: cpus().length, cpu: cpus()[0]?.model ?? "unknown" },
    ...{ settings, rows, skipped },
  };
};

/** Runs `body`; its processes end and its folder is removed however that ends, also by kill -9. */
const supervised = async <T>(body: (room: BenchRoom) => Promise<T>): Promise<T> => {
  using room = mkdtempDisposableSync(join(tmpdir(), "floodgate-bench-"));
  const { path: folder } = room;
  using atEnd = new DisposableStack();
  const journal = atEnd.adopt(openJournal(join(folder, "journal.ndjson")), ({ close }) => close());
  // The watchdog removes the folder if this process is killed.
  journal.about({ kind: "folder", name: "stores and journal", undo: { how: "remove-folder", path: folder } });
  const supervisor = await openSupervisor({ journal, watchdog: WATCHDOG_PROCESS, stopMs: 0 });
  return await supervisor.within(stop.signal, () => body({ supervisor, folder }));
};

const run = async (options: Options): Promise<void> => {
  const result = await supervised((room) => measure(options, room));
  const stamp = result.started_at.replace(/[-:]|\.\d+/g, "");
  const file = options.out ?? join(REPOSITORY, "reports/runs", `bench-${stamp}.json`);
  mkdirSync(dirname(file), { recursive: true });
  const text = `${JSON.stringify(result, null, 2)}\n`;
  writeFileSync(file, text);
  process.stderr.write(`\n${tableOf(result.rows, result.skipped)}\n${file}\n`);
  if (options.json) process.stdout.write(text);
  const has = (looked: Row["verdict"]): boolean => result.rows.some(({ verdict }) => verdict === looked);
  if (has("missed")) process.exitCode = EXIT.fail;
  else if (has("too-wide")) process.exitCode = EXIT.inconclusive;
};

const program = new Command("bench")
  .description("speed and memory of the platform, as ratios of bare servers measured in the same run")
  .option("--quick", "about a minute in all: fewer and shorter blocks")
  .option("--only <name...>", `of ${BENCHES.map(({ name }) => name).join(", ")}`)
  .option("--rounds <n>", "pairs of blocks", positive)
  .option("--connections <n>", "of the closed loop", positive, 128)
  .option("--soak", `also memory over ${SOAK_CALLS} calls`)
  .option("--out <file>", "where the JSON goes (default: reports/runs/bench-<time>.json)")
  .option("--json", "the JSON on stdout too");

const stop = listenForStop(() => undefined);

try {
  program.parse();
  await run(program.opts<Options>());
} catch (error) {
  const by = stop.stoppedBy();
  if (by !== null) process.exit(EXIT_OF_SIGNAL[by]);
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = error instanceof InvalidArgumentError ? EXIT.usage : EXIT.inconclusive;
}
