/** Measures what shedding costs the reference platform with 64 slots, played by the `load` command. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import { withServed } from "../deployments/deployment.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import { bucketOf, countOf, mergeSparse, type Series, type StageSeries } from "../history/series.ts";
import type { Curve } from "../shedding/curve.ts";
import { carriedPerS } from "../shedding/knee.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import type { Target as Deployed } from "../target/target.ts";
import * as bench from "./comparison.ts";

const SLOTS = 64;
/** Makes a knee of 149 calls/s, so that two cores can offer ten times the knee. */
const CURVE_MS = 430;
const CURVE_S = 240;
/** Half of the knee of 640 calls/s, for as long as 100,000 calls take. */
const CALM_MS = 100;
const CALM_PER_S = 320;
const CALM_S = 315;

/** Adds commands to a target file that halve the deployment's slots and restore them. */
const withHalving = (file: string): void => {
  const target = JSON.parse(readFileSync(file, "utf8")) as Deployed;
  const control = join(REPOSITORY, "src/client/control-planes.ts");
  const slots = (n: number): string[] =>
    (target.control?.api ?? []).map((api) => {
      const change = `controlSend("PATCH", "${api}/deployment", { slots: ${n} })`;
      return `'${process.execPath}' --input-type=module -e 'const { controlSend } = await import("${control}"); await ${change}'`;
    });
  const faults = { "service.halved": { inject: slots(SLOTS / 2), heal: slots(SLOTS) } };
  writeFileSync(file, JSON.stringify({ ...target, faults, permits: { ...target.permits, chaos: true } }));
};

type Preparation = { serviceMs?: number; options?: readonly string[]; prepare?(file: string): void };

/** Plays `load` on a reference platform of its own. */
const playOn = (room: bench.BenchRoom, serviceMs: number, words: readonly string[], more: Preparation = {}) =>
  withServed(
    1,
    ([file = ""]) => {
      more.prepare?.(file);
      return bench.recordLoad(room, [...words, "--target", file]);
    },
    ["--slots", `${SLOTS}`, "--service-ms", `${serviceMs}`, "--tenants", "12", ...(more.options ?? [])],
  );

type Played = Awaited<ReturnType<typeof bench.recordLoad>>;

type Scenario = Preparation & {
  words: readonly string[];
  figure(played: Played): number;
  unit: string;
  target: bench.Target;
  against: number;
  /** How often it is played. */
  rounds: number;
};

/** Calls a second that were answered within twice the service time, due from a second after the slots were halved until they came back. */
const settledPerS = ({ folder }: Played): number => {
  const { stages } = JSON.parse(readFileSync(join(folder, "series.json"), "utf8")) as Series;
  const [{ events, latency, from_ms, bin_ms }] = stages as [StageSeries];
  const at = (phase: string): number => events.find(({ name }) => name === phase)?.at_ms ?? Number.NaN;
  const [from, to] = [
    Math.ceil((at("injected") + 1_000 - from_ms) / bin_ms),
    Math.floor((at("healing") - from_ms) / bin_ms),
  ];
  const stays = mergeSparse(latency.slice(from, to));
  const lastBucket = bucketOf(2_000 * CALM_MS);
  const good = stays.filter((_, i) => (stays[i - (i % 2)] as number) <= lastBucket);
  return (1_000 * countOf(good)) / ((to - from) * bin_ms);
};

/** Scenarios, each with one figure and its target, played on a platform of its own. */
// biome-ignore format: a row is a line
const SCENARIOS: readonly Scenario[] = [
  { words: ["retry-storm", "--duration", "140s"], figure: ({ document }) => bench.figureOf(document, "recovery_ms"), unit: "ms after ten times the capacity with retries", target: { atMost: 1 }, against: 1_000, rounds: 1 },
  { words: ["noisy-neighbour", "--duration", "60s"], figure: ({ document }) => bench.figureOf(document, "isolation"), unit: "of the quiet calls served beside a noisy one", target: { atLeast: 0.999 }, against: 1, rounds: 1 },
  { words: ["capacity-halved"], figure: settledPerS, unit: "served/s from a second after the step, beside half the slots", target: { atLeast: 0.9 }, against: (SLOTS / 2) * 1_000 / CALM_MS, rounds: 5,
    serviceMs: CALM_MS, options: ["--shedding", "adaptive", "--control-port", "0"], prepare: withHalving },
];

/** Least share of the largest goodput at each multiple of the knee, or the closed form's where that is lower. */
const RETAINED = [
  { times: 2, least: 0.98, name: "goodput_retention" },
  { times: 5, least: 0.97, name: "goodput_retention_5" },
  { times: 10, least: 0.95, name: "goodput_retention_10" },
] as const;

/** The invariant that judges whether the cap can have been reached when a call was shed. */
const ONLY_OVER_THE_CAP = "sheds-only-over-the-cap";
const KNEE_OFF = 0.03;
const FAIR = 0.999;

type Measured = { value: number; disturbances: string[] };

const rowOf = ({ name, ...about }: bench.About, against: number, measured: readonly Measured[]): bench.Row => {
  const blocks = measured.map(({ value, disturbances }) => bench.plainBlock(value, { disturbances }));
  return bench.compare({ ...about, name: `shedding: ${name}` }, bench.paired(blocks, against));
};

const curveRows = (document: RunDocument, curve: Curve, disturbances: string[]): bench.Row[] => {
  const row = (name: string, unit: string, target: bench.Target, ours: number, against: number): bench.Row =>
    rowOf({ name, what: shedding.what, unit, target }, against, [{ value: ours, disturbances }]);
  const perS = (SLOTS * 1000) / curve.serviceMs;
  const system = { perS, slots: SLOTS, places: SLOTS, replicas: 1 };
  const most = Math.max(...curve.levels.map(({ ratePerS }) => carriedPerS(system, ratePerS)));
  const knee = bench.figureOf(document, "knee_rps");
  return [
    ...RETAINED.map(({ times, least, name }) => {
      const due = Math.min(1, carriedPerS(system, times * perS) / most / least);
      return row(`at ${times} times`, "of the largest", { atLeast: least }, bench.figureOf(document, name), due);
    }),
    row("the knee", "1/s", { atMost: 1 + KNEE_OFF }, Math.max(knee, perS), Math.min(knee, perS)),
    row("fairness", "Jain's index", { atLeast: FAIR }, bench.figureOf(document, "jain_index"), 1),
  ];
};

export const shedding: bench.Bench = {
  name: "shedding",
  what: `what ${SLOTS} slots keep past the knee, refuse below it, and need to come back, against their closed form`,
  isLong: true,
  run: async (_, room) => {
    const steep = await playOn(room, CURVE_MS, ["shedding-curve", "--duration", `${CURVE_S}s`]);
    const curve = JSON.parse(readFileSync(join(steep.folder, "curve.json"), "utf8")) as Curve;
    const rows = curveRows(steep.document, curve, steep.disturbances);

    const load = ["shedding-curve", "--profile", "constant", "--rate", `${CALM_PER_S}`, "--duration", `${CALM_S}s`];
    const calm = await playOn(room, CALM_MS, load);
    const { by_outcome: outcomes = {}, calls } = calm.document.stages[0] ?? {};
    const shed = Object.entries(outcomes).reduce((sum, [outcome, n]) => sum + (SHED_OUTCOMES.has(outcome) ? n : 0), 0);
    // After a pause of the machine calls come in a bunch and fill the slots. A shed is false only if fewer calls were in flight.
    const isExplained = ({ id, verdict }: Claim) => id.startsWith(`${ONLY_OVER_THE_CAP}/`) && verdict === "pass";
    const falseSheds = calm.document.claims.some(isExplained) ? 0 : shed;
    const what = `of ${calls?.sent ?? 0} calls at half of the knee, ${shed} of them shed`;
    // One is added on both sides, because zero has no ratio.
    const about = { name: "false sheds", what, unit: "sheds + 1", target: { atMost: 1 } };
    rows.push(rowOf(about, 1, [{ value: falseSheds + 1, disturbances: calm.disturbances }]));

    for (const { words, figure, unit, target, against, rounds, ...more } of SCENARIOS) {
      const measured = await Array.fromAsync({ length: rounds }, async (): Promise<Measured> => {
        const played = await playOn(room, more.serviceMs ?? CURVE_MS, words, more);
        return { value: figure(played), disturbances: played.disturbances };
      });
      const name = words[0] as string;
      rows.push(rowOf({ name, what: unit, unit, target }, against, measured));
    }
    return rows;
  },
};
