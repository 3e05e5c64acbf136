/** Runs the rules one after the other. Keys that a rule makes are deleted before the next rule begins. */
import { openTransport } from "../client/transport.ts";
import { stated } from "../contract/stated.ts";
import { openBy } from "../history/reason-codes.ts";
import { type Claim, claimOf } from "../history/run-document.ts";
import type { SideEffects } from "../supervision/journal.ts";
import { createRunClock, wallUs } from "../supervision/waiting.ts";
import type { KeyRole } from "../target/roles.ts";
import { SecretError, type Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { chosenRules, RULES, withAnswers } from "./catalogue.ts";
import { CannotJudge, type Open, type Verdict } from "./checks.ts";
import { type Context, type ContextParts, callersOf, createContext, createEffects } from "./context.ts";
import { type Crash, crashOf } from "./crash.ts";
import { type Asked, createBudget, deniedBy, lackOf, OPTION_OF, type Spending } from "./planning/needs.ts";
import { areExclusive, isKeyRole, MEANT, openByCredential, openByStrangers, reach } from "./reach.ts";
import type { Cost, Rule } from "./rule.ts";
import type { Answer } from "./sending/answer.ts";
import { createThrottle, lookEverySecond, RATE_PER_S, wait } from "./sending/throttle.ts";

const isStopped = ({ signal }: Context): boolean => signal?.aborted === true;
const STOPPED: Open = { ...openBy("stopped"), reason: "the run was stopped" };

const openOf = (error: unknown, context: Context): Open => {
  if (error instanceof CannotJudge) return error.open;
  if (error instanceof SecretError) throw error;
  if (isStopped(context)) return STOPPED;
  const message = error instanceof Error ? error.message : String(error);
  return { ...openBy("program-failed"), reason: `the rule itself failed: ${message}` };
};

const tryRule = async (rule: Rule, context: Context): Promise<Verdict> => {
  const lack = lackOf(rule, context) ?? (isStopped(context) ? STOPPED : null);
  let refused: readonly Answer[] = [];
  const tried =
    lack ??
    (await rule.run(context).catch((error: unknown) => {
      if (error instanceof CannotJudge) refused = error.steps;
      return openOf(error, context);
    }));
  const failures = "failures" in tried ? (tried.failures ?? []) : [];
  const deciding = refused.length > 0 ? [{ steps: refused }] : failures;
  const open = rule.stands_alone
    ? null
    : ((await openByCredential(rule.id, deciding, context)) ?? (await openByStrangers(failures, context)));
  const found = open ?? tried;
  if ("got" in found) return found;
  const reason = found.verdict === "skipped" ? `skipped: ${found.reason}` : found.reason;
  return { ...found, reason, expected: rule.title, got: "not judged", evidence: [] };
};

/** Start of a rule's replay command; callers replace FILE by the target file's name. */
export const VERIFY_COMMAND = "npx floodgate verify --target FILE";

type Judged = Awaited<ReturnType<typeof judgedRule>>;

const judgedRule = async (rule: Rule, context: Context, stage: string) => {
  const { failures, idle = false, spent, ...found } = await tryRule(rule, context);
  const option = rule.needs.permission === undefined ? "" : ` ${OPTION_OF[rule.needs.permission]}`;
  const claim: Claim = {
    ...{ id: `verify/${rule.id}`, stage },
    // An idle rule must not fail a target under `--require-all`.
    level: idle ? "info" : rule.level,
    ...(rule.stands_alone && { stands_alone: true }),
    ...found,
    spec: [...rule.spec],
    replay: `${VERIFY_COMMAND} --only ${rule.id}${option}`,
  };
  return { rule, claim, failure: failures?.[0], idle, spent };
};

/** Waiting time of a run for overload to end. Shedding that lasts longer may count as lost slots. */
export const PATIENCE_MS = 60_000;
const USUAL = {
  ...{ stage: "verify", wallMs: () => Date.now(), onLine: () => undefined, patienceMs: PATIENCE_MS },
  /** How long past its end a session may be admitted; RFC 7519 suggests a few minutes at most. */
  leewayMs: 120_000,
  /** Counts are commonly written to their store once a second or every few seconds. */
  settleMs: 5_000,
};

export type VerifyProgress =
  | { at: "rule"; rule: Rule; number: number; of: number }
  | { at: "claim"; rule: Rule; claim: Claim; spent: Spending }
  | { at: "again"; rule: Rule; claim: Claim };

type Given = "stage" | "idPrefix" | "clock" | "wallMs" | "signal" | "runBudget" | "onLine" | "onAnswer";

/** Defaults: 20 calls a second, two minutes of `leewayMs`, one minute of `patienceMs`, five seconds of `settleMs`. */
export type VerifyOptions = Asked &
  Pick<ContextParts, "target" | "secrets" | "seed"> &
  Partial<Pick<ContextParts, Given | "leewayMs" | "patienceMs" | "settleMs">> & {
    only?: readonly string[];
    skip?: readonly string[];
    ratePerS?: number;
    journal?: SideEffects;
    onProgress?(progress: VerifyProgress): void;
  };

export type VerifyResult = Awaited<ReturnType<typeof runVerify>>;

/** Reads all secrets before anything is sent, so that a broken target file is reported as one. */
const readRoles = async (rules: readonly Rule[], context: Context): Promise<void> => {
  const tried = rules.filter((rule) => lackOf(rule, context) === null);
  const names = new Set(tried.flatMap(({ needs: { roles = [], anyOf = [] } }) => [...roles, ...anyOf]));
  const keys = new Map<KeyRole, string>();
  for (const name of [...names].filter(context.has)) {
    const key = await context.secretOf(name);
    if (!isKeyRole(name)) continue;
    const other = [...keys.keys()].find((one) => keys.get(one) === key && areExclusive(one, name));
    const another = `${MEANT[name][0]}, so another key than that of credentials.${other}`;
    if (other !== undefined) throw new SecretError(`credentials.${name}`, another, "it is the same");
    keys.set(name, key);
  }
};

/** A must, because a run cut short by its budget would otherwise pass if only shoulds were left open. */
const budgetClaim = (stage: string, spent: readonly Judged[]): Claim => {
  const of = `${spent.length} ${spent.length === 1 ? "rule" : "rules"}`;
  const reasons = new Set(spent.map((one) => one.spent));
  return claimOf({
    ...{ id: "verify/budget", stage, ...openBy("budget-spent") },
    reason: `${[...reasons].join("; ")}, so ${of} could not be tried, or not to the end`,
    expected: "a budget that lasts for every rule that it allows",
    got: `${of} left open`,
    replay: `${VERIFY_COMMAND} --dry-run`,
  });
};

/** With more open rules than this, the disturbance is too long for a second try to help. */
const OPEN_MAX = 12;
const SERVED_WITHIN_MS = 20_000;

const isServedSoon = async (context: Context): Promise<boolean> => {
  const [caller] = callersOf(context, "design");
  if (caller === undefined) return true;
  const look = async (): Promise<boolean> => {
    const answer = await context.send({ ...caller, route: "design.styles", once: true }).catch(() => null);
    return answer?.transient === false;
  };
  return lookEverySecond(look, SERVED_WITHIN_MS, (ms) => wait(ms, context.signal)).catch(() => false);
};

/** Inconclusive rules to judge once more after a short disturbance, except for used-up allowances and budgets. */
const leftOpen = async (judged: readonly Judged[], context: Context): Promise<Judged[]> => {
  const open = judged.filter(
    ({ rule, claim, spent }) => claim.verdict === "inconclusive" && rule.phase !== "quota-burn" && spent === undefined,
  );
  const isFew = open.length > 0 && open.length <= OPEN_MAX && context.refused.size === 0;
  const isWorthIt = isFew && context.budget.shortage("requests", 1) === null;
  if (!isWorthIt || !(await isServedSoon(context))) return [];
  context.forget();
  return open;
};

/** Throws `UnknownRuleError`, `TargetUnreachableError`, and errors of reading a secret. */
export const runVerify = async (options: VerifyOptions) => {
  const given = { ...USUAL, ...stated(options) };
  const { target, secrets, seed, signal, runBudget, stage, onProgress } = given;
  const rules = chosenRules(options.only, options.skip);
  const denied = deniedBy(target, options);
  const rest = (what: keyof Spending): number => runBudget?.left()[what] ?? Number.POSITIVE_INFINITY;
  const budget = createBudget(target, !denied.has("quota-burn"), rest);
  const transport = await openTransport(target.transport ?? {}, secrets);
  const effects = createEffects(options.journal);
  const context = createContext({
    ...{ ...given, budget, denied, effects, view: viewOf(target) },
    ...{ dispatcher: transport.dispatcher, sharedHeaders: transport.headers },
    clock: options.clock ?? createRunClock(wallUs()),
    idPrefix: options.idPrefix ?? `verify-${seed}-${Date.now().toString(36)}`,
    throttle: createThrottle(options.ratePerS ?? RATE_PER_S, signal),
  });
  const judged: Judged[] = [];
  const judge = async (rule: Rule): Promise<Judged> => {
    const one = await judgedRule(rule, context, stage);
    await effects.takeBackAll();
    return one;
  };
  const tryAndReport = async ({ rule, reported }: ReturnType<typeof withAnswers>[number]): Promise<void> => {
    if (reported) onProgress?.({ at: "rule", rule, number: judged.length + 1, of: rules.length });
    const before = { ...budget.spent };
    const one = await judge(rule);
    if (!reported) return;
    judged.push(one);
    const used = (what: keyof Spending): number => budget.spent[what] - before[what];
    const spent = { requests: used("requests"), map_loads: used("map_loads"), analyses: used("analyses") };
    onProgress?.({ at: "claim", rule, claim: one.claim, spent });
  };
  let leftOver: string[] = [];
  try {
    await readRoles(rules, context);
    // An error after a stop does not show that the target is unreachable.
    await reach(context).catch((error: unknown) => {
      if (!isStopped(context)) throw error;
    });
    const { first = [], last = [] } = Object.groupBy(withAnswers(rules), ({ rule }) =>
      rule.phase === "every-answer" ? "last" : "first",
    );
    for (const one of first) await tryAndReport(one);
    for (const one of await leftOpen(judged, context)) {
      const again = await judge(one.rule);
      if (again.claim.verdict === "inconclusive" || isStopped(context)) continue;
      judged[judged.indexOf(one)] = again;
      onProgress?.({ at: "again", rule: one.rule, claim: again.claim });
    }
    // Rules over every answer come last, so that they also see the answers of the second look.
    for (const one of last) await tryAndReport(one);
  } finally {
    leftOver = await effects.takeBackAll();
    await transport.close();
  }
  const allowed = (Object.keys(OPTION_OF) as (keyof typeof OPTION_OF)[]).filter(context.permits);
  const run = { seed, target: target.base_url, allowed };
  const short = judged.filter((one) => one.spent !== undefined);
  const claims = judged.map(({ claim }) => claim);
  return {
    // The claim about the budget comes first, because it explains the others.
    claims: short.length === 0 ? claims : [budgetClaim(stage, short), ...claims],
    crashes: judged.flatMap(({ rule, failure }): Crash[] =>
      failure === undefined ? [] : [crashOf(rule, failure, run)],
    ),
    /** Ids of claims about what did not happen and no call can cause; `--require-all` leaves them out. */
    idle: judged.filter(({ idle }) => idle).map(({ claim }) => claim.id),
    ...{ leftOver, spent: budget.spent, stopped: isStopped(context), refused: context.refused },
  };
};

const REPLAYED = { pass: "fixed", fail: "failing", inconclusive: "unclear", skipped: "unclear" } as const;

/** Runs the crash's whole rule with its seed and permissions, because its calls need fresh sessions and keys. */
export const replayCrash = async ({ rule, seed, allowed, expected }: Crash, target: Target, secrets: Secrets) => {
  const unclear = { verdict: "unclear", expected, got: "not tried" } as const;
  if (!RULES.some(({ id }) => id === rule)) return { ...unclear, reason: `there is no rule ${rule} any more` };
  const { claims } = await runVerify({
    ...{ target, secrets, seed, only: [rule], stage: "replay" },
    allowWrites: allowed.includes("writes"),
    allowQuotaBurn: allowed.includes("quota-burn"),
    allowLoad: allowed.includes("load"),
  });
  const [claim] = claims;
  if (claim === undefined) return { ...unclear, reason: "nothing was judged" };
  return { verdict: REPLAYED[claim.verdict], reason: claim.reason, expected: claim.expected, got: claim.got };
};

// The plan of a run (`--dry-run`): rules to judge and to skip, calls, and spending. Sends nothing.

/** `inconclusive`: earlier rules would use the budget up. */
type PlannedRule = Pick<Rule, "id" | "level" | "phase"> & {
  would_be: "judged" | "skipped" | "inconclusive";
  lacks: string | null;
  calls: number;
};

export type VerifyPlan = ReturnType<typeof planVerify>;

/** Calls before the first rule: one to find the API, and the sessions that rules share. */
const baseCalls = ({ credentials = {} }: Target): number =>
  1 +
  (credentials.publishable === undefined ? 0 : 6) +
  (credentials.publishable_other_org === undefined ? 0 : 2) +
  (credentials.publishable_no_ai === undefined ? 0 : 1);

export const planVerify = (target: Target, rules: readonly Rule[], options: Asked & { ratePerS: number }) => {
  const denied = deniedBy(target, options);
  const budget = createBudget(target, !denied.has("quota-burn"));
  const { spent, allowed, left } = budget;
  spent.requests = baseCalls(target);
  let paced = spent.requests;
  let keys = 0;
  const callsLack = (calls: number): Open | null => {
    const reason = `budget.requests of the target file (${allowed.requests}) would be spent`;
    return calls <= left("requests") ? null : { ...openBy("budget-spent"), reason };
  };
  const seen = new Set<string>();
  const planned: PlannedRule[] = [];
  for (const { rule, reported } of withAnswers(rules)) {
    const { id, level, phase } = rule;
    const cost: Cost = typeof rule.cost === "function" ? rule.cost(target) : rule.cost;
    const isKnown = cost.shared !== undefined && seen.has(cost.shared);
    const calls = isKnown ? 0 : (cost.calls ?? 0);
    const lack = lackOf(rule, { target, denied, budget }, "would be") ?? callsLack(calls);
    const lacks = lack?.reason ?? null;
    const would_be = lack?.verdict ?? "judged";
    if (reported) planned.push({ id, level, phase, would_be, lacks, calls: lacks === null ? calls : 0 });
    if (lacks !== null || isKnown) continue;
    if (cost.shared !== undefined) seen.add(cost.shared);
    spent.requests += calls;
    // A rule that can run with less budget spends what is left.
    for (const what of ["map_loads", "analyses"] as const)
      spent[what] += Math.min(cost[what] ?? 0, Math.max(0, left(what)));
    keys += cost.keys ?? 0;
    if (phase !== "load") paced += calls;
  }
  return {
    schema: "floodgate/plan@1" as const,
    target: { name: target.name ?? "", base_url: target.base_url },
    rate_per_s: options.ratePerS,
    rules: planned,
    /** The most that a run sends and spends on a conforming deployment below its limits. `keys` are deleted again. */
    would_send: { calls: spent.requests, map_loads: spent.map_loads, analyses: spent.analyses, keys },
    /** `null`: the target file states no limit. */
    budget: {
      requests: Number.isFinite(allowed.requests) ? allowed.requests : null,
      ...{ map_loads: allowed.map_loads, analyses: allowed.analyses },
    },
    /** Seconds that pacing alone takes, without bursts and the time of the answers. */
    takes_s_at_least: Math.ceil(paced / options.ratePerS),
  };
};
