/** What each scenario would do, spend and show on this deployment, worked out without sending anything. */
import { isLoopbackHost } from "../../contract/loopback.ts";
import type { Target } from "../../target/target.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { profileCalls, profilePeakPerS } from "../../workload/load-profiles.ts";
import { type ProfileWish, RAMPS, type Story } from "../../workload/story.ts";
import { type Finding, finding } from "./finding.ts";

/** What a story asks for where there are no tenants at all; the text says how many there are, which is of no use here. */
const needsOf = (story: Story, view: TargetView): string => {
  const asked = story.missing({ ...view, tenants: [] }).map((text) => text.replace(/ \(the target file has 0\)$/, ""));
  return asked.length === 0 ? "" : `needs ${asked.join(", ")}; `;
};

const spendingOf = (story: Story, view: TargetView, calls: number, { budget = {} }: Target) => {
  const costs = story.costs(view, calls);
  const figures = [
    { field: "requests", words: "calls", most: budget.requests, spent: costs.requests },
    { field: "map_loads", words: "map loads", most: budget.map_loads, spent: costs.map_loads },
    { field: "analyses", words: "analyses", most: budget.analyses, spent: costs.analyses },
    { field: "stream_seconds", words: "s of streams", most: budget.stream_seconds, spent: costs.stream_seconds ?? 0 },
  ].map((figure) => ({ ...figure, spent: Math.ceil(figure.spent) }));
  const over = figures.filter(({ most, spent }) => most !== undefined && spent > most);
  return {
    text: figures
      .filter(({ field, spent }) => field === "requests" || spent > 0)
      .map(({ words, spent }) => `${spent} ${words}`)
      .join(", "),
    over: over.map(({ field, most }) => `budget.${field} (${most})`).join(" and "),
  };
};

const storyFinding = (story: Story, target: Target, view: TargetView): Finding => {
  const allowed = target.permits?.load_max_rps;
  const { name, needsCapacity } = story;
  if (allowed === undefined && !isLoopbackHost(new URL(target.base_url).hostname)) {
    return finding("skipped", name, "refused: permits.load_max_rps is not in the target file");
  }
  const wish: ProfileWish = allowed === undefined ? {} : { maxPerS: allowed };
  const profile = story.profile(view, wish);
  if (profile === null) {
    const ramp = needsCapacity === null ? "a ramp" : `the ramp ${RAMPS[needsCapacity]}`;
    return finding("info", name, `${needsOf(story, view)}plays ${ramp} first: limits of the file do not say a rate`);
  }
  const { text, over } = spendingOf(story, view, profileCalls(profile), target);
  const whole = `${needsOf(story, view)}about ${text}, at most ${Math.ceil(profilePeakPerS(profile))}/s`;
  if (over !== "") return finding("warn", name, `${whole}: ends early at ${over} of the target file`);
  const { beyond } = story.reaches(view, wish);
  if (beyond.length > 0) {
    const [first] = beyond;
    const more = beyond.length === 1 ? "" : ` (and ${beyond.length - 1} more)`;
    return finding("info", name, `${whole}; cannot show ${first?.outcome}${more}: ${first?.reason}`);
  }
  const unbound = story.profile(view);
  if (allowed !== undefined && unbound !== null && profilePeakPerS(unbound) > allowed) {
    return finding("info", name, `${whole}; held to permits.load_max_rps (${allowed})`);
  }
  return finding("ok", name, whole);
};

/** Those of which the same is to be said share a line. */
const sharing = (findings: readonly Finding[]): Finding[] =>
  [...Map.groupBy(findings, ({ state, text }) => `${state} ${text}`).values()].map((same) => ({
    ...(same[0] as Finding),
    name: same.map(({ name }) => name).join(", "),
  }));

export const scenarioFindings = (target: Target): Finding[] => {
  const view = viewOf(target);
  const stories = [...STORIES.values()].map((story) => ({ story, missing: story.missing(view) }));
  const able = stories.filter(({ missing }) => missing.length === 0);
  const unable = stories.filter(({ missing }) => missing.length > 0);
  return sharing([
    ...able.map(({ story }) => storyFinding(story, target, view)),
    ...unable.map(({ story, missing }) => {
      const lacks = missing.join("; ").replaceAll("the target file has", "it has");
      return finding("skipped", story.name, `the target file lacks ${lacks}`);
    }),
  ]);
};
