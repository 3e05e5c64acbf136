/** `chaos --heal`: what was taken back, run by run. */

import { dirname } from "node:path";
import { EXIT } from "../../run/exit-codes.ts";
import { type HealedRun, healLeftOpen } from "../../run/experiments/heal-left-open.ts";
import { printJson, printResult } from "./output.ts";

const linesOf = ({ journal, running, taken }: HealedRun): string[] => {
  const run = dirname(journal);
  if (running !== null) {
    const broken =
      running.length === 0 ? "has nothing broken now" : `has broken ${running.join(", ")} and heals that itself`;
    return [`${run}: the run is still going and ${broken}`];
  }
  const said = taken
    .filter(({ did }) => did !== "nothing to take back")
    .map(({ kind, name, did, trouble }) => `  ${kind} ${name}: ${trouble === null ? did : `STILL BROKEN: ${trouble}`}`);
  return [`${run}:`, ...(said.length === 0 ? ["  nothing was broken"] : said)];
};

export const showHealed = async (reports: string, out: string | undefined, json: boolean): Promise<void> => {
  const healed = await healLeftOpen(reports, out);
  process.exitCode = healed.isWhole ? EXIT.pass : EXIT.inconclusive;
  if (json) {
    printJson({ schema: "floodgate/healed@1", ...healed });
    return;
  }
  const lines = healed.runs.flatMap(linesOf);
  const end =
    healed.runs.length === 0
      ? `Nothing to heal: the journals of ${healed.looked} runs have nothing open.`
      : healed.isWhole
        ? "Everything that was left open is taken back."
        : "Something is still broken; see above, and run this again when its cause is gone.";
  printResult([...lines, end].join("\n"));
};
