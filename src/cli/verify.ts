/** `floodgate verify`: black-box conformance of any deployment, rule by rule. */
import { join } from "node:path";
import { Command } from "commander";
import { terminalText } from "../report/terminal.ts";
import { REPOSITORY } from "../run/environment.ts";
import { planOfTarget, verifyTarget } from "../run/verify-target.ts";
import { RULES } from "../verify/catalogue.ts";
import { AT_A_TIME } from "../verify/context.ts";
import type { VerifyProgress } from "../verify/run-verify.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { positive, whole } from "./numbers.ts";

type VerifyCommandOptions = {
  target?: string;
  only?: string[];
  skip?: string[];
  list?: boolean;
  rate?: number;
  requireAll?: boolean;
  allowWrites?: boolean;
  allowQuotaBurn?: boolean;
  allowLoad?: boolean;
  seed?: number;
  out?: string;
  json?: boolean;
  quiet?: boolean;
  iOwn?: string[];
  dryRun?: boolean;
};

const EVERY_MS = 30_000;

const listRules = (json: boolean): void => {
  if (json) {
    const rows = RULES.map(({ id, level, spec, title, phase, needs }) => ({ id, level, spec, title, phase, needs }));
    process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
    return;
  }
  for (const { id, level, phase, title, spec } of RULES) {
    process.stdout.write(
      `${id}  ${level}, ${phase}${spec.length === 0 ? "" : `, items ${spec.join(" ")}`}\n    ${title}\n`,
    );
  }
};

const SHOWN_LACKS = 3;

/** The plan, without a call: what is skipped is grouped by what it lacks. */
const tellPlan = async (targetFile: string, options: VerifyCommandOptions): Promise<void> => {
  const { plan, refusedByGuard } = await planOfTarget({
    ...{ targetFile, owned: options.iOwn ?? [], only: options.only, skip: options.skip },
    ...{ ratePerS: options.rate, allowWrites: options.allowWrites === true },
    ...{ allowQuotaBurn: options.allowQuotaBurn === true, allowLoad: options.allowLoad === true },
  });
  if (options.json === true) {
    process.stdout.write(`${JSON.stringify({ ...plan, refused_by_guard: refusedByGuard }, null, 2)}\n`);
    return;
  }
  const { rules, would_send: sends, budget } = plan;
  const skipped = rules.filter(({ lacks }) => lacks !== null);
  const by = Map.groupBy(skipped, ({ lacks }) => lacks as string);
  const lines = [
    `Nothing was sent to ${plan.target.base_url}. A run would judge ${rules.length - skipped.length} of ${rules.length} rules,`,
    `with at most about ${sends.calls} calls (${plan.takes_s_at_least} s or more at ${plan.rate_per_s} calls/s), ${sends.map_loads} map loads,`,
    `${sends.analyses} analyses and ${sends.keys} keys made and removed.`,
    `The time does not count latency: bursts apart, at most ${AT_A_TIME} calls wait for their answers side by side.`,
    `Budget: ${budget.requests ?? "any number of"} calls, ${budget.map_loads} map loads, ${budget.analyses} analyses.`,
    ...refusedByGuard.map((reason) => `A run would be refused by the safety guard: ${reason}`),
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
  process.stdout.write(`${lines.join("\n")}\n`);
};

/** A line for each claim that is not a pass as it is made, and a sign of life every 30 s. */
const narrate = (quiet: boolean): { progress(progress: VerifyProgress): void; end(): void } => {
  let now = "";
  const say = (text: string): void => {
    if (quiet) return;
    process.stderr.write(`  ${text}\n`);
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
      if (verdict === "fail" || (verdict === "inconclusive" && level === "must")) {
        say(`${verdict} (${level}): ${id}: ${reason}`);
      }
    },
    end: () => clearInterval(timer),
  };
};

export const verifyCommand = (): Command =>
  new Command("verify")
    .description("black-box conformance of any deployment, rule by rule")
    .option("--target <file>", "target file of the deployment")
    .option("--only <id...>", "only these rules or phases")
    .option("--skip <id...>", "not these rules or phases")
    .option("--list", "list the rules and end")
    .option("--rate <n>", "calls a second (default 20)", positive)
    .option("--require-all", "a skipped rule makes the run inconclusive")
    .option("--allow-writes", "may make and remove keys")
    .option("--allow-quota-burn", "may use up the allowance of the expendable organizations")
    .option("--allow-load", "may send short bursts, up to permits.load_max_rps")
    .option("--dry-run", "send nothing: tell what would be judged, skipped, sent and spent")
    .option("--i-own <host...>", "hosts that are yours and not loopback")
    .option("--seed <n>", "of choices", whole(0))
    .option("--out <dir>", "the run folder (default: a new one under reports/runs)")
    .option("--json", "print the content of run.json (or of --list) on stdout")
    .option("--quiet", "no progress")
    .action(async (options: VerifyCommandOptions) => {
      if (options.list === true) return listRules(options.json === true);
      if (options.target === undefined) {
        throw new CommandError(
          EXIT.usage,
          "verify needs --target FILE; `floodgate serve --write-target FILE` writes one to try",
        );
      }
      if (options.dryRun === true) return tellPlan(options.target, options);
      const seed = options.seed ?? Math.floor(Math.random() * 2 ** 31);
      const { only, skip, rate, out } = options;
      const narrator = narrate(options.quiet === true);
      const { document, folder, result } = await verifyTarget({
        ...{ targetFile: options.target, seed, reports: join(REPOSITORY, "reports"), owned: options.iOwn ?? [] },
        ...(out === undefined ? {} : { out }),
        ...(only === undefined ? {} : { only }),
        ...(skip === undefined ? {} : { skip }),
        ...(rate === undefined ? {} : { ratePerS: rate }),
        requireAll: options.requireAll === true,
        allowWrites: options.allowWrites === true,
        allowQuotaBurn: options.allowQuotaBurn === true,
        allowLoad: options.allowLoad === true,
        events: {
          folder: (path) => process.stderr.write(`floodgate verify, seed ${seed}\nrun folder: ${path}\n`),
          warning: (text) => process.stderr.write(`warning: ${text}\n`),
          progress: narrator.progress,
          signalled: (signal) =>
            process.stderr.write(`\n${signal}: stopping; what was made is removed, then the report is written\n`),
        },
      }).finally(narrator.end);
      const colour = process.stderr.isTTY === true && process.env.NO_COLOR === undefined;
      process.stderr.write(`${terminalText(document, { folder: folder.path, colour })}\n`);
      const { requests, map_loads, analyses } = result.spent;
      process.stderr.write(`Spent: ${requests} requests, ${map_loads} map loads, ${analyses} analyses.\n`);
      if (options.json === true) process.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
      process.exitCode = document.exit_code;
    });
