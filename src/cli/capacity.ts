/** `floodgate capacity`: the highest rate inside the objectives, the limit met first, replicas and headroom. */
import { InvalidArgumentError } from "commander";
import { answerText, type Found, limitPhrase, probeTable } from "../capacity/capacity-claims.ts";
import { wrapped } from "../report/terminal.ts";
import { type CapacityWishes, findCapacity, planCapacity } from "../run/capacity/capacity.ts";
import type { Arrivals } from "../workload/load-profiles.ts";
import { budgetLine, guardLines, type JudgingOptions, judgingCommand, ON_SERVED } from "./judging-command.ts";
import { type CommandRows, whole } from "./options.ts";
import { printNote, type Shown } from "./printing.ts";

type CapacityOptions = JudgingOptions & {
  scenario: string;
  slo?: string;
  demand?: string;
  arrivals: Arrivals;
  short?: boolean;
  replicas?: string;
  withoutOneReplica?: boolean;
};

const EXPLAINED = `
Objectives: refusals<=1%, errors<=1%, p50|p90|p99|p999<=300ms (whole answers),
ttfe_p50|ttfe_p99<=800ms (first event of streams); several with commas. Where
nothing is said of errors, errors<=1% is added.

A demand is JSON: { "peak_rps": 120, "growth": 1.3, "headroom": 0.3 }.

--replicas 1,2,3 searches with each number in turn, set by the target file's
  "scale": { "set": ["./scale {replicas}"], "ready": "./ready {replicas}" }
where ready exits with 0 once so many serve. It compares the rates, and says the
smallest measured number that carries the demand. --without-one-replica measures
the highest of them, or limits.replicas, and one fewer; the demand then has to be
carried by the fewer. This changes the deployment, so permits.chaos has to be
true, also on loopback, and another host needs a watchdog. At the end, also after
Ctrl-C or a kill, limits.replicas is set again; chaos --heal does it too.

Exit codes: 0 found, and the demand is met; 1 the demand is not met, or the
objectives are broken at any rate; 4 not decided, e.g. the generator or
permits.load_max_rps was the limit.`;

const shownRate = (perS: number): string => (perS < 10 ? perS.toFixed(1) : perS.toFixed(0));

const planned = async (wishes: CapacityWishes): Promise<Shown> => {
  const plan = await planCapacity(wishes);
  const { target, story, arrivals, objectives, max_per_s, rates, seconds_at_most, lacks, refused_by_guard } = plan;
  const { replicas, commands } = plan;
  const top =
    max_per_s === null
      ? "permits.load_max_rps is not stated: nothing bounds the rate"
      : `at most ${shownRate(max_per_s)}/s`;
  const lines = [
    `Nothing was sent to ${target.name}.`,
    ...wrapped(
      `A run would play ${story} (${arrivals} arrivals) at ${rates.map(shownRate).join(", ")} calls/s until one of ${objectives.join(", ")} is broken, then between; ${top}.`,
    ),
    ...(replicas.length === 0 ? [] : wrapped(`It would do so with ${replicas.join(", ")} replicas in turn.`)),
    ...commands.map((command) => `It would run: ${command}`),
    ...wrapped(`It takes ${seconds_at_most} s at the most, where nothing else uses this machine.`),
    budgetLine(target),
    ...lacks.map((what) => `The target file lacks: ${what}.`),
    ...guardLines(refused_by_guard),
  ];
  return { document: plan, lines };
};

const asSentence = (phrase: string | null): string[] =>
  phrase === null ? [] : wrapped(`${phrase.charAt(0).toUpperCase()}${phrase.slice(1)}.`);

const foundLines = ({ answer, limit, advice, objectives }: Found): string[] => [
  "",
  // Where no interval was found, the reason itself begins with the answer.
  ...wrapped(
    `Highest rate with ${objectives.join(", ")}: ${answer.kind === "found" ? `${answerText(answer)}; ` : ""}${answer.reason}.`,
  ),
  ...asSentence(limitPhrase({ answer, limit })),
  ...wrapped(`About the generator: ${answer.generator}.`),
  ...advice.flatMap((line) => wrapped(line)),
  "",
];

/** Objectives for the reference platform, whose target file states none. */
const SLO_ON_SERVED = "refusals<=1%,ttfe_p99<=800ms";

const REPLICAS_MOST = 1_000;

/** Checks the text and keeps it, because the line that repeats a run has it as it was typed. */
const replicaNumbers = (text: string): string => {
  const numbers = text.split(",").map(whole(1, REPLICAS_MOST));
  if (new Set(numbers).size === numbers.length) return text;
  throw new InvalidArgumentError(`expected each number once, got "${text}".`);
};

const ROWS: CommandRows = {
  about: "find the highest rate inside the objectives, and which limit is met first",
  options: [
    ["--scenario <name>", "what is played", undefined, "chat-past-capacity"],
    ["--slo <objectives>", "e.g. 'refusals<=1%,p99<=300ms' (default: slo of the target file)"],
    ["--demand <file>", "JSON: what has to be carried; replicas and headroom follow"],
    [
      "--replicas <numbers>",
      "numbers of replicas to measure in turn, e.g. 1,2,3 (scale of the target file)",
      replicaNumbers,
    ],
    ["--without-one-replica", "what is left, and whether it carries the demand, with one replica fewer"],
    ["--arrivals <how>", "how calls arrive", ["poisson", "uniform"], "poisson"],
    ["--short", "about a third of the time, a wider interval"],
  ],
  help: EXPLAINED,
};

export const capacityCommand = () =>
  judgingCommand<CapacityOptions>(
    "capacity",
    ROWS,
    ({ target, scenario: story, arrivals, demand: demandFile, short = false, ...options }) => {
      const slo = options.slo ?? (target === undefined ? SLO_ON_SERVED : undefined);
      const { withoutOneReplica = false } = options;
      const replicas = options.replicas?.split(",").map(Number) ?? [];
      const wishes = { slo, arrivals, demandFile, short, story, replicas, withoutOneReplica };
      // Replicas of the reference platform are started by the run itself.
      const isServed = replicas.length === 0 && !withoutOneReplica;
      const fileOf = (file: string) => (file === "" ? undefined : file);
      return {
        plan: ({ owned }, file) => planned({ ...wishes, owned, targetFile: fileOf(file) }),
        play: async (common, file) => {
          let probes = 0;
          const { found, lines, ...result } = await findCapacity({
            ...{ ...common, ...wishes, targetFile: fileOf(file), events: { ...common.events, stage: () => undefined } },
            onProbe: (probe, objectives) => {
              const rows = probeTable([probe], objectives);
              for (const row of probes++ === 0 ? rows : rows.slice(1, 2)) common.events.result(row);
            },
          });
          if (found !== null) printNote(foundLines(found).join("\n"));
          if (lines.length > 0) printNote(["", ...lines.flatMap((line) => wrapped(line)), ""].join("\n"));
          return result;
        },
        ...(isServed ? { served: { count: 1, said: ON_SERVED } } : {}),
      };
    },
  );
