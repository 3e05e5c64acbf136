/**
 * The body of `load --script`: a user's own k6 script against a deployment. Its calls are not ours, so there are no history
 * lines; what k6's summary says of them is reported, and crossed thresholds fail the run.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { runK6Script } from "../drivers/k6/own-script.ts";
import { type K6Summary, measurementsOf, readSummary } from "../drivers/k6/script-summary.ts";
import type { Problem } from "../drivers/open-loop/job.ts";
import type { Claim } from "../history/run-document.ts";
import { bareFacts } from "../history/stage-facts.ts";
import { NOTHING_SPENT } from "../workload/lease.ts";
import type { Deployment } from "./deployments/deployment.ts";
import { openDeployment } from "./deployments/open-deployment.ts";
import { type PreparedTarget, prepareTarget } from "./prepare-target.ts";
import { type RunRequest, type RunResult, recordRun } from "./recorded-run.ts";
import type { RunContext } from "./run-context.ts";
import type { StageOutcome } from "./stages/stage-outcome.ts";
import type { DeploymentWish } from "./stages/stages-for.ts";

type ScriptRun = Omit<RunRequest, "targets"> &
  DeploymentWish & {
    script: string;
    /** For k6, passed on unread. */
    args: readonly string[];
  };

const STAGE = "script";

/** What cannot be kept where the calls are not ours is said, not promised. */
const notEnforced = ({ target }: Deployment): string[] => {
  const stated = Object.keys(target.budget ?? {}).map((unit) => `budget.${unit}`);
  if (target.stop_when?.error_rate !== undefined) stated.push("stop_when.error_rate");
  return stated.length === 0 ? [] : [`inside a script of your own these are not enforced: ${stated.join(", ")}`];
};

/** By k6's exit code: its summary does not say which thresholds there are. */
const claimOf = (problems: readonly Problem[], summary: K6Summary | null, replay: string): Claim => {
  const isFailed = problems.some(({ verdict }) => verdict === "fail");
  const isOpen = problems.length > 0 || summary === null;
  const reasons = [...problems.map(({ reason }) => reason), ...(summary === null ? ["k6 wrote no summary"] : [])];
  return {
    id: `thresholds/${STAGE}`,
    stage: STAGE,
    level: "must",
    verdict: isFailed ? "fail" : isOpen ? "inconclusive" : "pass",
    reason: reasons.join("; ") || "k6 ended with code 0: no threshold of the script was crossed",
    expected: "the script ends by itself and every threshold of it holds",
    got: reasons[0] ?? "as expected",
    spec: [],
    evidence: [],
    replay,
  };
};

const outcomeOf = (
  summary: K6Summary | null,
  problems: readonly Problem[],
  durationMs: number,
  replay: string,
): StageOutcome => {
  const sent = summary?.requests ?? 0;
  const failed = summary?.failed ?? 0;
  return {
    summary: {
      name: STAGE,
      driver: "k6 (own script)",
      duration_ms: Math.round(durationMs),
      calls: { sent, answered: sent - failed, refused: failed, indeterminate: 0 },
      // k6's summary has no statuses: what its http_req_failed calls failed stands in one row.
      by_outcome: { "not failed": sent - failed, ...(failed > 0 ? { http_req_failed: failed } : {}) },
    },
    facts: bareFacts(STAGE),
    claims: [claimOf(problems, summary, replay)],
    measurements: summary === null ? [] : measurementsOf(summary, STAGE),
    faults: [],
    notes: [],
  };
};

const playScript = async (context: RunContext, deployment: Deployment, request: ScriptRun): Promise<void> => {
  const { target, lease } = deployment;
  const k6 = await context.tool("k6");
  const folder = await mkdtemp(join(tmpdir(), "floodgate-script-"));
  const forget = context.supervisor.ownFolder("the script's summary", folder);
  const file = join(folder, "summary.json");
  const most = target.permits?.load_max_rps;
  for (const sentence of notEnforced(deployment)) context.events.warning(sentence);
  context.events.step(`stage 1 of 1: ${request.script} (k6)`);
  const began = performance.now();
  let forgetChild: (() => void) | undefined;
  try {
    const problems = await runK6Script({
      binary: k6,
      script: resolve(request.script),
      args: [
        "--new-machine-readable-summary",
        `--summary-export=${file}`,
        ...(most === undefined ? [] : ["--rps", `${Math.floor(most)}`]),
        ...request.args,
      ],
      environment: {
        FLOODGATE_BASE_URL: target.base_url,
        // Go's names: the script may not use our extension, which has its own.
        ...(target.transport?.proxy && { HTTP_PROXY: target.transport.proxy, HTTPS_PROXY: target.transport.proxy }),
        ...(request.targetFile === undefined ? {} : { FLOODGATE_TARGET: resolve(request.targetFile) }),
      },
      onSaid: context.events.result,
      onSpawn: ({ pid }) => {
        if (pid !== undefined) forgetChild = context.supervisor.adopt("k6", pid);
      },
    });
    const text = await readFile(file, "utf8").catch(() => null);
    const summary = text === null ? null : readSummary(text);
    if (summary !== null) {
      await context.folder.writeJson("k6/script.json", summary.kept);
      lease.absorb({ ...NOTHING_SPENT, requests: summary.requests }, null);
    }
    await context.addStage(outcomeOf(summary, problems, performance.now() - began, context.replay));
  } finally {
    forgetChild?.();
    forget();
    await rm(folder, { recursive: true, force: true });
  }
};

export const runScript = async (request: ScriptRun): Promise<RunResult> => {
  const { targetFile, owned } = request;
  const targets: PreparedTarget[] = [];
  // How many requests it sends is known to the script alone.
  if (targetFile !== undefined) {
    targets.push(await prepareTarget(targetFile, owned, { load: true, faults: false, requests: 0 }));
  }
  return recordRun({ ...request, targets, canJudge: () => false }, async (context) => {
    const deployment = await openDeployment(context);
    await playScript(context, deployment, request);
  });
};
