/** `floodgate capacity`: the highest rate inside the objectives, the limit met first, replicas and headroom. */

import { Command, Option } from "commander";
import { answerText, type Found } from "../capacity/capacity-claims.ts";
import { probeTable } from "../capacity/probe-table.ts";
import type { ShareObjective } from "../capacity/share-objective.ts";
import { withServed } from "../deployments/served.ts";
import { type CapacityPlan, type CapacityWishes, findCapacity, planCapacity } from "../run/capacity/capacity.ts";
import type { PlayedProbe } from "../run/capacity/capacity-probe.ts";
import type { Arrivals } from "../workload/arrivals.ts";
import { commandLine, ON_SERVED, runOptions, type TargetOptions, withTargetOptions } from "./options/target-options.ts";
import { narrator } from "./printing/narrator.ts";
import { printJson, printNote, printResult } from "./printing/output.ts";
import { showRun } from "./printing/show-run.ts";
import { wrapped } from "./printing/wrapped.ts";

type CapacityCommandOptions = TargetOptions & {
  scenario: string;
  slo?: string;
  demand?: string;
  arrivals: Arrivals;
  short?: boolean;
};

const EXPLAINED = `
Objectives: refusals<=1%, errors<=1%, p50|p90|p99|p999<=300ms (whole answers),
ttfe_p50|ttfe_p99<=800ms (first event of streams); several with commas. Where
nothing is said of errors, errors<=1% is added.

A demand is JSON: { "peak_rps": 120, "growth": 1.3, "headroom": 0.3 }.

Exit codes: 0 found, and the demand is met; 1 the demand is not met, or the
objectives are broken at any rate; 4 not decided, e.g. the generator or
permits.load_max_rps was the limit.`;

const shownRate = (perS: number): string => (perS < 10 ? perS.toFixed(1) : perS.toFixed(0));

const showPlan = (plan: CapacityPlan, json: boolean): void => {
  if (json) {
    printJson(plan);
    return;
  }
  const { target, story, arrivals, objectives, max_per_s, rates, seconds_at_most, lacks, refused_by_guard } = plan;
  const budget = Object.entries(target.budget).map(([what, most]) => `${most} ${what}`);
  const top =
    max_per_s === null
      ? "permits.load_max_rps is not stated: nothing bounds the rate"
      : `at most ${shownRate(max_per_s)}/s`;
  const lines = [
    `Nothing was sent to ${target.name}.`,
    ...wrapped(
      `A run would play ${story} (${arrivals} arrivals) at ${rates.map(shownRate).join(", ")} calls/s until one of ${objectives.join(", ")} is broken, then between; ${top}.`,
    ),
    `It takes ${seconds_at_most} s at the most.`,
    budget.length === 0 ? "The target file states no budget." : `Budget of the target file: ${budget.join(", ")}.`,
    ...lacks.map((what) => `The target file lacks: ${what}.`),
    ...refused_by_guard.flatMap((reason) => wrapped(`A run would be refused by the safety guard: ${reason}`)),
  ];
  printResult(lines.join("\n"));
};

const foundLines = ({ answer, limit, advice, objectives }: Found): string[] => [
  "",
  ...wrapped(`Highest rate with ${objectives.join(", ")}: ${answerText(answer)}; ${answer.reason}.`),
  ...(limit.owner !== "none" ? wrapped(`The limit met first: ${limit.sentence}.`) : []),
  ...wrapped(`Not the generator: ${answer.generator}.`.replace("Not the generator: it is", "It is")),
  ...advice.flatMap((line) => wrapped(line)),
  "",
];

/** What the reference platform states no objective for. */
const SLO_ON_SERVED = "refusals<=1%,ttfe_p99<=800ms";

const capacity = async (targetFile: string, options: CapacityCommandOptions): Promise<void> => {
  const { scenario, slo, arrivals, demand: demandFile } = options;
  const common = runOptions(options);
  const short = options.short === true;
  const wishes: CapacityWishes = {
    targetFile,
    slo,
    arrivals,
    demandFile,
    short,
    owned: common.owned,
    story: scenario,
  };
  if (options.dryRun === true) return showPlan(await planCapacity(wishes), options.json === true);
  const words = [
    "capacity",
    "--scenario",
    scenario,
    ...(slo === undefined ? [] : ["--slo", `'${slo}'`]),
    ...(demandFile === undefined ? [] : ["--demand", demandFile]),
    ...(arrivals === "poisson" ? [] : ["--arrivals", arrivals]),
    ...(short ? ["--short"] : []),
  ];
  const quiet = options.quiet === true;
  const say = narrator({ quiet, title: words.join(" "), seed: common.seed });
  let objectives: readonly ShareObjective[] = [];
  const probes: PlayedProbe[] = [];
  const result = await findCapacity({
    ...common,
    ...wishes,
    replay: commandLine(words, options, common.seed),
    events: { ...say, stage: () => undefined },
    onObjectives: (stated) => {
      objectives = stated;
    },
    onProbe: (probe) => {
      probes.push(probe);
      const rows = probeTable([probe], objectives);
      for (const row of probes.length === 1 ? rows : rows.slice(1, 2)) say.result(row);
    },
  }).finally(say.end);
  if (result.found !== null) printNote(foundLines(result.found).join("\n"));
  showRun(result, options);
};

export const capacityCommand = (): Command =>
  withTargetOptions(
    new Command("capacity")
      .description("find the highest rate inside the objectives, and which limit is met first")
      .option("--scenario <name>", "what is played", "chat-past-capacity")
      .option("--slo <objectives>", "e.g. 'refusals<=1%,p99<=300ms' (default: slo of the target file)")
      .option("--demand <file>", "JSON: what has to be carried; replicas and headroom follow")
      .addOption(new Option("--arrivals <how>", "how calls arrive").choices(["poisson", "uniform"]).default("poisson"))
      .option("--short", "about a third of the time, a wider interval")
      .addHelpText("after", EXPLAINED),
  ).action(async (options: CapacityCommandOptions) => {
    if (options.target !== undefined) return capacity(options.target, options);
    printNote(ON_SERVED);
    return withServed(1, ([file = ""]) => capacity(file, { ...options, slo: options.slo ?? SLO_ON_SERVED }));
  });
