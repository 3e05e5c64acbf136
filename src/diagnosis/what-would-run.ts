/** What would be judged, skipped, spent and refused with this target file, worked out without sending anything. */

import type { Target } from "../target/target.ts";
import { isLoopbackHost } from "../target/target-guard.ts";
import { viewOf } from "../target/view-of-target.ts";
import { RULES } from "../verify/catalogue.ts";
import type { Asked } from "../verify/lacks.ts";
import { planVerify, type VerifyPlan } from "../verify/plan.ts";
import { RATE_PER_S } from "../verify/run-verify.ts";
import { STORIES } from "../workload/catalogue.ts";
import { profileCalls, profilePeakPerS } from "../workload/load-profiles.ts";
import type { Story } from "../workload/story.ts";
import type { TargetView } from "../workload/target-view.ts";
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

/** What a story would need of a file that has no tenants at all: the number that it asks for. */
const needsOf = (story: Story, view: TargetView): string => {
  const asked = story.missing({ ...view, tenants: [] }).map((text) => text.replace(/ \(the target file has 0\)$/, ""));
  return asked.length === 0 ? "" : `needs ${asked.join(", ")}; `;
};

const storyFinding = (story: Story, target: Target, view: TargetView): Finding => {
  const profile = story.profile(view);
  const peak = Math.ceil(profilePeakPerS(profile));
  const calls = Math.ceil(profileCalls(profile));
  const text = `${needsOf(story, view)}about ${calls} calls, at most ${peak}/s`;
  const allowed = target.permits?.load_max_rps;
  if (allowed === undefined && !isLoopbackHost(new URL(target.base_url).hostname)) {
    return finding("skipped", story.name, `${text}: refused without permits.load_max_rps`);
  }
  if (allowed !== undefined && peak > allowed) {
    const bounded = `${text}: held to permits.load_max_rps (${allowed}), so it may not reach what it is about`;
    return finding("warn", story.name, bounded);
  }
  const budget = target.budget?.requests;
  if (budget !== undefined && calls > budget) {
    return finding("skipped", story.name, `${text}: over budget.requests (${budget})`);
  }
  return finding("ok", story.name, text);
};

export const scenarioFindings = (target: Target): Finding[] => {
  const view = viewOf(target);
  const stories = [...STORIES.values()].map((story) => ({ story, lacks: story.missing(view).join("; ") }));
  const able = stories.filter(({ lacks }) => lacks === "").map(({ story }) => storyFinding(story, target, view));
  const byLack = Map.groupBy(
    stories.filter(({ lacks }) => lacks !== ""),
    ({ lacks }) => lacks,
  );
  const unable = [...byLack].map(([lacks, of]) =>
    finding(
      "skipped",
      of.map(({ story }) => story.name).join(", "),
      `the target file lacks ${lacks.replaceAll("the target file has", "it has")}`,
    ),
  );
  return [...able, ...unable];
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
