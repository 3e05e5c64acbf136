/** Runs the rules one after the other on a deployment. Keys that a rule makes are deleted before the next begins, on every way out. */
import { createRunClock, type RunClock, wallUs } from "../client/clock.ts";
import { openTransport } from "../client/transport.ts";
import type { CallLine } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
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
import { type Budget, createBudget, type Spending } from "./planning/needs.ts";
import { reach } from "./reach.ts";
import type { Rule } from "./rule.ts";
import type { Answer } from "./sending/answer.ts";
import { createSender } from "./sending/sender.ts";
import { createThrottle, RATE_PER_S, wait } from "./sending/throttle.ts";

/** RFC 7519 suggests a few minutes at most. */
const LEEWAY_MS = 120_000;
/** Longer than any `Retry-After` of an overload. */
const PATIENCE_MS = 60_000;

export type VerifyProgress =
  | { at: "rule"; rule: Rule; number: number; of: number }
  | { at: "claim"; rule: Rule; claim: Claim; spent: Spending }
  /** A rule left open, judged once more. */
  | { at: "again"; rule: Rule; claim: Claim };

export type VerifyOptions = Asked & {
  target: Target;
  secrets: Secrets;
  seed: number;
  /** Rule ids or phases. */
  only?: readonly string[];
  skip?: readonly string[];
  /** Calls per second; 20 by default. */
  ratePerS?: number;
  /** Tolerance for clocks; two minutes by default. */
  leewayMs?: number;
  /** Total time to wait for overload, which other callers may cause; a minute by default. */
  patienceMs?: number;
  stage?: string;
  /** Prefix of call ids, by which the reference platform counts. */
  idPrefix?: string;
  clock?: RunClock;
  /** Wall time, ms since 1970. */
  wallMs?(): number;
  journal?: EffectJournal;
  signal?: AbortSignal;
  /** The budget of the whole run, besides that of the rules. */
  runBudget?: BudgetGuard;
  onProgress?(progress: VerifyProgress): void;
  onLine?(line: CallLine): void;
  onAnswer?(answer: Answer): void;
};

export type VerifyResult = {
  claims: Claim[];
  /** One for each failed rule that a call shows. */
  crashes: Crash[];
  spent: Spending;
  /** Names of keys that could not be deleted. */
  leftOver: string[];
  /** Ids of claims about something that did not happen and that no call can cause: `--require-all` leaves them out. */
  idle: string[];
  stopped: boolean;
};

/** Reads all secrets before anything is sent, so that a broken target file is reported as one. */
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

/** Other stages of the run may spend from the same budget. */
const withinRun = (budget: Budget, run: BudgetGuard | undefined): Budget => ({
  ...budget,
  left: (what) => Math.min(budget.left(what), run?.left()[what] ?? Number.POSITIVE_INFINITY),
});

/** A must, because a run cut short by its budget would otherwise pass if only shoulds were left open. */
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

/** More open rules mean a longer disturbance than a second look would help. */
const OPEN_MAX = 12;
const SERVED_WITHIN_S = 20;

/** Waits up to `SERVED_WITHIN_S` for a call to be served. */
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
 * Rules left open by a short disturbance, to be judged once more without memoized answers. Excludes failures, used-up allowances
 * and spent budgets.
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

/** Throws `UnknownRuleError`, `TargetUnreachableError`, and errors of reading a secret. */
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
        ...{ target, view, patienceMs, stage, budget, runBudget, signal, onLine, onAnswer },
        dispatcher: transport.dispatcher,
        sharedHeaders: transport.headers,
        clock: options.clock ?? createRunClock(wallUs()),
        idPrefix: options.idPrefix ?? `verify-${seed}-${Date.now().toString(36)}`,
        throttle: createThrottle(options.ratePerS ?? RATE_PER_S, signal),
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
    // A stopped run does not show that the target is away.
    await reach(context).catch((error: unknown) => {
      if (!isStopped(context)) throw error;
    });
    // Rules over every answer come last, to see those of the second look as well.
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
    // First, because it explains the others.
    if (spent.length > 0) result.claims.unshift(budgetClaim(stage, spent));
    result.leftOver = await effects.takeBackAll();
    result.stopped = signal?.aborted === true;
    await transport.close();
  }
  return result;
};
