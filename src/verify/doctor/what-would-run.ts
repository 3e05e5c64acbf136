/** Works out what `verify`, each scenario and faults would do and spend with this target file. Sends nothing. */
import { isLoopbackHost } from "../../contract/address.ts";
import { counted } from "../../contract/lists.ts";
import type { StatedStreamEnds } from "../../contract/streams.ts";
import type { Target } from "../../target/target.ts";
import { ORIGIN_TO_REPLACE } from "../../target/target-file.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { profileCalls, profilePeakPerS } from "../../workload/load-profiles.ts";
import { type ProfileWish, RAMPS, SHARE_OF_PERMIT, type Story } from "../../workload/story.ts";
import { RULES } from "../catalogue.ts";
import { type Asked, deniedBy, OPTION_OF, type Permission, type Role } from "../planning/needs.ts";
import type { Rule } from "../rule.ts";
import { planVerify, type VerifyPlan } from "../run-verify.ts";
import { RATE_PER_S } from "../sending/throttle.ts";
import { type Finding, finding } from "./finding.ts";

const plan = (target: Target, asked: Asked) => planVerify(target, RULES, { ...asked, ratePerS: RATE_PER_S });

const NAMES_EACH = "`verify --dry-run` names each";

/** Roles of which a rule needs every one, or any one of several, and that the target file lacks. */
const rolesLacked = ({ credentials = {} }: Target, { needs: { roles = [], anyOf = [] } }: Rule): Role[] => {
  const has = (role: Role): boolean => credentials[role] !== undefined;
  return [...roles.filter((role) => !has(role)), ...(anyOf.some(has) ? [] : anyOf)];
};

/** One finding for all roles that are missing, and one for each other reason. A rule may lack several things. */
const skipFindings = (target: Target, lacking: readonly Rule[], lacksOf: ReadonlyMap<string, string | null>) => {
  const byRole = new Map<Role, number>();
  const byReason = new Map<string, number>();
  const add = <K>(counts: Map<K, number>, key: K): void => void counts.set(key, (counts.get(key) ?? 0) + 1);
  let ofRoles = 0;
  for (const rule of lacking) {
    const roles = rolesLacked(target, rule);
    const lacksTiles = rule.needs.tileUrl === true && target.tile_url === undefined;
    if (roles.length > 0) ofRoles += 1;
    for (const role of new Set(roles)) add(byRole, role);
    if (lacksTiles) add(byReason, "tile_url is not in the target file");
    if (roles.length === 0 && !lacksTiles) add(byReason, lacksOf.get(rule.id) ?? "");
  }
  const most = <K>(counts: Map<K, number>): [K, number][] => [...counts].toSorted(([, a], [, b]) => b - a);
  const roles = most(byRole).map(([role, n]) => `${role} ${n}`);
  const text = `need roles that are not in the target file (with the rules that need each): ${roles.join(", ")}; ${NAMES_EACH}`;
  return [
    ...(ofRoles === 0 ? [] : [finding("skipped", counted(ofRoles, "rule"), text)]),
    ...most(byReason).map(([reason, n]) => finding("skipped", counted(n, "rule"), `${reason}; ${NAMES_EACH}`)),
  ];
};

const judged = ({ rules }: VerifyPlan): number => rules.filter(({ lacks }) => lacks === null).length;

const optionFinding = (target: Target, permission: Permission, asked: Asked, base: VerifyPlan): Finding => {
  const option = OPTION_OF[permission];
  const with_ = plan(target, asked);
  const more = judged(with_) - judged(base);
  const [now, before] = [with_.would_send, base.would_send];
  const spends = `${now.calls - before.calls} calls, ${now.map_loads - before.map_loads} map loads, ${now.keys} keys made and removed`;
  if (more > 0) return finding("info", option, `${more} rules more, for at most about ${spends}`);
  const why = deniedBy(target, asked).get(permission);
  const none = "no rule more: the roles or limits that they need are not in the target file";
  return finding("skipped", option, why === undefined ? none : `would be refused: ${why}`);
};

export const verifyFindings = (target: Target): Finding[] => {
  const base = plan(target, {});
  const { rules, would_send: sends, budget, takes_s_at_least: seconds } = base;
  const spends = `${sends.calls} calls (${seconds} s or more), ${sends.map_loads} map loads, ${sends.analyses} analyses`;
  const allowed = `${budget.requests ?? "any number of"} calls, ${budget.map_loads} map loads, ${budget.analyses} analyses`;
  const text = `judges up to ${judged(base)} of ${rules.length} rules with at most about ${spends}; the budget allows ${allowed}`;
  const lacksOf = new Map(rules.map(({ id, lacks }) => [id, lacks]));
  const lacking = RULES.filter(({ id, needs }) => lacksOf.get(id) && needs.permission === undefined);
  return [
    finding("info", "verify", text),
    optionFinding(target, "writes", { allowWrites: true }, base),
    optionFinding(target, "quota-burn", { allowQuotaBurn: true }, base),
    optionFinding(target, "load", { allowLoad: true }, base),
    ...skipFindings(target, lacking, lacksOf),
  ];
};

export const faultFinding = (target: Target): Finding => {
  const ways = [
    ...(target.toxiproxy === undefined ? [] : ["toxiproxy"]),
    ...(Object.keys(target.faults ?? {}).length === 0 ? [] : ["faults"]),
  ];
  if (ways.length === 0)
    return finding("skipped", "chaos", "no fault can be injected: neither toxiproxy nor faults is in the target file");
  const isHome = isLoopbackHost(new URL(target.base_url).hostname);
  if (target.permits?.chaos === true || (isHome && target.permits?.chaos === undefined))
    return finding("ok", "chaos", `faults can be injected (${ways.join(", ")})`);
  return finding("skipped", "chaos", "refused: permits.chaos of the target file is not true");
};

/** Empty if the target file has no `scale`. */
export const scaleFindings = ({ scale, permits }: Target): Finding[] => {
  const refused = permits?.chaos === true ? "" : "refused: permits.chaos of the target file is not true";
  const text = refused || "capacity --replicas can change the number of replicas";
  return scale === undefined ? [] : [finding(refused === "" ? "ok" : "skipped", "scale", text)];
};

/** What the story asks of a target file without tenants, without the remark that the file has 0 of them. */
const needsOf = (story: Story, view: TargetView): string => {
  const asked = story.missing({ ...view, tenants: [] }).map((text) => text.replace(/ \(the target file has 0\)$/, ""));
  return asked.length === 0 ? "" : `needs ${asked.join(", ")}; `;
};

const UNITS = { requests: "calls", map_loads: "map loads", analyses: "analyses", stream_seconds: "s of streams" };

const storyFinding = (story: Story, target: Target, view: TargetView): Finding => {
  const allowed = target.permits?.load_max_rps;
  const { name, needsCapacity } = story;
  if (allowed === undefined && !isLoopbackHost(new URL(target.base_url).hostname))
    return finding("skipped", name, "refused: permits.load_max_rps is not in the target file");
  const mostPerS = allowed === undefined ? undefined : SHARE_OF_PERMIT * allowed;
  const wish: ProfileWish = { maxPerS: mostPerS };
  const profile = story.profile(view, wish);
  if (profile === null) {
    const ramp = needsCapacity === null ? "a ramp" : `the ramp ${RAMPS[needsCapacity]}`;
    return finding("info", name, `${needsOf(story, view)}plays ${ramp} first: limits of the file do not say a rate`);
  }
  const costs = story.costs(view, profileCalls(profile));
  const figures = (Object.entries(UNITS) as [keyof typeof UNITS, string][]).map(([field, words]) => {
    const { [field]: most = Number.POSITIVE_INFINITY } = target.budget ?? {};
    return { field, words, most, spent: Math.ceil(costs[field] ?? 0) };
  });
  const spends = figures.filter(({ field, spent }) => field === "requests" || spent > 0);
  const text = spends.map(({ words, spent }) => `${spent} ${words}`).join(", ");
  const short = figures.filter(({ most, spent }) => spent > most);
  const over = short.map(({ field, most }) => `budget.${field} (${most})`).join(" and ");
  const whole = `${needsOf(story, view)}about ${text}, at most ${Math.ceil(profilePeakPerS(profile))}/s`;
  if (over !== "") return finding("warn", name, `${whole}: ends early at ${over} of the target file`);
  const { beyond } = story.reaches(view, wish);
  if (beyond.length > 0) {
    const [first] = beyond;
    const more = beyond.length === 1 ? "" : ` (and ${beyond.length - 1} more)`;
    return finding("info", name, `${whole}; cannot show ${first?.outcome}${more}: ${first?.reason}`);
  }
  const unbound = story.profile(view);
  if (mostPerS !== undefined && unbound !== null && profilePeakPerS(unbound) > mostPerS)
    return finding("info", name, `${whole}; held to permits.load_max_rps (${allowed})`);
  return finding("ok", name, whole);
};

/** Scenarios that can run, then those that cannot; one finding for all scenarios of which the same holds. */
export const scenarioFindings = (target: Target): Finding[] => {
  const view = viewOf(target);
  const stories = [...STORIES.values()].map((story) => ({ story, missing: story.missing(view) }));
  const sorted = stories.toSorted((a, b) => Number(a.missing.length > 0) - Number(b.missing.length > 0));
  const findings = sorted.map(({ story, missing }) => {
    if (missing.length === 0) return storyFinding(story, target, view);
    const lacks = missing.join("; ").replaceAll("the target file has", "it has");
    return finding("skipped", story.name, `the target file lacks ${lacks}`);
  });
  return Map.groupBy(findings, ({ state, text }) => `${state} ${text}`)
    .values()
    .map((same) => ({ ...(same[0] as Finding), name: same.map(({ name }) => name).join(", ") }))
    .toArray();
};

// The target file that `init` writes: what was found, references in place of secrets, comments for a first reader.

export const KEY_VARIABLES = { publishable: "FLOODGATE_PUBLISHABLE_KEY", server: "FLOODGATE_SERVER_KEY" } as const;

/** `has`: the keys that the user has; both if that is not known. */
type ProposalParts = Partial<Record<"tileUrl" | "origin" | "ca", string>> &
  Record<"seen" | "keyManagement", boolean> & {
    baseUrl: string;
    streamEnds?: StatedStreamEnds;
    has: { publishable: boolean; server: boolean };
  };

const credentialsOf = ({ has, origin = ORIGIN_TO_REPLACE, keyManagement }: ProposalParts): Record<string, unknown> => {
  const named = (role: string, present: boolean): string => (present ? role : `//${role}`);
  return {
    "//": "Keys by role. A value env:NAME is read from the environment, file:PATH from a file, exec:COMMAND from a command's output. Take a commented role by removing its two slashes.",
    "// publishable": "A full-scope key of a Pro organization; origin must be in its allowlist.",
    [named("publishable", has.publishable)]: { key: `env:${KEY_VARIABLES.publishable}`, origin },
    "// server": "A full-scope server key of the same organization that this machine's address may use.",
    [named("server", has.server)]: { key: `env:${KEY_VARIABLES.server}` },
    "// more": "The more roles there are, the more rules can be judged. doctor lists which role is missing for what.",
    "//publishable_other_org": { key: "env:FLOODGATE_OTHER_ORG_KEY", origin, org: "another organization" },
    "//revoked": { key: "env:FLOODGATE_REVOKED_KEY", origin },
    ...(keyManagement ? { "//admin_pro": { token: "env:FLOODGATE_ADMIN_TOKEN" } } : {}),
  };
};

export const proposeTarget = (parts: ProposalParts): Record<string, unknown> => {
  const { baseUrl, seen, tileUrl, ca, streamEnds } = parts;
  const url = new URL(baseUrl);
  return {
    "//": "A target file of Floodgate: what it may know of a deployment and do to it. A member whose name begins with two slashes is a comment.",
    schema: "floodgate/target@1",
    name: url.hostname,
    "// base_url": seen
      ? "Found by asking: the API answers here."
      : "Not tried. It ends with the version segment, such as /v1.",
    base_url: baseUrl,
    ...(tileUrl === undefined ? {} : { tile_url: tileUrl }),
    ...(ca === undefined ? {} : { "// transport": "Who signed its certificate.", transport: { ca } }),
    credentials: credentialsOf(parts),
    "// tenants":
      "Load is carried by many organizations: the key of one meets its own caps first. doctor says how many a scenario needs.",
    "//tenants": [{ org: "org_t01", tier: "Pro", limit: 100_000, server: { key: "env:FLOODGATE_T01_SERVER_KEY" } }],
    "// stream_end":
      "The event that ends a whole stream of each kind: where it is stated, a stream that ends without it was cut. doctor finds it out and writes it here.",
    ...(streamEnds === undefined ? {} : { stream_end: streamEnds }),
    "// shedding": "fixed when the deployment sheds at caps that you state in limits; adaptive; else unknown.",
    shedding: "unknown",
    "// scale":
      "Commands that set the number of replicas, and one that ends with 0 once so many serve: for capacity --replicas, which needs permits.chaos and sets limits.replicas again.",
    "//scale": { set: ["./scale {replicas}"], ready: "./ready {replicas}" },
    "// exclusive":
      "Take away the slashes where nobody else calls it during a run: then sheds are judged call by call, and doctor --find-limits writes what it finds.",
    "//exclusive": true,
    "//limits": { slots: 64, service_ms: 200, global_in_flight: 64, org_in_flight: 32, rate_per_s: 50, burst: 100 },
    "// permits":
      "What a run may do: make and remove keys, use up allowances, inject faults, calls per second at the most. To find or pass a cap, load_max_rps has to fill it: calls in flight are calls per second times their length in seconds.",
    permits: { writes: false, quota_burn: false, chaos: false, load_max_rps: 50 },
    "// budget":
      "How much one run may use up. verify makes up to 1200 calls, run nightly at 50 calls per second about 58000; --dry-run says it.",
    budget: { requests: 60_000, map_loads: 50, analyses: 10, stream_seconds: 20_000 },
  };
};
