/** What shedding costs the reference platform, by `load` as users run it, on 64 slots. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withServed } from "../deployments/served.ts";
import type { RunDocument } from "../history/run-document.ts";
import type { Curve } from "../shedding/curve.ts";
import { carriedPerS } from "../shedding/knee.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import type { Target } from "../target/target.ts";
import { type Bench, type BenchRoom, compare, type Pair, plainBlock, type Row, watchHost } from "./comparison.ts";
import { figureOf, recordLoad } from "./load-run.ts";

const SLOTS = 64;
/** 149 calls/s, so that ten times the knee is what two cores can offer. */
const CURVE_MS = 430;
const CURVE_S = 240;
/** Of retries and of the pair with and without the noisy organization. */
const STORM_S = 140;
const NOISY_S = 60;
/** Half of 640 calls/s for as long as it takes to make 100,000. */
const CALM_MS = 100;
const CALM_PER_S = 320;
const CALM_S = 315;

/** Adds to a target file the commands that halve its slots and give them back, as a user's deployment would have. */
const withHalving = (file: string): void => {
  const target = JSON.parse(readFileSync(file, "utf8")) as Target;
  const control = join(REPOSITORY, "src/client/control-planes.ts");
  const slots = (n: number): string[] =>
    (target.control?.api ?? []).map((api) => {
      const change = `controlSend("PATCH", "${api}/deployment", { slots: ${n} })`;
      return `'${process.execPath}' --input-type=module -e 'const { controlSend } = await import("${control}"); await ${change}'`;
    });
  const faults = { "service.halved": { inject: slots(SLOTS / 2), heal: slots(SLOTS) } };
  writeFileSync(file, JSON.stringify({ ...target, faults, permits: { ...target.permits, chaos: true } }));
};

/** Plays `load` on a reference platform of its own; `disturbances`: what others did to the machine meanwhile. */
const playOn = (room: BenchRoom, serviceMs: number, words: readonly string[], options: readonly string[] = []) =>
  withServed(
    1,
    async ([file = ""]) => {
      withHalving(file);
      const disturbed = watchHost();
      const run = await recordLoad(room, [...words, "--target", file]);
      return { ...run, disturbances: disturbed() };
    },
    ["--slots", `${SLOTS}`, "--service-ms", `${serviceMs}`, "--tenants", "12", "--control-port", "0", ...options],
  );

/** One figure of one scenario on a platform of its own, beside what it is to reach. */
const ROWS = [
  {
    scenario: "retry-storm",
    words: ["--duration", `${STORM_S}s`],
    figure: "recovery_ms",
    against: 1_000,
    target: { atMost: 1 },
    unit: "ms after ten times the capacity with retries",
  },
  {
    scenario: "noisy-neighbour",
    words: ["--duration", `${NOISY_S}s`],
    figure: "isolation",
    against: 1,
    target: { atLeast: 0.999 },
    unit: "of the quiet calls served beside a noisy one",
  },
  {
    scenario: "capacity-halved",
    words: [],
    options: ["--shedding", "adaptive"],
    figure: "reaction_ms",
    against: 1_000,
    target: { atMost: 1 },
    unit: "ms until an adaptive limit is where half of the slots want it",
  },
] as const;

/** Least share of the largest goodput at each multiple of the knee, or the closed form's where that is lower. */
const RETAINED = [
  { times: 2, least: 0.98, name: "goodput_retention" },
  { times: 5, least: 0.97, name: "goodput_retention_5" },
  { times: 10, least: 0.95, name: "goodput_retention_10" },
] as const;

const KNEE_OFF = 0.03;
const FAIR = 0.999;

const rowsOf = (document: RunDocument, curve: Curve, disturbances: string[]): Row[] => {
  const row = (name: string, unit: string, target: Row["target"], ours: number, against: number): Row => {
    const pair: Pair = { ours: plainBlock(ours, { disturbances }), against: plainBlock(against) };
    return compare({ name: `shedding: ${name}`, what: shedding.what, unit, target }, [pair]);
  };
  const perS = (SLOTS * 1000) / curve.serviceMs;
  const system = { perS, slots: SLOTS, places: SLOTS, replicas: 1 };
  const most = Math.max(...curve.levels.map(({ ratePerS }) => carriedPerS(system, ratePerS)));
  const knee = figureOf(document, "knee_rps");
  return [
    ...RETAINED.map(({ times, least, name }) => {
      const due = Math.min(1, carriedPerS(system, times * perS) / most / least);
      return row(`at ${times} times`, "of the largest", { atLeast: least }, figureOf(document, name), due);
    }),
    row("the knee", "1/s", { atMost: 1 + KNEE_OFF }, Math.max(knee, perS), Math.min(knee, perS)),
    row("fairness", "Jain's index", { atLeast: FAIR }, figureOf(document, "jain_index"), 1),
  ];
};

export const shedding: Bench = {
  name: "shedding",
  what: `what ${SLOTS} slots keep past the knee, refuse below it, and need to come back, against their closed form`,
  isLong: true,
  run: async (_, room) => {
    const { document, folder, disturbances } = await playOn(room, CURVE_MS, [
      ...["shedding-curve", "--duration", `${CURVE_S}s`],
    ]);
    const curve = JSON.parse(readFileSync(join(folder, "curve.json"), "utf8")) as Curve;
    const load = ["shedding-curve", "--profile", "constant", "--rate", `${CALM_PER_S}`, "--duration", `${CALM_S}s`];
    const calm = await playOn(room, CALM_MS, load);
    const outcomes = Object.entries(calm.document.stages[0]?.by_outcome ?? {});
    const shed = outcomes.reduce((sum, [outcome, n]) => sum + (outcome.endsWith("_overloaded") ? n : 0), 0);
    const calls = calm.document.stages[0]?.calls.sent ?? 0;
    // One more on both sides, since nothing has no ratio.
    const pair = { ours: plainBlock(shed + 1, { disturbances: calm.disturbances }), against: plainBlock(1) };
    const about = { name: "shedding: false sheds", what: `of ${calls} calls at half of the knee`, unit: "sheds + 1" };
    const rows = [...rowsOf(document, curve, disturbances), compare({ ...about, target: { atMost: 1 } }, [pair])];
    for (const { scenario, words, figure, against, target, unit, ...more } of ROWS) {
      const options = "options" in more ? more.options : [];
      const { document, disturbances } = await playOn(room, CURVE_MS, [scenario, ...words], options);
      const pair = { ours: plainBlock(figureOf(document, figure), { disturbances }), against: plainBlock(against) };
      rows.push(compare({ name: `shedding: ${scenario}`, what: figure, unit, target }, [pair]));
    }
    return rows;
  },
};
