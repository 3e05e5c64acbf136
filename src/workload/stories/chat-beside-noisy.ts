/**
 * Streams of many quiet organizations in turn, and beside them one that opens more than it may hold: what the gate plays. The
 * noisy one's calls come in bursts, because a steady flow would meet the rate of its key first; every fifth call of a burst is
 * a quiet one's. Where there are too few organizations for that, everybody there is takes turns.
 */
import { constant } from "../load-profiles.ts";
import { stepOf } from "../step.ts";
import { capacityPerS, type SessionWanted, storyOf } from "../story.ts";
import { type CallerName, oncePerView, type TargetView, type TenantInView, tenantsWith } from "../target-view.ts";
import { inTurn } from "../tenants.ts";

type Caller = { readonly of: CallerName; readonly as: "server" | "session" };
type Cast = { noisy: TenantInView | undefined; quiet: Caller[] };

/** One noisy, and enough quiet ones that none of them comes near its own cap. */
const TENANTS_WITH_NOISE = 4;

/** Everybody who may open a stream, server keys before sessions, tenants before roles. */
const callers = (view: TargetView): Caller[] => {
  const of = (kind: "server" | "publishable", as: Caller["as"]): Caller[] =>
    tenantsWith(view, kind).map(({ org }) => ({ of: `tenant:${org}`, as }));
  const role = (name: "server" | "publishable", as: Caller["as"]): Caller[] =>
    view.roles[name] === undefined || (as === "session" && !view.roles[name].hasOrigin)
      ? []
      : [{ of: `role:${name}`, as }];
  const choices = [
    of("server", "server"),
    of("publishable", "session"),
    role("server", "server"),
    role("publishable", "session"),
  ];
  return choices.find((found) => found.length > 0) ?? [];
};

const castOf = oncePerView((view: TargetView): Cast => {
  const servers = tenantsWith(view, "server");
  if (servers.length < TENANTS_WITH_NOISE) return { noisy: undefined, quiet: callers(view) };
  const noisy = servers.find(({ inFlightCap }) => inFlightCap !== undefined) ?? (servers[0] as TenantInView);
  const quiet = servers.filter((tenant) => tenant !== noisy);
  return { noisy, quiet: quiet.map(({ org }) => ({ of: `tenant:${org}`, as: "server" })) };
});

const QUIET_IN_BURST = 5;

/** A burst is `length` of every `every` calls: long enough to fill the noisy organization's cap twice and a half. */
const burstsOf = oncePerView((view: TargetView): { length: number; every: number } => {
  const cap = castOf(view).noisy?.inFlightCap ?? view.limits.org_in_flight ?? 32;
  const length = Math.ceil((2.5 * cap * QUIET_IN_BURST) / (QUIET_IN_BURST - 1));
  return { length, every: 4 * length };
});

export const chatBesideNoisy = storyOf({
  name: "chat-beside-noisy",
  purpose: "streams from many organizations evenly, while one of them opens more than it may hold",
  missing: (view) =>
    callers(view).length > 0 ? [] : ["a tenant or role with a server key, or with a publishable key and its origin"],
  profile: (view, { ratePerS, durationS = 10 } = {}) =>
    constant(ratePerS ?? Math.max(10, Math.round(0.7 * (capacityPerS(view.limits) ?? 20))), durationS),
  plan: (_seed, i, view) => {
    const { noisy, quiet } = castOf(view);
    if (quiet.length === 0) return [];
    const { length, every } = burstsOf(view);
    const route = "chat.control";
    if (noisy !== undefined && i % every < length && i % QUIET_IN_BURST !== 0) {
      return [stepOf(view, i, { route, credential: { as: "server", of: `tenant:${noisy.org}` } })];
    }
    const { of, as } = inTurn(quiet, i);
    if (as === "server") return [stepOf(view, i, { route, credential: { as, of } })];
    return [stepOf(view, i, { route, credential: { as, of, product: "chat" }, origin: "listed" })];
  },
  sessions: (view) =>
    castOf(view).quiet.flatMap(({ of, as }): SessionWanted[] => (as === "session" ? [{ of, product: "chat" }] : [])),
  noisy: (view) => {
    const { noisy } = castOf(view);
    return noisy === undefined ? [] : [noisy.org];
  },
});
