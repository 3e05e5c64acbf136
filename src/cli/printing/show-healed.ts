/** `chaos --heal`: what was taken back, run by run, and how the proxies of the target file are afterwards. */
import { dirname } from "node:path";
import { EXIT } from "../../run/exit-codes.ts";
import { type Healed, type HealedRun, healLeftOpen } from "../../run/experiments/heal-left-open.ts";
import { type PreparedTarget, prepareTarget } from "../../stages/prepare-target.ts";
import { type Lock, lockTarget } from "../../target/lock.ts";
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

const lineOfProxy = ({ name, did, trouble }: Healed): string =>
  `proxy ${name}: ${trouble === null ? `${did === "" ? "" : `${did}; `}it serves` : `NOT WHOLE: ${trouble}`}`;

type HealOptions = {
  reports: string;
  out?: string;
  /** That folder alone, and not those under `reports/runs`. */
  onlyOut?: boolean;
  /** Its commands, its proxies and its control planes may be used. */
  targetFile?: string;
  owned: readonly string[];
  json: boolean;
};

/** Nothing is loaded or broken; the hosts of the file have to be the user's all the same. */
const NO_LOAD = { load: false, faults: false, requests: 0 };

/** Ends with 4 where something is still broken. */
export const showHealed = async ({ reports, out, onlyOut, targetFile, owned, json }: HealOptions): Promise<void> => {
  const given: PreparedTarget[] = targetFile === undefined ? [] : [await prepareTarget(targetFile, owned, NO_LOAD)];
  const locks: Lock[] = [];
  try {
    // Of a run on it the faults are its own to heal.
    for (const { target } of given) locks.push(lockTarget(target.base_url));
    const where = { ...(out === undefined ? {} : { out }), ...(onlyOut === undefined ? {} : { onlyOut }) };
    const healed = await healLeftOpen(reports, { ...where, given });
    process.exitCode = healed.isWhole ? EXIT.pass : EXIT.inconclusive;
    if (json) {
      printJson({ schema: "floodgate/healed@1", ...healed });
      return;
    }
    const lines = [...healed.runs.flatMap(linesOf), ...healed.proxies.map(lineOfProxy)];
    const isIdle = healed.runs.length === 0 && healed.proxies.every(({ did }) => did === "");
    const end = !healed.isWhole
      ? "Something is still broken; see above, and run this again when its cause is gone."
      : isIdle
        ? `Nothing to heal: the journals of ${healed.looked} runs have nothing open.`
        : "Everything that was left open is taken back.";
    printResult([...lines, end].join("\n"));
  } finally {
    for (const lock of locks) lock.release();
  }
};
