/**
 * Turns the limits found into sentences and into members of a copy of the target file. A limit is written if the calls
 * leave only one number; it is written as a comment unless the file states `exclusive`.
 */
import { resolve } from "node:path";
import { isContradiction, isExact, type WholeBounds, writtenRate } from "../../shedding/caps-found.ts";
import { readUserFile, UsageError, WRITTEN_BOUNDS, writeNew } from "../../supervision/user-file.ts";
import { withMember } from "../../target/edit-members.ts";
import type { Target } from "../../target/target.ts";
import { type Finding, finding } from "../../verify/doctor/finding.ts";
import { CALLS_MOST, type Climbed, isKnown, type LimitsFound, SECONDS_MOST } from "./find-limits.ts";

const NAMES = ["replicas", "slots", "service_ms", "global_in_flight", "org_in_flight", "rate_per_s", "burst"] as const;
type LimitName = (typeof NAMES)[number];
type Limits = Partial<Record<LimitName, number>>;

type Decided = ReturnType<typeof decideLimits>;

const range = ({ least, most }: WholeBounds): string => (most === null ? `at least ${least}` : `${least} to ${most}`);

const NO_BUCKET = {
  "too-short": "too few calls were admitted after its burst; the rate is too low to be found in this time",
  "too-fast": "its tokens come faster than the calls can be timed",
  "no-bucket":
    "no burst and rate explain what was admitted: a limit by the clock's second or minute, or others use the key",
};

export const decideLimits = (found: LimitsFound, target: Target) => {
  const { service, bucket, alone, together, slots, cutOff, organizations: k } = found;
  const { limits: stated = {}, permits, shedding } = target;
  const maxPerS = permits?.load_max_rps ?? 0;
  const limits: Limits = {};
  const findings: Finding[] = [];
  const say = (...of: Parameters<typeof finding>): void => void findings.push(finding(...of));
  const lacks = (name: LimitName, why: string, todo?: string) => finding("skipped", name, `not found: ${why}`, todo);

  const ofRate = (): Finding[] => {
    if (bucket === null)
      return [lacks("rate_per_s", "no read was admitted, so the key could not be pressed to its rate")];
    if (!bucket.found) {
      if (bucket.code !== "never-refused") return [lacks("rate_per_s", NO_BUCKET[bucket.code])];
      const { pressMet } = found;
      if (pressMet !== null) return [lacks("rate_per_s", `${pressMet} came before the key's rate was met`)];
      const raise = `a permits.load_max_rps above ${maxPerS} may reach it`;
      return [lacks("rate_per_s", `the key was not refused at ${found.pressedPerS?.toFixed(0)} calls/s`, raise)];
    }
    const { burst, ratePerS } = bucket;
    const [low, high] = [ratePerS.low, ratePerS.high].map((perS) => perS.toFixed(2));
    if (!isKnown(ratePerS)) {
      const text = `not found exactly: ${low} to ${high}, with a burst of ${range(burst)}`;
      return [finding("skipped", "rate_per_s", text, "if you know them, state limits.rate_per_s and limits.burst")];
    }
    const written = writtenRate(ratePerS);
    const upper = Number.isInteger(written) ? "" : ", its upper end";
    limits.rate_per_s = written;
    limits.burst = burst.most;
    return [
      finding("ok", "rate_per_s", `${written}${upper} (${low} to ${high})`),
      finding("ok", "burst", `${burst.most} (${range(burst)})`),
    ];
  };
  const notMet = (name: LimitName, { met, outcome, inFlight }: Climbed): Finding => {
    const text = `${inFlight} in flight at once were admitted`;
    if (met === "edge") return lacks(name, `something in between answered first (${outcome})`);
    if (met === "key") {
      const more = `name more tenants: ${k} key${k === 1 ? " was" : "s were"} too few, ${2 * k} or more may be enough`;
      return lacks(name, `${text}, then the key's rate was met (429 rate_limited)`, more);
    }
    const burst = bucket?.found === true ? bucket.burst.least * (name === "global_in_flight" ? k : 1) : null;
    if (burst !== null && inFlight >= burst - 2) {
      return lacks(name, `${text}, as many as ${k} key's burst allows`, `name more than ${k} tenants`);
    }
    const raise = `a higher permits.load_max_rps (it is ${maxPerS}) would put more of these short streams in flight at once`;
    return lacks(name, `${text}, and none was shed`, raise);
  };
  const cap = (name: "global_in_flight" | "org_in_flight", climbed: Climbed): Finding => {
    const { bounds, isChecked, heldBack } = climbed;
    const { least, most } = bounds;
    const other = climbed === alone ? together : alone;
    const { replicas } = stated;
    const of = replicas !== undefined && replicas > 1 ? ", of each replica" : "";
    if (isContradiction(bounds)) {
      const why = "several replicas, a limit that adapts, places given back late, or other people's calls";
      const text = `not found: no single cap fits. Admitted beside ${least - 1}, shed beside ${most}: ${why}`;
      const todo =
        "if one replica serves all, state limits.replicas: 1; otherwise state how many, or how it sheds (`shedding`)";
      return finding("warn", name, text, replicas === undefined ? todo : undefined);
    }
    if (isExact(bounds) && other !== null && isContradiction(other.bounds)) {
      return finding(
        "warn",
        name,
        `${least}, not written: the calls for the other cap contradict each other, so this one is in doubt too`,
      );
    }
    if (isExact(bounds) && !isChecked) {
      const text = `${least}, not written: whether one replica serves all calls could not be seen`;
      return finding("warn", name, text, "state limits.replicas");
    }
    if (heldBack) {
      const bound = most === null ? "" : ` at most ${most}.`;
      const text = `not found:${bound} Answers come whole, so they do not show when a stream was admitted`;
      return finding("warn", name, text, "does an edge in between buffer? Streams have to pass as they are written");
    }
    if (!isExact(bounds)) return finding("warn", name, `not found exactly: ${range(bounds)}${of}`);
    limits[name] = least;
    if (replicas === undefined) limits.replicas = 1;
    return finding("ok", name, `${least}${of}`);
  };

  if (cutOff !== null) say("warn", "search", `it ended early: ${cutOff}`);
  if (service !== null) {
    const [value, low, high] = [service.value, service.low, service.high].map((ms) => ms.toFixed(1));
    const text = `${value} (${low} to ${high}) until a stream ends`;
    if (isKnown(service)) {
      limits.service_ms = Number(value);
      say("ok", "service_ms", text);
    } else say("skipped", "service_ms", `not found exactly: ${text}; lengths differ too much for so few streams`);
  }
  if (bucket !== null || (service !== null && cutOff === null)) findings.push(...ofRate());
  const global = together ?? alone;
  const isAdaptive = shedding === "adaptive";
  if (isAdaptive) say("skipped", "caps", "not looked for: the file says that shedding adapts");
  else if (alone !== null && global !== null) {
    if (alone.met === "organization") findings.push(cap("org_in_flight", alone));
    else if (alone.met !== "global") findings.push(notMet("org_in_flight", alone));
    else findings.push(lacks("org_in_flight", "the cap of the whole is met first, so it is no lower"));
    if (global.met === "global") findings.push(cap("global_in_flight", global));
    else if (global.met === "organization") {
      const own = k === 1 ? "the organization's own cap is" : `the own caps of ${k} organizations are`;
      const todo = `name keys of more than ${k} ${k === 1 ? "organization" : "organizations"} as tenants`;
      findings.push(lacks("global_in_flight", `${own} met first, with ${global.inFlight} in flight`, todo));
    } else if (global !== alone) findings.push(notMet("global_in_flight", global));
  }
  if (slots !== null && !isAdaptive && (stated.replicas ?? 1) === 1) {
    const { global_in_flight: whole } = limits;
    if (isExact(slots) && slots.least > 0) limits.slots = slots.least;
    else if (slots.most === null && whole !== undefined && slots.least >= whole) limits.slots = whole;
    const none = slots.most === null ? "; no stream waited for another to end" : "";
    const known = limits.slots === whole ? ", the cap: nobody waits" : ", beyond them streams wait for one to end";
    if (limits.slots === undefined) say("skipped", "slots", `not found exactly: ${range(slots)}${none}`);
    else say("ok", "slots", `${limits.slots}${known}`);
  }
  for (const name of NAMES) {
    const [before, value] = [stated[name], limits[name]];
    if (before === undefined || value === undefined || name === "service_ms") continue;
    if (Math.abs(before - value) > 0.02 * value) say("warn", name, `the file states ${before}, and ${value} was found`);
  }
  /** Whether a cap was found, so that sheds can be judged call by call. */
  const isFixed = limits.global_in_flight !== undefined || limits.org_in_flight !== undefined;
  return { findings, limits, isFixed };
};

/** `limits` follows the first of these members that the file has, or stands at the end; `init` writes `//limits`. */
const BEFORE_LIMITS = ["//limits", "exclusive", "shedding"];
const UNSURE =
  'Found by calls, and true if nobody else called meanwhile. State "exclusive": true and find them again, or take away the slashes.';

/** The file's text with the limits found, as comments unless `exclusive` is stated; all else stays as it was. */
export const withLimits = (file: string, { limits, isFixed }: Decided, isExclusive: boolean): string => {
  const names = NAMES.filter((name) => limits[name] !== undefined);
  const found = names.map((name): [string, unknown] => [isExclusive ? name : `//${name}`, limits[name]]);
  const members = isExclusive ? found : [["// found", UNSURE] as const, ...found];
  const text = members.reduce((made, [name, value]) => withMember(made, ["limits", name], value, BEFORE_LIMITS), file);
  return isFixed && isExclusive ? withMember(text, ["shedding"], "fixed") : text;
};

export const copyOf = (file: string, out: string | undefined) => out ?? `${file.replace(/\.json$/i, "")}.limits.json`;

/** Writes the copy, readable by its owner only, since it may hold keys. */
export const writeCopy = async (file: string, path: string, decided: Decided, isExclusive: boolean): Promise<void> =>
  writeNew(path, withLimits(readUserFile(resolve(file), WRITTEN_BOUNDS.maxBytes), decided, isExclusive));

export const copyFinding = (path: string, { limits }: Decided, { exclusive }: Target): Finding => {
  const names = Object.keys(limits).join(", ");
  if (exclusive === true) return finding("ok", "copy", `${path} is written, with ${names}`);
  const text = `${path} is written, with ${names} as comments: others may have called meanwhile`;
  return finding("warn", "copy", text, 'state "exclusive": true if nobody else calls, and run this again');
};

export const AT_MOST = `at most ${CALLS_MOST} calls and ${SECONDS_MOST} s`;

/** Throws, with what to add to the target file, if no load is permitted. */
export const checkPermitted = ({ permits }: Target): void => {
  if (permits?.load_max_rps !== undefined && permits.load_max_rps > 0) return;
  throw new UsageError(
    `--find-limits presses the deployment to its caps (${AT_MOST}) and needs permits.load_max_rps in the target file: add "permits": { "load_max_rps": 500 }, or what it may bear`,
  );
};
