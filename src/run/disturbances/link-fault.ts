/** A fault experiment beside a running load: the load's own lines tell what is steady and what has recovered. */
import { makeFault } from "../../chaos/catalogue.ts";
import { type Outcome, runExperiment } from "../../chaos/experiment.ts";
import { httpProbe } from "../../chaos/link-probe.ts";
import { linkSteps, undoOf } from "../../chaos/link-steps.ts";
import type { CallLine, FaultLine, Line } from "../../history/line.ts";
import type { FaultRecord } from "../../history/run-document.ts";
import { pause } from "../../supervision/waiting.ts";
import type { StageContext } from "../stage.ts";
import type { StageExperiment } from "../suites/smoke.ts";

export const RECOVERY_DEADLINE_MS = 3_000;
/** Load goes on this much longer than the deadline of recovery, so that "stays recovered" can be seen. */
const AFTER_MS = 1_500;
/** How much longer than its budget a caller of the link would wait: silence beyond it is the fault's. */
const PROBE_OVER_BUDGET_MS = 500;

/** Whether the last `wanted` calls sent since a moment were all answered. */
const allAnswered = (lines: readonly Line[], sinceUs: number, wanted: number): boolean => {
  const calls = lines.filter((line): line is CallLine => line.type === "call" && line.sent_us >= sinceUs);
  return calls.length >= wanted && calls.slice(-wanted).every(({ outcome }) => outcome.startsWith("2"));
};

export type ExperimentSeen = { outcome: Outcome; lines: FaultLine[] };

/** Returns when the load has run long enough after the heal. `lines` is what the driver has written so far, and grows. */
export const experimentBeside = async (
  context: StageContext,
  stage: string,
  experiment: StageExperiment,
  lines: Line[],
): Promise<ExperimentSeen> => {
  const { toxiproxy, target } = context;
  if (toxiproxy === null) throw new Error(`${stage} needs a toxiproxy on the link to the ${experiment.link}`);
  const { limits } = target;
  const budgetMs = (experiment.link === "limiter" ? limits?.limiter_budget_ms : limits?.key_service_budget_ms) ?? 1_000;
  const broken = {
    toxiproxy: toxiproxy.server.toxiproxy,
    proxy: target.toxiproxy?.proxies[experiment.link] ?? experiment.link,
    fault: makeFault(experiment.fault, { budgetMs }),
    probe: httpProbe(toxiproxy.links[experiment.link], "/health", budgetMs + PROBE_OVER_BUDGET_MS),
    mayReset: true,
    restart: () => toxiproxy.server.restart(),
  };
  let healedUs = Number.POSITIVE_INFINITY;
  const beganUs = context.nowUs();
  const seen = await runExperiment(
    {
      stage,
      experiment: experiment.name,
      link: experiment.link,
      fault: experiment.fault,
      stream: broken.fault.stream,
      undo: undoOf(broken),
      steps: {
        ...linkSteps(broken),
        isSteady: async () => allAnswered(lines, beganUs, 10),
        hasRecovered: async () => allAnswered(lines, healedUs, 5),
      },
      steadyMs: 10_000,
      injectMs: 5_000,
      effectMs: 5_000,
      holdMs: experiment.holdMs,
      healMs: 15_000,
      recoveryMs: RECOVERY_DEADLINE_MS,
    },
    {
      nowUs: context.nowUs,
      journal: context.journal,
      signal: context.signal,
      keepUndo: (name, undo) => context.supervisor.registerUndo(name, undo),
      onLine: (line) => {
        if (line.phase === "healed") healedUs = line.at_us;
        lines.push(line);
      },
    },
  );
  const leftMs = (healedUs - context.nowUs()) / 1000 + RECOVERY_DEADLINE_MS + AFTER_MS;
  if (Number.isFinite(leftMs) && leftMs > 0) await pause(leftMs, context.signal);
  return seen;
};

/** The faults of a stage as the run document tells them. */
export const faultRecords = (lines: readonly FaultLine[]): FaultRecord[] => {
  const records: FaultRecord[] = [];
  for (const line of lines) {
    const { experiment, link, fault, stream } = line;
    if (line.phase === "injecting") {
      const started_ms = line.at_us / 1000;
      records.push({ experiment, link, fault, stream, started_ms, ended_ms: started_ms, took_effect: false });
    }
    const last = records.at(-1);
    if (last === undefined) continue;
    if (line.phase === "injected") last.took_effect = line.took_effect === true;
    last.ended_ms = line.at_us / 1000;
  }
  return records;
};
