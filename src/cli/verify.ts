/** `floodgate verify`: black-box conformance of any deployment, rule by rule. */

import { Command } from "commander";
import { withServed } from "../deployments/served.ts";
import { planOfTarget, type VerifyWishes, verifyTarget } from "../run/verify-target.ts";
import { RULES } from "../verify/catalogue.ts";
import { AT_A_TIME } from "../verify/context.ts";
import type { VerifyProgress } from "../verify/run-verify.ts";
import { RATE_PER_S } from "../verify/sending/throttle.ts";
import { positive } from "./options/numbers.ts";
import { commandLine, ON_SERVED, runOptions, type TargetOptions, withTargetOptions } from "./options/target-options.ts";
import { narrator } from "./printing/narrator.ts";
import { printJson, printNote, printResult } from "./printing/output.ts";
import { showRun } from "./printing/show-run.ts";
import { wrapped } from "./printing/wrapped.ts";

type VerifyCommandOptions = TargetOptions & {
  only?: string[];
  skip?: string[];
  list?: boolean;
  rate?: number;
  keepAnswers?: boolean;
  requireAll?: boolean;
  allowWrites?: boolean;
  allowQuotaBurn?: boolean;
  allowLoad?: boolean;
};

const wishesOf = (options: VerifyCommandOptions): VerifyWishes => ({
  only: options.only,
  skip: options.skip,
  ratePerS: options.rate,
  allowWrites: options.allowWrites === true,
  allowQuotaBurn: options.allowQuotaBurn === true,
  allowLoad: options.allowLoad === true,
});

const EVERY_MS = 30_000;

const listRules = (json: boolean): void => {
  if (json) {
    const rows = RULES.map(({ id, level, spec, title, phase, needs }) => ({ id, level, spec, title, phase, needs }));
    printJson(rows);
    return;
  }
  for (const { id, level, phase, title, spec } of RULES) {
    printResult(`${id}  ${level}, ${phase}${spec.length === 0 ? "" : `, items ${spec.join(" ")}`}\n    ${title}\n`);
  }
};

const SHOWN_LACKS = 3;

/** The plan, without a call: what is skipped is grouped by what it lacks. */
const showVerifyPlan = async (targetFile: string, options: VerifyCommandOptions): Promise<void> => {
  const { plan, refusedByGuard } = await planOfTarget({
    ...wishesOf(options),
    targetFile,
    owned: options.iOwn ?? [],
  });
  if (options.json === true) {
    printJson({ ...plan, refused_by_guard: refusedByGuard });
    return;
  }
  const { rules, would_send: sends, budget } = plan;
  const skipped = rules.filter(({ lacks }) => lacks !== null);
  const by = Map.groupBy(skipped, ({ lacks }) => lacks as string);
  const lines = [
    `Nothing was sent to ${plan.target.base_url}.`,
    ...wrapped(
      `A run would judge ${rules.length - skipped.length} of ${rules.length} rules, with at most about ${sends.calls} calls (${plan.takes_s_at_least} s or more at ${plan.rate_per_s} calls/s), ${sends.map_loads} map loads, ${sends.analyses} analyses and ${sends.keys} keys made and removed. The time does not count latency: bursts apart, at most ${AT_A_TIME} calls wait for their answers side by side.`,
    ),
    `Budget: ${budget.requests ?? "any number of"} calls, ${budget.map_loads} map loads, ${budget.analyses} analyses.`,
    ...refusedByGuard.flatMap((reason) => wrapped(`A run would be refused by the safety guard: ${reason}`)),
    ...[...by].flatMap(([lacks, of]) => {
      const more = of.length > SHOWN_LACKS ? `, and ${of.length - SHOWN_LACKS} more` : "";
      return [
        `Skipped, ${lacks}:`,
        `  ${of
          .slice(0, SHOWN_LACKS)
          .map(({ id }) => id)
          .join(", ")}${more}`,
      ];
    }),
  ];
  printResult(lines.join("\n"));
};

/** A line for each claim that fails as it is made, one for each reason why some stay open, and a sign of life every 30 s. */
export const narrate = (quiet: boolean): { progress(progress: VerifyProgress): void; end(): void } => {
  let now = "";
  // After Ctrl-C every rule that is left has the same reason; the end counts them.
  const said = new Set<string>();
  const say = (text: string): void => {
    if (quiet) return;
    printNote(`  ${text}`);
    timer.refresh();
  };
  // By the clock and not by the rules: where answers are slow, one rule takes longer than that.
  const timer = setInterval(() => {
    if (now !== "") say(`… ${now}`);
  }, EVERY_MS);
  return {
    progress: (progress) => {
      if (progress.at === "rule") {
        now = `rule ${progress.number} of ${progress.of}: ${progress.rule.id}`;
        return;
      }
      if (progress.at === "again") {
        say(`tried again: ${progress.claim.id}: ${progress.claim.verdict}: ${progress.claim.reason}`);
        return;
      }
      const { verdict, reason, id, level } = progress.claim;
      if (verdict === "fail" || (verdict === "inconclusive" && level === "must" && !said.has(reason))) {
        said.add(reason);
        say(`${verdict} (${level}): ${id}: ${reason}`);
      }
    },
    end: () => clearInterval(timer),
  };
};

const verify = async (targetFile: string, options: VerifyCommandOptions): Promise<void> => {
  if (options.dryRun === true) return showVerifyPlan(targetFile, options);
  const common = runOptions(options);
  const narration = narrate(options.quiet === true);
  const say = narrator({ quiet: options.quiet === true, title: "verify", seed: common.seed });
  const result = await verifyTarget({
    ...common,
    ...wishesOf(options),
    targetFile,
    requireAll: options.requireAll === true,
    keepsAnswers: options.keepAnswers === true,
    onProgress: narration.progress,
    replay: commandLine(["verify"], options, common.seed),
    events: { ...say, step: () => undefined, stage: () => undefined },
  }).finally(() => {
    narration.end();
    say.end();
  });
  showRun(result, options);
};

export const verifyCommand = (): Command =>
  withTargetOptions(
    new Command("verify")
      .description("try the rules of the API one by one, from outside, on any deployment")
      .option("--only <id...>", "only these rules or phases")
      .option("--skip <id...>", "not these rules or phases")
      .option("--list", "list the rules; nothing is sent")
      .option("--rate <n>", `calls per second (default ${RATE_PER_S})`, positive)
      .option("--require-all", "a skipped rule makes the run inconclusive")
      .option("--keep-answers", "keep what was answered, masked, in answers.ndjson of the run folder")
      .option("--allow-writes", "may make and remove keys")
      .option("--allow-quota-burn", "may use up the allowance of the expendable organizations")
      .option("--allow-load", "may send short bursts, up to permits.load_max_rps"),
  ).action(async (options: VerifyCommandOptions) => {
    if (options.list === true) return listRules(options.json === true);
    if (options.target === undefined) {
      printNote(ON_SERVED);
      return withServed(1, ([file = ""]) => verify(file, options));
    }
    return verify(options.target, options);
  });
