/** The rules of verify/ as a stage: their calls as lines, their claims, and a crash file for each rule that fails. */

import { createRunClock } from "../client/clock.ts";
import { takeProtocols } from "../client/transport.ts";
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { RunContext, RunFolder } from "../deployments/run-context.ts";
import type { Line } from "../history/line.ts";
import { stageMeasure } from "../history/measure.ts";
import { doubt } from "../history/run-document.ts";
import { bareFacts, type StageOutcome, stageOutcome } from "../history/stage-facts.ts";
import { PATIENCE_MS, runVerify, VERIFY_COMMAND, type VerifyOptions, type VerifyResult } from "../verify/run-verify.ts";
import type { Answer } from "../verify/sending/answer.ts";
import type { VerifyStage } from "./stage-plan.ts";

const ANSWERS_FILE = "answers.ndjson";
const ANSWER_MOST_CHARS = 64 << 10;
const ALL_MOST_CHARS = 64 << 20;

const keepAnswers = (folder: Pick<RunFolder, "openLines">) => {
  const file = folder.openLines(ANSWERS_FILE);
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
): Promise<{ outcome: StageOutcome; result: VerifyResult }> => {
  const { seed, run, epochUs, journal, folder, signal, replay } = context;
  const { target, secrets, budget } = deployment;
  const { stage = "verify" } = wish;
  const command = verifyCommandOf(replay);
  const began = performance.now();
  const measure = stageMeasure(stage);
  takeProtocols(target.base_url);
  const answers = keepsAnswers ? keepAnswers(folder) : null;
  const result = await runVerify({
    ...{ target, secrets, runBudget: budget, seed, signal, idPrefix: `${run}.${stage}.c` },
    clock: createRunClock(epochUs),
    journal,
    ...wish,
    onLine: (line) => {
      measure.see(line);
      context.line(line);
    },
    onAnswer: answers?.see,
  }).finally(() => answers?.close());
  for (const crash of result.crashes) {
    await folder.writeJson(`crashes/${stage === "verify" ? "" : `${stage}-`}${crash.rule}.json`, crash);
  }
  const durationMs = performance.now() - began;
  const protocols = takeProtocols(target.base_url);
  const { summary, measurements } = measure.end({ durationMs });
  const left = result.leftOver.map((name) =>
    doubt("run/cleaned-up", `${name} may still be there`, "what was made is gone", replay),
  );
  const claims = result.claims.map((claim) => ({ ...claim, replay: claim.replay.replace(VERIFY_COMMAND, command) }));
  const outcome = stageOutcome({
    summary: { ...summary, driver: "verify", protocols: protocols.length === 0 ? undefined : protocols },
    facts: bareFacts(stage),
    claims: [...left, ...claims],
    measurements: measurements.filter(({ name }) => name === "achieved_rate"),
  });
  return { outcome, result };
};

/** The same number as in the rule `shedding-ends`; fewer shed calls may be due to others' traffic. */
const ENOUGH_SHED = 12;

/**
 * Says why a rule that needs an admitted call fails if every call is shed: with fixed caps a single call is always
 * below the cap, so slots are lost. `null` if a call was admitted, or if too little was shed to tell.
 */
const nothingComesBack = (lines: Iterable<Line>, { target }: Deployment, longMs: number): string | null => {
  if (target.shedding !== "fixed" || target.limits?.global_in_flight === undefined) return null;
  let [shed, firstUs, lastUs] = [0, 0, 0];
  for (const line of lines) {
    if (line.type !== "call") continue;
    if (line.outcome.startsWith("2")) return null;
    if (!SHED_OUTCOMES.has(line.outcome)) continue;
    if (shed === 0) firstUs = line.sent_us;
    shed += 1;
    lastUs = line.done_us;
  }
  if (shed < ENOUGH_SHED || lastUs - firstUs < longMs * 1_000) return null;
  return `no call was admitted for ${Math.round((lastUs - firstUs) / 1e6)} s, ${shed} were shed`;
};

export const playVerifyStage = async (
  context: RunContext,
  deployment: Deployment,
  plan: VerifyStage,
): Promise<StageOutcome> => {
  const { kind: _, name, patienceMs = PATIENCE_MS, ...wish } = plan;
  const recording = name === "verify" ? null : await context.record(name);
  const { outcome } = await playRules(context, deployment, {
    ...{ ...wish, stage: name, patienceMs },
    onProgress: (progress) => {
      if (progress.at === "rule") context.events.progress(`${name}: rule ${progress.number} of ${progress.of}`);
    },
  });
  if (recording === null) return outcome;
  // The replay is the whole run, since the rule alone would find a fresh deployment.
  const lost = nothingComesBack(await recording.lines(), deployment, patienceMs);
  const claims = outcome.claims.map((claim) => {
    const isLost = lost !== null && claim.id === "verify/slots-come-back";
    const judged = isLost ? { verdict: "fail" as const, reason: `${claim.expected}: ${lost}`, got: lost } : {};
    return { ...claim, ...judged, id: claim.id.replace(/^verify\/(.*)$/, `$1/${name}`), replay: context.replay };
  });
  return { ...outcome, claims };
};
