/** Makes the input that a script gets from the runner, from the target file instead. */

import { budgetShare, statedBudget } from "../../src/workload/budget.ts";
import type { TargetView } from "../../src/workload/callers/target-view.ts";
import { keysFor, originsOf, viewOf } from "../../src/workload/callers/view-of-target.ts";
import {
  callsAtOnceFor,
  concurrencyOf,
  executorFor,
  type HandOver,
  K6_DNS,
  PLACEHOLDER,
  tooFewCalls,
  VUS_MAX_ALONE,
} from "../../src/workload/handover.ts";
import { type Arrivals, countArrivals, type Profile, profilePeakPerS } from "../../src/workload/load-profiles.ts";
import { credentialName } from "../../src/workload/step.ts";
import type { ProfileWish, Story } from "../../src/workload/story.ts";
import { TIMEOUTS } from "../../src/workload/timeouts.ts";
import { type Expectations, type Expected, expectedOn, thresholdsOf } from "./expectations.ts";
import { Refusal, readStatedTarget } from "./stated-target.ts";

export type Plan = {
  handed: HandOver;
  /** Notes for the reader of the summary. */
  notes: string[];
  target: string;
  /** The fields of the target file that judges read, for a part of a distributed run. */
  stated: Record<string, unknown>;
  expected: Expected;
};

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

const arrivalsFrom = (text: string | undefined): Arrivals => {
  if (text === undefined || text === "" || text === "uniform") return "uniform";
  if (text === "poisson") return text;
  throw new Refusal(`-e ARRIVALS: expected uniform or poisson; got "${text}"`);
};

type Load = { profile: Profile; wish: ProfileWish };

const loadFor = (story: Story, view: TargetView, maxPerS: number, notes: string[]): Load => {
  const [ratePerS, durationS] = [numberFrom("RATE"), durationFrom("DURATION")];
  if (ratePerS !== undefined && ratePerS > maxPerS) {
    throw new Refusal(`-e RATE=${ratePerS}: permits.load_max_rps of the target file allows ${maxPerS}`);
  }
  const wish: ProfileWish = { ratePerS, durationS };
  const unbounded = story.profile(view, wish);
  const bounded: ProfileWish = Number.isFinite(maxPerS) ? { ...wish, maxPerS } : wish;
  const profile = story.profile(view, bounded);
  if (profile === null || unbounded === null) {
    throw new Refusal(
      `${story.name} has to know how much fits: state limits.slots and limits.service_ms in the target file, or say -e RATE=`,
    );
  }
  const peak = profilePeakPerS(unbounded);
  if (peak > maxPerS) {
    notes.push(
      `permits.load_max_rps is ${maxPerS} and the story wants ${Math.ceil(peak)} calls per second: its rates are scaled down`,
    );
  }
  return { profile, wish: bounded };
};

/** Leaves out of a target file the credentials and what only the runner uses. */
const withoutKeys = (file: Record<string, unknown>): Record<string, unknown> => {
  const kept = [
    "schema",
    "name",
    "base_url",
    "stream_end",
    "shedding",
    "exclusive",
    "limits",
    "slo",
    "permits",
    "budget",
  ];
  const names = [...kept, "tenants", "credentials"];
  const text = JSON.stringify(Object.fromEntries(names.map((name) => [name, file[name]])), (field, value) =>
    field === "key" || field === "token" ? PLACEHOLDER : value,
  );
  return JSON.parse(text);
};

/** Throws a `Refusal` for what is wrong in the target file or the options. */
export const planAlone = (story: Story, expectations: Expectations): Plan => {
  const { file, read } = readStatedTarget();
  const view = viewOf(file);
  const lacking = story.missing(view);
  if (lacking.length > 0) throw new Refusal(`${story.name} cannot run: the target file lacks ${lacking.join("; ")}`);
  const notes: string[] = [];
  const seed = Math.trunc(numberFrom("SEED") ?? 1);
  const budget = statedBudget(file);
  const segments = Math.trunc(numberFrom("SEGMENTS") ?? 1);
  const { profile, wish } = loadFor(story, view, budget.maxPerS ?? Number.POSITIVE_INFINITY, notes);
  const reach = story.reaches(view, wish);
  for (const { outcome, reason } of reach.beyond) notes.push(`${outcome} will not be seen here: ${reason}`);
  const expected = expectedOn(reach, expectations);
  const spaced = arrivalsFrom(__ENV.ARRIVALS);
  const arrivals = countArrivals(profile, spaced, seed);
  if (arrivals === 0) throw new Refusal("no call is due in so short a time: ask for more by -e RATE= or -e DURATION=");
  // A VU waits for each call, because the thresholds need its answer.
  const wanted = Math.max(segments, callsAtOnceFor(profile, view.limits, concurrencyOf(story, seed, view)));
  const vus = Math.min(VUS_MAX_ALONE, wanted);
  if (vus < wanted) notes.push(tooFewCalls(wanted, vus, "no k6 that runs by itself is given more"));
  const keys = keysFor(story, seed, view, file);
  const { cert, key, headers = {} } = file.transport ?? {};
  const { base_url, key_management_url, tile_url, stream_end: streamEnd } = file;
  return {
    target: file.name ?? base_url,
    stated: withoutKeys(file),
    notes,
    expected,
    handed: {
      stage: story.name,
      idPrefix: `k6-${Date.now().toString(36)}.${story.name}.c`,
      seed,
      view,
      schedule: { profile, arrivals: spaced },
      places: { base_url, key_management_url, tile_url },
      credentials: Object.fromEntries(keys.map(({ ref, value, what }) => [credentialName(ref), read(value, what)])),
      origins: originsOf(keys),
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name.toLowerCase(), read(value, `transport.headers.${name}`)]),
      ),
      timeouts: TIMEOUTS,
      streamEnd,
      // The script does not know its segment, so it takes the smallest share.
      budget: budgetShare(budget, segments - 1, segments),
      options: {
        dns: K6_DNS,
        systemTags: ["status", "method", "name", "scenario", "check"],
        summaryTrendStats: ["count", "min", "med", "p(90)", "p(99)", "max"],
        scenarios: {
          [story.name.replaceAll("-", "_")]: executorFor({ profile, arrivals, gracefulStopMs: TIMEOUTS.callMs, vus }),
        },
        thresholds: thresholdsOf(expected),
        tlsAuth:
          cert === undefined || key === undefined
            ? undefined
            : [{ cert: read(cert, "transport.cert"), key: read(key, "transport.key") }],
      },
    },
  };
};
