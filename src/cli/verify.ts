/** `floodgate verify`: black-box conformance of any deployment, rule by rule. */
import type { RunEvents } from "../deployments/deployment.ts";
import { listEntry, wrapped } from "../report/terminal.ts";
import { planOfTarget, type VerifyWishes, verifyTarget } from "../run/bodies.ts";
import { RULES } from "../verify/catalogue.ts";
import { AT_A_TIME } from "../verify/context.ts";
import type { VerifyProgress } from "../verify/run-verify.ts";
import { RATE_PER_S } from "../verify/sending/throttle.ts";
import { guardLines, type JudgingOptions, judgingCommand, ON_SERVED } from "./judging-command.ts";
import { type CommandRows, positive } from "./options.ts";
import { printShown, type Shown } from "./printing.ts";

type VerifyOptions = JudgingOptions &
  Partial<Omit<VerifyWishes, "ratePerS">> & {
    list?: boolean;
    rate?: number;
    keepAnswers?: boolean;
    requireAll?: boolean;
  };

const listed = (): Shown => ({
  document: RULES.map(({ id, level, spec, title, phase, needs }) => ({ id, level, spec, title, phase, needs })),
  lines: RULES.map(({ id, level, phase, title, spec }) => {
    const items = spec.length === 0 ? "" : `, items ${spec.join(" ")}`;
    return listEntry(id, `${level}, ${phase}${items}`, title);
  }),
});

const SHOWN_LACKS = 3;

const planned = async (request: Parameters<typeof planOfTarget>[0]): Promise<Shown> => {
  const { plan, refusedByGuard, warnings } = await planOfTarget(request);
  const { rules, would_send: sends, budget } = plan;
  const skipped = rules.filter(({ lacks }) => lacks !== null);
  const by = Map.groupBy(skipped, ({ lacks }) => lacks as string);
  const lines = [
    `Nothing was sent to ${plan.target.base_url}.`,
    ...wrapped(
      `A run would judge ${rules.length - skipped.length} of ${rules.length} rules, with at most about ${sends.calls} calls (${plan.takes_s_at_least} s or more at ${plan.rate_per_s} calls/s), ${sends.map_loads} map loads, ${sends.analyses} analyses and ${sends.keys} keys made and removed. The time does not count latency: bursts apart, at most ${AT_A_TIME} calls wait for their answers side by side.`,
    ),
    `Budget: ${budget.requests ?? "any number of"} calls, ${budget.map_loads} map loads, ${budget.analyses} analyses.`,
    ...warnings.flatMap((warning) => wrapped(`Warning: ${warning}`)),
    ...guardLines(refusedByGuard),
    ...[...by].flatMap(([lacks, of]) => {
      const shown = of.slice(0, SHOWN_LACKS).map(({ id }) => id);
      const more = of.length > SHOWN_LACKS ? `, and ${of.length - SHOWN_LACKS} more` : "";
      return [`Skipped, ${lacks}:`, `  ${shown.join(", ")}${more}`];
    }),
  ];
  return { document: { ...plan, refused_by_guard: refusedByGuard, warnings }, lines };
};

/** Reports each failed claim as it is made, and one claim for each reason why claims stay open. */
export const tellRules = ({ progress, result }: Pick<RunEvents, "progress" | "result">) => {
  // After Ctrl-C all remaining rules have the same reason.
  const said = new Set<string>();
  return (now: VerifyProgress): void => {
    if (now.at === "rule") {
      progress(`rule ${now.number} of ${now.of}: ${now.rule.id}`);
      return;
    }
    const { id, verdict, level, reason } = now.claim;
    const isNews = verdict === "fail" || (verdict === "inconclusive" && level === "must" && !said.has(reason));
    if (now.at === "again") result(`  tried again: ${id}: ${verdict}: ${reason}`);
    else if (isNews) {
      said.add(reason);
      result(`  ${verdict} (${level}): ${id}: ${reason}`);
    }
  };
};

const ROWS: CommandRows = {
  about: "try the rules of the API one by one, from outside, on any deployment",
  options: [
    ["--only <id...>", "only these rules or phases"],
    ["--skip <id...>", "not these rules or phases"],
    ["--list", "list the rules; nothing is sent"],
    ["--rate <n>", `calls per second (default ${RATE_PER_S})`, positive],
    ["--require-all", "a skipped rule makes the run inconclusive"],
    ["--keep-answers", "keep what was answered, masked, in answers.ndjson of the run folder"],
    ["--allow-writes", "may make and remove keys"],
    ["--allow-quota-burn", "may use up the allowance of the expendable organizations"],
    ["--allow-load", "may send short bursts, up to permits.load_max_rps"],
  ],
};

export const verifyCommand = () =>
  judgingCommand<VerifyOptions>(
    "verify",
    ROWS,
    ({ list, json, only, skip, rate: ratePerS, keepAnswers, requireAll, ...options }) => {
      if (list === true) {
        printShown(json, listed());
        return null;
      }
      const { allowWrites = false, allowQuotaBurn = false, allowLoad = false } = options;
      const wishes = { only, skip, ratePerS, allowWrites, allowQuotaBurn, allowLoad };
      return {
        plan: ({ owned }, targetFile) => planned({ ...wishes, targetFile, owned }),
        play: (common, targetFile) =>
          verifyTarget({
            ...common,
            ...wishes,
            targetFile,
            requireAll: requireAll === true,
            keepsAnswers: keepAnswers === true,
            onProgress: tellRules(common.events),
            events: { ...common.events, stage: () => undefined },
          }),
        served: { count: 1, said: ON_SERVED },
      };
    },
  );
