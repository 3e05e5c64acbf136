/** `load --script`: plays a user's k6 script, reports k6's counts and judges its thresholds, without history lines. */

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Deployment } from "../deployments/deployment.ts";
import { openDeployment } from "../deployments/embedded.ts";
import type { RunContext } from "../deployments/run-context.ts";
import type { Problem } from "../drivers/driver.ts";
import {
  callsOf,
  crossedIn,
  doubtsOf,
  inWords,
  measurementsOf,
  readAccount,
  readSummary,
  runK6Script,
  type ScriptAccount,
} from "../drivers/k6/user-script.ts";
import { claimOf, type StageSummary } from "../history/run-document.ts";
import { bareFacts, stageOutcome } from "../history/stage-facts.ts";
import { type DeploymentWish, prepareTarget } from "../stages/prepare-target.ts";
import { NOTHING_SPENT } from "../workload/budget.ts";
import { type RunRequest, type RunResult, recordRun } from "./recorded-run.ts";

type ScriptRun = Omit<RunRequest, "targets"> & DeploymentWish & { script: string; args: readonly string[] };

const STAGE = "script";

const notEnforced = ({ target }: Deployment): string[] => {
  const stated = Object.keys(target.budget ?? {}).map((unit) => `budget.${unit}`);
  if (target.stop_when?.error_rate !== undefined) stated.push("stop_when.error_rate");
  return stated.length === 0 ? [] : [`inside a script of your own these are not enforced: ${stated.join(", ")}`];
};

const problemsOf = (exit: readonly Problem[], account: ScriptAccount | null, { target }: Deployment): Problem[] => {
  if (account !== null) {
    const [crossed, isWhole] = [crossedIn(account), exit.length === 0];
    const said = exit.map((one) => (crossed === "" ? one : { ...one, reason: `${one.reason} (crossed: ${crossed})` }));
    return [...said, ...doubtsOf(account, { isWhole, unansweredShare: target.limits?.unanswered_share })];
  }
  if (exit.length > 0) return [...exit];
  const cure = "a k6 that FLOODGATE_K6 names needs what `floodgate dev tools` builds in";
  return [{ verdict: "inconclusive", reason: `k6 left no account of what it did: ${cure}` }];
};

const outcomesOf = (account: ScriptAccount | null): Pick<StageSummary, "calls" | "by_outcome"> => {
  const byStatus = Object.entries(account?.calls.by_status ?? {});
  const count = (belongs: RegExp): number =>
    byStatus.reduce((total, [status, n]) => total + (belongs.test(status) ? n : 0), 0);
  const calls = { sent: count(/^/), answered: count(/^[^045]/), refused: count(/^[45]/), indeterminate: count(/^0$/) };
  const names = byStatus.map(([status, n]) => [status === "0" ? "indeterminate" : status, n]);
  return { calls, by_outcome: Object.fromEntries(names) };
};

const parsed = async <T>(path: string, parse: (text: string) => T | null): Promise<T | null> => {
  const text = await readFile(path, "utf8").catch(() => null);
  return text === null ? null : parse(text);
};

/** k6's exit code shows whether a threshold was crossed; its account whether the script ran as it asks. */
const playScript = async (context: RunContext, deployment: Deployment, request: ScriptRun): Promise<void> => {
  const { supervisor, events, replay } = context;
  const { target, budget } = deployment;
  const binary = await context.tool("k6");
  const folder = await mkdtemp(join(tmpdir(), "floodgate-script-"));
  const forgets = [supervisor.ownFolder("the script's summary", folder)];
  const [file, accountFile] = [join(folder, "summary.json"), join(folder, "account.json")];
  const most = target.permits?.load_max_rps;
  for (const sentence of notEnforced(deployment)) events.warning(sentence);
  events.step(`stage 1 of 1: ${request.script} (k6)`);
  const began = performance.now();
  try {
    const exit = await runK6Script({
      ...{ binary, script: resolve(request.script), account: accountFile, onSaid: events.result },
      args: [
        ...["--new-machine-readable-summary", `--summary-export=${file}`],
        ...(most === undefined ? [] : ["--rps", `${Math.floor(most)}`]),
        ...request.args,
      ],
      environment: {
        FLOODGATE_BASE_URL: target.base_url,
        // The names that Go reads, because the script may do without our extension, which has its own.
        ...(target.transport?.proxy && { HTTP_PROXY: target.transport.proxy, HTTPS_PROXY: target.transport.proxy }),
        ...(request.targetFile && { FLOODGATE_TARGET: resolve(request.targetFile) }),
      },
      onSpawn: ({ pid }) => void (pid !== undefined && forgets.push(supervisor.adopt("k6", pid))),
    });
    const summary = await parsed(file, readSummary);
    const account = await parsed(accountFile, readAccount);
    if (summary !== null) await context.folder.writeJson("k6/script.json", summary.kept);
    const made = account === null ? 0 : callsOf(account).made;
    budget.absorb({ ...NOTHING_SPENT, requests: made }, null);
    const problems = problemsOf(exit, account, deployment);
    const isFailed = problems.some(({ verdict }) => verdict === "fail");
    const reasons = problems.map(({ reason }) => reason);
    const durationMs = Math.round(performance.now() - began);
    const thresholds = claimOf({
      ...{ id: `thresholds/${STAGE}`, stage: STAGE, replay },
      verdict: isFailed ? "fail" : account === null || problems.length > 0 ? "inconclusive" : "pass",
      reason: reasons.join("; ") || inWords(account as ScriptAccount),
      expected:
        "every iteration that is asked for ends, its calls are answered, and every threshold holds over samples",
      got: reasons[0] ?? "as expected",
    });
    await context.addStage(
      stageOutcome({
        summary: { name: STAGE, driver: "k6 (own script)", duration_ms: durationMs, ...outcomesOf(account) },
        facts: bareFacts(STAGE),
        claims: [thresholds],
        measurements: summary === null ? [] : measurementsOf(summary, STAGE, made),
      }),
    );
  } finally {
    for (const forget of forgets.reverse()) forget();
    await rm(folder, { recursive: true, force: true });
  }
};

export const runScript = async (request: ScriptRun): Promise<RunResult> => {
  const { targetFile, owned } = request;
  const intent = { load: true, faults: false, requests: 0 };
  const targets = targetFile === undefined ? [] : [await prepareTarget(targetFile, owned, intent)];
  return recordRun({ ...request, targets, canJudge: () => false }, async (context) =>
    playScript(context, await openDeployment(context), request),
  );
};
