/** Plays a suite's stages on one deployment, those of verify/ too, until they end or nothing more may be sent. */

import { takeProtocols } from "../client/transport.ts";
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import { type Deployment, type RunContext, reachedAt, stoppedBy, withReplicas } from "../deployments/deployment.ts";
import { stageTenants } from "../deployments/tenants.ts";
import { consequencesOf } from "../faults/disturbance.ts";
import { moveClock } from "../faults/injectors/operator.ts";
import type { CallLine, Line } from "../history/line.ts";
import { BROKEN, HELD, type OpenCode, openBy, skippedBy } from "../history/reason-codes.ts";
import * as doc from "../history/run-document.ts";
import { stageMeasure } from "../history/tally.ts";
import { hostNotesOf } from "../history/time-doubts.ts";
import { createPooledRefusals } from "../invariants/refusal-times.ts";
import { createIsolation } from "../shedding/isolation.ts";
import { rateFoundOf, readRamp } from "../shedding/knee-of-ramp.ts";
import type { RunFolder } from "../supervision/run-folder.ts";
import { createRunClock } from "../supervision/waiting.ts";
import type { KeyRole } from "../target/roles.ts";
import { SHED_SINCE_MIN } from "../verify/rules/caps.ts";
import { PATIENCE_MS, runVerify, VERIFY_COMMAND, type VerifyOptions, type VerifyResult } from "../verify/run-verify.ts";
import type { Answer } from "../verify/sending/answer.ts";
import { runtimeCallers } from "../workload/callers/callers.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { STORIES } from "../workload/catalogue.ts";
import { RAMPS } from "../workload/story.ts";
import { playLoadStage } from "./play.ts";
import { unplayedStage, watchGrowth } from "./stage-claims.ts";
import * as planning from "./stage-plan.ts";
import { watchHeldSlots } from "./witnesses.ts";

/** The deployment with a stage's tenants, replicas and edge proxy; changes only one that this run started. */
const deploymentFor = async (plan: planning.LoadStage, given: Deployment, atEnd: AsyncDisposableStack) => {
  const { own, faults } = given;
  if (own === undefined) return given;
  const { breaksEdge, movesClock } = consequencesOf(plan.disturbance);
  if (movesClock) atEnd.defer(() => moveClock(given.target, 0));
  const target = await stageTenants(plan.tenants, given.target);
  const { replicas = 1 } = plan;
  if (replicas > 1) return withReplicas({ ...given, own, target }, replicas, atEnd);
  const edge = breaksEdge ? faults?.links.edge : undefined;
  const atEdge = edge === undefined ? {} : reachedAt(`http://${edge.listen}`, target);
  return { ...given, target: { ...target, ...atEdge } };
};

const findCapacity = async (context: RunContext, deployment: Deployment, plan: planning.LoadStage): Promise<void> => {
  const kind = STORIES.get(plan.story)?.needsCapacity ?? null;
  if (kind === null || deployment.found[kind] !== undefined || planning.plannedFor(plan, deployment) !== null) return;
  if (context.signal.aborted || stoppedBy(context) !== null || planning.stageMissing(plan, deployment).length > 0)
    return;
  const story = RAMPS[kind];
  const ramp: planning.LoadStage = {
    ...{ kind: "load", name: story, story, driver: "open-loop", arrivals: "uniform" },
    judges: [...planning.EVERYWHERE, ...(kind === "chat" ? planning.STREAMS : [])],
  };
  context.events.step(`a ramp for the stages to come, because \`limits\` state no rate: ${story}`);
  const planned = planning.plannedFor(ramp, deployment);
  if (planned === null) return;
  const calls: CallLine[] = [];
  const onLine = (line: Line): void => {
    if (line.type === "call" && line.driver === "open-loop" && line.route !== "sdk.sessions") calls.push(line);
  };
  const outcome = await playLoadStage(context, deployment, ramp, { onLine });
  await context.addStage(outcome);
  calls.sort((one, other) => one.sent_us - other.sent_us);
  if (calls.length === 0) return;
  const { knee, served } = readRamp(calls, planned.profile);
  const said = knee.found
    ? `${knee.capacityPerS.toFixed(1)} calls/s (${knee.low.toFixed(1)} to ${knee.high.toFixed(1)}), ended by ${knee.by}`
    : `no limit was met: ${knee.reason}; at least ${knee.atLeastPerS.toFixed(1)} calls/s`;
  context.events.result(`  ${said}`);
  const rate = rateFoundOf(knee);
  if (rate !== null) deployment.found[kind] = rate;
  if (kind === "chat") deployment.found.ramp = served;
  const claim = doc.claimOf({
    ...{ id: `knee/${story}`, stage: story, level: "info", ...(knee.found ? HELD : skippedBy("not-reached")) },
    ...{ reason: said, expected: "a limit inside permits.load_max_rps", replay: context.replay },
  });
  context.add({ claims: [claim] });
};

/** The most stages played again; a machine that disturbs more of them would disturb the second try too. */
const PLAYED_AGAIN_MAX = 5;

/** The stage to play again if a disturbed machine left it undecided, else `null`. */
export const stageAgain = (plan: planning.StagePlan, outcome: doc.StageOutcome): planning.LoadStage | null => {
  if (plan.kind !== "load" || plan.disturbance === undefined) return null;
  const { isDrawn, movesClock } = consequencesOf(plan.disturbance);
  // What uses up organizations' last units, or begins a new month, cannot be repeated.
  if (isDrawn || movesClock || [plan.tenants, plan.story].includes("last-units")) return null;
  const { claims, facts, isLeftBroken } = outcome;
  const isFailed = claims.some(({ level, verdict }) => level === "must" && verdict === "fail");
  if (!claims.some(doc.isUndecided) || isFailed || isLeftBroken) return null;
  const wasDisturbed = facts.host !== undefined && hostNotesOf(facts.host).length > 0;
  return wasDisturbed ? { ...plan, name: doc.secondOf(plan.name) } : null;
};

const ANSWER_MOST_CHARS = 64 << 10;
const ALL_MOST_CHARS = 64 << 20;

const keepAnswers = (folder: Pick<RunFolder, "openLines">) => {
  const file = folder.openLines("answers.ndjson");
  let left = ALL_MOST_CHARS;
  return {
    close: file.close,
    see: ({ id, status, headers, text, chunks, received }: Answer): void => {
      const body = (text === "" ? chunks.map((chunk) => chunk.text).join("") : text).slice(0, ANSWER_MOST_CHARS);
      const line = JSON.stringify({ id, status, ended: received.ended, headers, body });
      left -= line.length;
      // A failed write shows when the file is closed.
      if (left >= 0) file.write(line).catch(() => undefined);
    },
  };
};

type VerifyWish = Omit<
  VerifyOptions,
  "target" | "secrets" | "seed" | "clock" | "idPrefix" | "signal" | "journal" | "onLine" | "budget"
>;

/** The `verify` command for a run's deployment: of the replay's options it takes only `--target` and `--i-own`. */
export const verifyCommandOf = (replay: string): string => {
  const options = replay.match(/--(?:target|i-own) (?:'[^']*'|\S+)/g) ?? [];
  return ["npx floodgate verify", ...options].join(" ");
};

/** Throws what `runVerify` throws: for an unknown rule, an unreachable target, a secret that cannot be read. */
export const playRules = async (
  context: RunContext,
  deployment: Deployment,
  { keepsAnswers = false, ...wish }: VerifyWish & { keepsAnswers?: boolean },
): Promise<{ outcome: doc.StageOutcome; result: VerifyResult }> => {
  const { seed, run, epochUs, journal, folder, signal, replay } = context;
  const { target, secrets, budget } = deployment;
  const { stage = "verify" } = wish;
  const command = verifyCommandOf(replay);
  const began = performance.now();
  const measure = stageMeasure(stage);
  const slots = await watchHeldSlots(deployment, context.nowUs());
  takeProtocols(target.base_url);
  const answers = keepsAnswers ? keepAnswers(folder) : null;
  const result = await runVerify({
    ...{ target, secrets, runBudget: budget, seed, signal, idPrefix: `${run}.${stage}.c` },
    clock: createRunClock(epochUs),
    journal,
    ...wish,
    onLine: (line) => {
      measure.see(line);
      slots.see(line);
      context.line(line);
    },
    onAnswer: answers?.see,
  }).finally(() => answers?.close());
  slots.end(false);
  for (const crash of result.crashes) {
    await folder.writeJson(`crashes/${stage === "verify" ? "" : `${stage}-`}${crash.rule}.json`, crash);
  }
  const durationMs = performance.now() - began;
  const protocols = takeProtocols(target.base_url);
  const { summary, measurements } = measure.end({ durationMs });
  const left = [...Map.groupBy(result.leftOver, (name) => name)].map(([name, { length }]) => {
    const todo =
      "its making or its deletion had no clear answer; look for that name in key management, and delete what is there";
    const times = length === 1 ? "" : `, up to ${length} times`;
    const may = `${name} may still be there${times}: ${todo}`;
    return doc.doubt("run/cleaned-up", "not-healed", may, "what was made is gone", replay);
  });
  const claims = result.claims.map((claim) => ({ ...claim, replay: claim.replay.replace(VERIFY_COMMAND, command) }));
  const outcome = doc.stageOutcome({
    summary: { ...summary, driver: "verify", protocols: protocols.length === 0 ? undefined : protocols },
    facts: doc.bareFacts(stage),
    claims: [...left, ...claims],
    measurements: measurements.filter(({ name }) => name === "achieved_rate"),
  });
  return { outcome, result };
};

/**
 * Says why a rule that needs an admitted call fails if every call is shed: with fixed caps a single call is always
 * below the cap, so slots are lost. `null` if a call was admitted, or if too little was shed to tell.
 */
const nothingComesBack = (lines: Iterable<Line>, { target }: Deployment, longMs: number): string | null => {
  if (target.shedding !== "fixed" || target.limits?.global_in_flight === undefined) return null;
  const calls = [...lines].filter((line) => line.type === "call");
  if (calls.some(({ outcome }) => outcome.startsWith("2"))) return null;
  const shed = calls.filter(({ outcome }) => SHED_OUTCOMES.has(outcome));
  const lastedUs = (shed.at(-1)?.done_us ?? 0) - (shed[0]?.sent_us ?? 0);
  if (shed.length < SHED_SINCE_MIN || lastedUs < longMs * 1_000) return null;
  return `no call was admitted for ${Math.round(lastedUs / 1e6)} s, ${shed.length} were shed`;
};

/** Says why no load can be made: verify has found that the deployment refuses calls with every caller's key; else nothing. */
const keysRefused = ({ target }: Deployment, { refused }: VerifyResult): string | undefined => {
  const names = runtimeCallers(viewOf(target)).map(({ name }) => name.replace(/^role:/, ""));
  const isEach = names.length > 0 && names.every((name) => refused.has(name as KeyRole));
  return isEach
    ? `the deployment refuses calls with every key that load is made with (${names.join(", ")})`
    : undefined;
};

const playVerifyStage = async (context: RunContext, deployment: Deployment, plan: planning.VerifyStage) => {
  const { kind: _, name, patienceMs = PATIENCE_MS, ...wish } = plan;
  const readBack = name === "verify" ? null : await context.record(name);
  const { outcome, result } = await playRules(context, deployment, {
    ...{ ...wish, stage: name, patienceMs },
    onProgress: (progress) => {
      if (progress.at === "rule") context.events.progress(`${name}: rule ${progress.number} of ${progress.of}`);
    },
  });
  if (readBack === null) return { ...outcome, keysRefused: keysRefused(deployment, result) };
  // The replay is the whole run, since the rule alone would find a fresh deployment.
  const lost = nothingComesBack(await readBack(), deployment, patienceMs);
  const claims = outcome.claims.map((claim) => {
    const isLost = lost !== null && claim.id === "verify/slots-come-back";
    const judged = isLost ? { ...BROKEN, reason: `${claim.expected}: ${lost}`, got: lost } : {};
    return { ...claim, ...judged, id: claim.id.replace(/^verify\/(.*)$/, `$1/${name}`), replay: context.replay };
  });
  return { ...outcome, claims };
};

const playStage = async (context: RunContext, deployment: Deployment, plan: planning.StagePlan) => {
  if (plan.kind === "verify") return playVerifyStage(context, deployment, plan);
  await findCapacity(context, deployment, plan);
  await using atEnd = new AsyncDisposableStack();
  return await playLoadStage(context, await deploymentFor(plan, deployment, atEnd), plan);
};

const isWatched = (plan: planning.StagePlan): boolean => plan.kind === "load" && plan.growth === true;

export const playStages = async (
  context: RunContext,
  deployment: Deployment,
  plans: readonly planning.StagePlan[],
  /** Called after each stage with the stages still to come; `true` ends the play. */
  isEnough: (outcome: doc.StageOutcome, left: readonly planning.StagePlan[]) => boolean = () => false,
): Promise<void> => {
  const { events, replay } = context;
  const pooled = createPooledRefusals();
  const isolation = createIsolation();
  const growth = plans.some(isWatched) ? watchGrowth(deployment) : null;
  const toPlayAgain: planning.LoadStage[] = [];
  const isOver = (): boolean => context.signal.aborted || stoppedBy(context) !== null;
  const playOne = async (plan: planning.StagePlan, which: string): Promise<doc.StageOutcome> => {
    events.step(`${which}: ${plan.name} (${planning.driverOf(plan)})`);
    if (isWatched(plan)) growth?.look();
    const { disturbance, isolation: part } = plan.kind === "load" ? plan : {};
    const isReadBack = disturbance !== undefined || part !== undefined;
    const readBack = isReadBack ? await context.record(plan.name) : null;
    const outcome = await playStage(context, deployment, plan);
    if (readBack !== null && disturbance !== undefined) pooled.see(await readBack(), outcome.facts.host);
    if (readBack !== null && part !== undefined) isolation.see(part, await readBack(), outcome.facts);
    await growth?.rest();
    await context.addStage(outcome);
    return outcome;
  };
  /** Leaves out the remaining stages, because a deployment in such a state is neither broken further nor judged. */
  const leaveOut = async (
    said: string,
    { code, ...why }: Pick<doc.Claim, "reason" | "expected"> & { code: OpenCode },
    left: readonly planning.StagePlan[],
  ) => {
    const names = left.map(({ name }) => name).join(", ");
    events.result(`  ${said}: ${names === "" ? "no stage was left" : `not played: ${names}`}`);
    const open = { ...openBy(code), ...why, reason: `not played: ${why.reason}`, replay };
    for (const plan of left) await context.addStage(unplayedStage(plan, deployment, open));
  };
  /** Plays all stages. Returns whether they can be judged together, because play did not end early. */
  const playAll = async (): Promise<boolean> => {
    for (const [at, plan] of plans.entries()) {
      if (isOver()) return false;
      const outcome = await playOne(plan, `stage ${at + 1} of ${plans.length}`);
      const { keysRefused: unusable, isLeftBroken } = outcome;
      if (isLeftBroken === true || unusable !== undefined) {
        const broken = `what was done to the deployment in ${plan.name} could not be healed, and nothing more is broken`;
        const left = plans.slice(at + 1);
        if (unusable === undefined) {
          const why = { code: "not-healed", reason: broken, expected: "a deployment that is whole" } as const;
          await leaveOut(`${plan.name} could not be healed`, why, left);
        } else {
          const why = { code: "key-refused", reason: unusable, expected: "a key that the deployment takes" } as const;
          await leaveOut(unusable, why, left);
        }
        return true;
      }
      const again = isOver() || toPlayAgain.length === PLAYED_AGAIN_MAX ? null : stageAgain(plan, outcome);
      if (again !== null) toPlayAgain.push(again);
      if (isEnough(outcome, [...plans.slice(at + 1), ...toPlayAgain])) return false;
    }
    // Stages are played again at the end, because a disturbance of the machine may last a minute.
    for (const [at, plan] of toPlayAgain.entries()) {
      if (isOver()) break;
      const outcome = await playOne(plan, `once more, ${at + 1} of ${toPlayAgain.length}`);
      if (outcome.isLeftBroken || isEnough(outcome, toPlayAgain.slice(at + 1))) break;
    }
    return true;
  };
  try {
    if (!(await playAll())) return;
    context.add({ claims: pooled.claims(deployment.target.limits, replay) });
    context.add(isolation.judged(replay));
  } finally {
    await growth?.rest();
    context.add(growth?.judged(replay) ?? {});
  }
};
