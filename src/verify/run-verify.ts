/** Tries the rules one after the other on a deployment. What a rule makes is taken back before the next begins, on every way out. */
import { createRunClock, type RunClock, wallUs } from "../client/clock.ts";
import { openTransport } from "../client/transport.ts";
import type { CallLine } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import { type Budget, createBudget, type Spending } from "../target/budget.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { BudgetGuard } from "../workload/budget.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { chosenRules, withAnswers } from "./catalogue.ts";
import { type Context, callersOf, createContext } from "./context.ts";
import { type Crash, crashOf } from "./crash.ts";
import { createEffects, type EffectJournal } from "./effects.ts";
import { isStopped, type Judged, judgedRule, VERIFY_COMMAND } from "./judged-rule.ts";
import { type Asked, lackOf, type Permits, permitsOf } from "./planning/lacks.ts";
import { reach } from "./reach.ts";
import type { Rule } from "./rule.ts";
import type { Answer } from "./sending/answer.ts";
import { createSender } from "./sending/sender.ts";
import { createThrottle, RATE_PER_S, wait } from "./sending/throttle.ts";

/** RFC 7519 speaks of a few minutes at the most; a broken deployment costs that much of waiting. */
const LEEWAY_MS = 120_000;
/** Far longer than any `Retry-After` of an overload. */
const PATIENCE_MS = 60_000;

export type VerifyProgress =
  | { at: "rule"; rule: Rule; number: number; of: number }
  | { at: "claim"; rule: Rule; claim: Claim; spent: Spending }
  /** A rule that was left open, tried once more: what it says now. */
  | { at: "again"; rule: Rule; claim: Claim };

export type VerifyOptions = Asked & {
  target: Target;
  secrets: Secrets;
  seed: number;
  /** Ids of rules or names of phases. */
  only?: readonly string[];
  skip?: readonly string[];
  /** Calls a second; 20 where absent. */
  ratePerS?: number;
  /** For clocks that differ: two minutes where absent. */
  leewayMs?: number;
  /** For overload to end, which may be others': a minute in all where absent. */
  patienceMs?: number;
  stage?: string;
  /** Begins every call's id, by which the reference platform counts. */
  idPrefix?: string;
  clock?: RunClock;
  /** Wall time from which months are taken, ms since 1970; the machine's where absent. */
  wallMs?(): number;
  journal?: EffectJournal;
  signal?: AbortSignal;
  /** Of the whole run: asked before each call leaves, beside the budget of the rules. */
  runBudget?: BudgetGuard;
  onProgress?(progress: VerifyProgress): void;
  onLine?(line: CallLine): void;
  onAnswer?(answer: Answer): void;
};

export type VerifyResult = {
  claims: Claim[];
  /** Failing cases, one for each failed rule that a call shows. */
  crashes: Crash[];
  spent: Spending;
  /** Names of what was made and could not be taken back. */
  leftOver: string[];
  /** Ids of claims about what did not come about and cannot be brought about from outside: they cannot be required. */
  idle: string[];
  /** Whether it was ended from outside. */
  stopped: boolean;
};

/** Reads the secrets of the rules before anything is sent: a target file that has to be mended is reported as such. */
const readRoles = async (rules: readonly Rule[], context: Context, permits: Permits): Promise<void> => {
  const tried = rules.filter((rule) => lackOf(rule, context.target, permits, context.budget.left) === null);
  const names = new Set(tried.flatMap(({ needs: { roles = [], anyOf = [] } }) => [...roles, ...anyOf]));
  for (const name of names) if (context.has(name)) await context.secretOf(name);
};

const spentSince = (before: Spending, now: Spending): Spending => ({
  requests: now.requests - before.requests,
  map_loads: now.map_loads - before.map_loads,
  analyses: now.analyses - before.analyses,
});

/** Other stages of the run may have spent of the same budget. */
const withinRun = (budget: Budget, run: BudgetGuard | undefined): Budget => ({
  ...budget,
  left: (what) => Math.min(budget.left(what), run?.left()[what] ?? Number.POSITIVE_INFINITY),
});

/** A should that was not tried would, alone, leave a run that its budget cut short a pass. */
const budgetClaim = (stage: string, spent: readonly Judged[]): Claim => {
  const of = `${spent.length} ${spent.length === 1 ? "rule" : "rules"}`;
  const reasons = new Set(spent.map((one) => one.spent));
  return {
    ...{ id: "verify/budget", stage, level: "must", verdict: "inconclusive", evidence: [], spec: [] },
    reason: `${[...reasons].join("; ")}, so ${of} could not be tried, or not to the end`,
    expected: "a budget that lasts for every rule that it allows",
    got: `${of} left open`,
    replay: `${VERIFY_COMMAND} --dry-run`,
  };
};

/** Where more rules are open, it was no disturbance of seconds. */
const OPEN_MAX = 12;
const SERVED_WITHIN_S = 20;

/** Whether a call that should be admitted is, within a short time. */
const isServedSoon = async (context: Context): Promise<boolean> => {
  const [caller] = callersOf(context, "design");
  if (caller === undefined) return true;
  for (let k = 0; k < SERVED_WITHIN_S && !isStopped(context); k++) {
    const answer = await context.send({ ...caller, route: "design.styles", once: true }).catch(() => null);
    if (answer !== null && !answer.transient) return true;
    await wait(1_000, context.signal).catch(() => {});
  }
  return false;
};

/**
 * Rules that a disturbance of seconds has left open, to be tried once more with everything forgotten that was found out during it.
 * What failed is never tried again, an allowance is not used up twice, and a budget that is spent does not come back.
 */
const leftOpen = async (judged: readonly Judged[], context: Context): Promise<Judged[]> => {
  const open = judged.filter(
    ({ rule, claim, spent }) => claim.verdict === "inconclusive" && rule.phase !== "quota-burn" && spent === undefined,
  );
  if (context.short("requests", 1) !== null || open.length === 0 || open.length > OPEN_MAX) return [];
  if (!(await isServedSoon(context))) return [];
  context.forget();
  return open;
};

/** Throws `UnknownRuleError`, `TargetUnreachableError`, and what reading a secret throws; else there is a claim. */
export const runVerify = async (options: VerifyOptions): Promise<VerifyResult> => {
  const { target, secrets, seed, signal, runBudget, onAnswer, stage = "verify", onProgress } = options;
  const { patienceMs = PATIENCE_MS, onLine = () => undefined, leewayMs = LEEWAY_MS, wallMs = Date.now } = options;
  const rules = chosenRules(options.only, options.skip);
  const permits = permitsOf(target, options);
  const budget = withinRun(createBudget(target, permits.allowed.has("quota-burn")), runBudget);
  const transport = await openTransport(target.transport ?? {}, secrets);
  const view = viewOf(target);
  const effects = createEffects(options.journal);
  const context = createContext({
    ...{ target, view, secrets, budget, effects, seed, leewayMs, patienceMs, wallMs, signal, allowed: permits.allowed },
    makeSender: (parts) =>
      createSender({
        ...parts,
        ...{ target, view, patienceMs, stage, budget, onLine },
        dispatcher: transport.dispatcher,
        sharedHeaders: transport.headers,
        clock: options.clock ?? createRunClock(wallUs()),
        idPrefix: options.idPrefix ?? `verify-${seed}-${Date.now().toString(36)}`,
        throttle: createThrottle(options.ratePerS ?? RATE_PER_S, signal),
        ...(runBudget === undefined ? {} : { runBudget }),
        ...(signal === undefined ? {} : { signal }),
        ...(onAnswer === undefined ? {} : { onAnswer }),
      }),
  });
  const judged: Judged[] = [];
  const judge = async (rule: Rule): Promise<Judged> => {
    const one = await judgedRule(rule, context, permits, stage);
    await effects.takeBackAll();
    return one;
  };
  const tryAndReport = async (rule: Rule, reported: boolean): Promise<void> => {
    if (reported) onProgress?.({ at: "rule", rule, number: judged.length + 1, of: rules.length });
    const before = { ...budget.spent };
    const one = await judge(rule);
    if (!reported) return;
    judged.push(one);
    onProgress?.({ at: "claim", rule, claim: one.claim, spent: spentSince(before, budget.spent) });
  };
  const lookAgain = async (): Promise<void> => {
    for (const one of await leftOpen(judged, context)) {
      const again = await judge(one.rule);
      if (again.claim.verdict === "inconclusive" || isStopped(context)) continue;
      judged[judged.indexOf(one)] = again;
      onProgress?.({ at: "again", rule: one.rule, claim: again.claim });
    }
  };
  const result: VerifyResult = {
    ...{ claims: [], crashes: [], leftOver: [], idle: [], stopped: false },
    spent: budget.spent,
  };
  try {
    await readRoles(rules, context, permits);
    // A stop is no sign of a target that is not there.
    await reach(context).catch((error: unknown) => {
      if (!isStopped(context)) throw error;
    });
    // What is about every answer comes last, so that it sees those of the second look as well.
    const chosen = withAnswers(rules);
    const isAbout = ({ rule }: { rule: Rule }): boolean => rule.phase === "every-answer";
    for (const { rule, reported } of chosen.filter((one) => !isAbout(one))) await tryAndReport(rule, reported);
    await lookAgain();
    for (const { rule, reported } of chosen.filter(isAbout)) await tryAndReport(rule, reported);
  } finally {
    const run = { seed, target: target.base_url, allowed: [...permits.allowed] };
    for (const { rule, claim, failure, idle } of judged) {
      result.claims.push(claim);
      if (idle) result.idle.push(claim.id);
      if (claim.verdict === "fail" && failure !== undefined) result.crashes.push(crashOf(rule, failure, run));
    }
    const spent = judged.filter((one) => one.spent !== undefined);
    // First, for it is why the others are open.
    if (spent.length > 0) result.claims.unshift(budgetClaim(stage, spent));
    result.leftOver = await effects.takeBackAll();
    result.stopped = signal?.aborted === true;
    await transport.close();
  }
  return result;
};
