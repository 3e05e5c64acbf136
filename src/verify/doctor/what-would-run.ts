/** What `verify` and faults would come to with this target file, worked out without sending anything. */
import { isLoopbackHost } from "../../contract/loopback.ts";
import type { Target } from "../../target/target.ts";
import { RULES } from "../catalogue.ts";
import type { Asked } from "../planning/lacks.ts";
import { planVerify, type VerifyPlan } from "../planning/plan.ts";
import { RATE_PER_S } from "../sending/throttle.ts";
import { type Finding, finding } from "./finding.ts";

const plan = (target: Target, asked: Asked): VerifyPlan =>
  planVerify(target, RULES, { ...asked, ratePerS: RATE_PER_S });

const SHOWN = 3;

const judged = ({ rules }: VerifyPlan): number => rules.filter(({ lacks }) => lacks === null).length;

const optionFinding = (target: Target, option: string, asked: Asked, base: VerifyPlan): Finding => {
  const with_ = plan(target, asked);
  const more = judged(with_) - judged(base);
  const { calls, map_loads: loads, keys } = with_.would_send;
  if (more > 0) {
    const spends = [
      `${calls - base.would_send.calls} calls`,
      `${loads - base.would_send.map_loads} map loads`,
      `${keys} keys made and removed`,
    ];
    return finding("info", option, `${more} rules more, for at most about ${spends.join(", ")}`);
  }
  const permit = /permits\.\w+/.exec(
    with_.rules.find(({ lacks }) => /permits\.\w+ of/.test(lacks ?? ""))?.lacks ?? "",
  )?.[0];
  return permit === undefined
    ? finding("skipped", option, "no rule more: the roles or limits that they need are not in the target file")
    : finding("skipped", option, `would be refused: ${permit} of the target file does not allow it`);
};

/** Sentences of `verify --dry-run`, for the file as it stands. */
export const verifyFindings = (target: Target): Finding[] => {
  const base = plan(target, {});
  const { rules, would_send: sends, budget, takes_s_at_least: seconds } = base;
  const spends = `${sends.calls} calls (${seconds} s or more), ${sends.map_loads} map loads, ${sends.analyses} analyses`;
  const allowed = `${budget.requests ?? "any number of"} calls, ${budget.map_loads} map loads, ${budget.analyses} analyses`;
  const text = `judges ${judged(base)} of ${rules.length} rules with at most about ${spends}; the budget allows ${allowed}`;
  const lacking = Map.groupBy(
    rules.filter(({ lacks }) => lacks !== null && !/needs --allow/.test(lacks)),
    ({ lacks }) => lacks as string,
  );
  // What would win most comes first.
  const skips = [...lacking]
    .toSorted(([, a], [, b]) => b.length - a.length)
    .map(([lacks, of]) => {
      const names = of.slice(0, SHOWN).map(({ id }) => id);
      const rest = of.length > SHOWN ? ` and ${of.length - SHOWN} more` : "";
      return finding(
        "skipped",
        of.length === 1 ? "1 rule" : `${of.length} rules`,
        `${lacks}: ${names.join(", ")}${rest}`,
      );
    });
  return [
    finding("info", "verify", text),
    optionFinding(target, "--allow-writes", { allowWrites: true }, base),
    optionFinding(target, "--allow-quota-burn", { allowQuotaBurn: true }, base),
    optionFinding(target, "--allow-load", { allowLoad: true }, base),
    ...skips,
  ];
};

export const faultFinding = (target: Target): Finding => {
  const ways = [
    ...(target.toxiproxy === undefined ? [] : ["toxiproxy"]),
    ...(Object.keys(target.faults ?? {}).length === 0 ? [] : ["faults"]),
  ];
  if (ways.length === 0) {
    return finding("skipped", "chaos", "no fault can be injected: neither toxiproxy nor faults is in the target file");
  }
  const isHome = isLoopbackHost(new URL(target.base_url).hostname);
  if (target.permits?.chaos === true || (isHome && target.permits?.chaos === undefined)) {
    return finding("ok", "chaos", `faults can be injected (${ways.join(", ")})`);
  }
  return finding("skipped", "chaos", "refused: permits.chaos of the target file is not true");
};
