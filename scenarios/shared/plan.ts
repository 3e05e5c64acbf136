/** What the runner would hand over, made from the target file by the script itself. */
import { keysFor, originsOf } from "../../src/workload/story-keys.ts";
import type { HandOver } from "../../src/workload/handover.ts";
import { executorFor, slowestReadMs, vusFor } from "../../src/workload/k6-executor.ts";
import type { Lease } from "../../src/workload/lease.ts";
import { type Profile, profileCalls, profilePeakPerS, scaleProfile } from "../../src/workload/load-profiles.ts";
import { credentialName } from "../../src/workload/request.ts";
import type { Story } from "../../src/workload/story.ts";
import type { TargetView } from "../../src/workload/target-view.ts";
import { viewOf } from "../../src/workload/view-of-target.ts";
import { type Expectations, thresholdsOf } from "./expectations.ts";
import { hasAdditions } from "./extension.ts";
import { Refusal, readStatedTarget, type TargetFile } from "./stated-target.ts";

export type Plan = {
  handed: HandOver;
  /** What a reader of the summary has to know. */
  notes: string[];
  target: string;
};

const TIMEOUTS = { callMs: 60_000, firstEventMs: 15_000, idleMs: 20_000 };
/** More dropped iterations than this share put the load in doubt. */
const DROPPED_MAX = 0.001;

const UNIT_S: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600 };

const numberFrom = (name: string): number | undefined => {
  const text = __ENV[name];
  if (text === undefined || text === "") return undefined;
  const value = Number(text);
  if (value > 0) return value;
  throw new Refusal(`-e ${name}: expected a number above 0; got "${text}"`);
};

const durationFrom = (name: string): number | undefined => {
  const text = __ENV[name];
  if (text === undefined || text === "") return undefined;
  const [, value, unit = "s"] = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text) ?? [];
  if (Number(value) > 0) return Number(value) * (UNIT_S[unit] as number);
  throw new Refusal(`-e ${name}: expected a length such as 15s or 2m; got "${text}"`);
};

const UNITS = ["requests", "map_loads", "analyses", "stream_seconds"] as const;

const leaseOf = ({ budget = {}, permits, stop_when }: TargetFile): Lease => ({
  ...Object.fromEntries(UNITS.flatMap((unit) => (budget[unit] === undefined ? [] : [[unit, budget[unit]]]))),
  ...(permits?.load_max_rps === undefined ? {} : { maxPerS: permits.load_max_rps }),
  ...(stop_when?.error_rate === undefined ? {} : { stopErrorRate: stop_when.error_rate }),
});

/** A k6 that cannot count before it sends may begin only what fits the budget whole, retries included. */
const checkBudget = (story: Story, seed: number, view: TargetView, profile: Profile, lease: Lease): void => {
  const most = { requests: 0, map_loads: 0, analyses: 0 };
  const add = (meter: string | undefined, times: number): void => {
    most.requests += times;
    if (meter === "map_loads") most.map_loads += times;
    if (meter === "design_analyses") most.analyses += times;
  };
  for (const { product } of story.sessions(view)) add(product === "tile" ? "map_loads" : undefined, 1);
  for (let i = 0; i < Math.ceil(profileCalls(profile)) + 1; i++) {
    for (const { meter, retry } of story.plan(seed, i, view)) add(meter, 1 + (retry?.times ?? 0));
  }
  for (const unit of ["requests", "map_loads", "analyses"] as const) {
    const left = lease[unit];
    if (left === undefined || most[unit] <= left) continue;
    throw new Refusal(
      `up to ${most[unit]} ${unit} would be used and budget.${unit} allows ${left}; this k6 cannot stop in between: ask for less by -e RATE= and -e DURATION=, or use the k6 that npx floodgate dev tools builds`,
    );
  }
};

const profileFor = (story: Story, view: TargetView, maxPerS: number, seed: number, notes: string[]): Profile => {
  const [ratePerS, durationS] = [numberFrom("RATE"), durationFrom("DURATION")];
  const profile = story.profile(view, {
    ...(ratePerS === undefined ? {} : { ratePerS }),
    ...(durationS === undefined ? {} : { durationS }),
  });
  const tries = hasAdditions ? 1 : 1 + Math.max(0, ...story.plan(seed, 0, view).map(({ retry }) => retry?.times ?? 0));
  const peak = profilePeakPerS(profile) * tries;
  if (peak <= maxPerS) return profile;
  if (ratePerS !== undefined) {
    throw new Refusal(
      `-e RATE=${ratePerS} makes up to ${Math.ceil(peak)} calls per second and permits.load_max_rps allows ${maxPerS}`,
    );
  }
  notes.push(
    `permits.load_max_rps is ${maxPerS} and the story wants ${Math.ceil(peak)} calls per second: its rates are scaled down, and what takes that much load will not be seen`,
  );
  return scaleProfile(profile, maxPerS / peak);
};

/** Throws a `Refusal` for what is wrong in the target file or the options. */
export const planAlone = (story: Story, expectations: Expectations): Plan => {
  const { file, read } = readStatedTarget();
  const view = viewOf(file);
  const lacking = story.missing(view);
  if (lacking.length > 0) throw new Refusal(`${story.name} cannot run: the target file lacks ${lacking.join("; ")}`);
  if (expectations.burnsQuota && !view.permits.quotaBurn) {
    throw new Refusal(`${story.name} uses up allowances, and permits.quota_burn is not true in the target file`);
  }
  const notes: string[] = [];
  const seed = Math.trunc(numberFrom("SEED") ?? 1);
  const lease = leaseOf(file);
  const profile = profileFor(story, view, lease.maxPerS ?? Number.POSITIVE_INFINITY, seed, notes);
  if (!hasAdditions) {
    checkBudget(story, seed, view, profile, lease);
    if (lease.stream_seconds !== undefined)
      notes.push("this k6 does not count stream seconds: budget.stream_seconds is not kept");
  }
  const keys = keysFor(story, seed, view, file);
  const { cert, key, headers = {} } = file.transport ?? {};
  const isStopped = !hasAdditions && lease.stopErrorRate !== undefined;
  const { base_url, key_management_url, tile_url } = file;
  return {
    target: file.name ?? base_url,
    notes,
    handed: {
      stage: story.name,
      idPrefix: `k6-${Date.now().toString(36)}.${story.name}.c`,
      seed,
      firstCall: 0,
      view,
      places: {
        base_url,
        ...(key_management_url === undefined ? {} : { key_management_url }),
        ...(tile_url === undefined ? {} : { tile_url }),
      },
      credentials: Object.fromEntries(keys.map(({ ref, value, what }) => [credentialName(ref), read(value, what)])),
      origins: originsOf(keys),
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name.toLowerCase(), read(value, `transport.headers.${name}`)]),
      ),
      timeouts: TIMEOUTS,
      lease,
      options: {
        systemTags: ["status", "method", "name", "scenario", "check"],
        summaryTrendStats: ["count", "min", "med", "p(90)", "p(99)", "max"],
        scenarios: {
          [story.name.replaceAll("-", "_")]: executorFor(
            profile,
            vusFor(profile, view.limits, slowestReadMs(story, seed, view)),
            TIMEOUTS.callMs,
          ),
        },
        thresholds: thresholdsOf(expectations, {
          droppedMax: Math.ceil(DROPPED_MAX * profileCalls(profile)),
          stopErrorRate: isStopped ? lease.stopErrorRate : undefined,
        }),
        ...(cert === undefined || key === undefined
          ? {}
          : { tlsAuth: [{ cert: read(cert, "transport.cert"), key: read(key, "transport.key") }] }),
      },
    },
  };
};
