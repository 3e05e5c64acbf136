/** A fault on a link beside a running load: the load's own lines show what is steady and what has recovered. */
import { makeFault } from "../../chaos/catalogue.ts";
import { runExperiment } from "../../chaos/experiment.ts";
import { httpProbe } from "../../chaos/link-probe.ts";
import { linkSteps, undoOf } from "../../chaos/link-steps.ts";
import type { Problem } from "../../drivers/open-loop/job.ts";
import type { FaultLine } from "../../history/line.ts";
import type { FaultRecord } from "../../history/run-document.ts";
import { pause } from "../../supervision/waiting.ts";
import type { DisturbanceContext, Disturbed, LinkFault } from "./disturbance.ts";

export const RECOVERY_DEADLINE_MS = 3_000;
/** Load goes on this much longer than the deadline of recovery, so that "stays recovered" can be seen. */
const AFTER_MS = 1_500;
/** How much longer than its budget a caller of the link would wait: silence beyond it is the fault's. */
const PROBE_OVER_BUDGET_MS = 500;

/** Returns when the load has run long enough after the heal. */
export const breakLink = async (disturbance: LinkFault, beside: DisturbanceContext): Promise<Disturbed> => {
  const { context, deployment, stage, recent, onLine } = beside;
  const { faults, target } = deployment;
  const link = faults?.links[disturbance.link];
  if (faults === null || link === undefined) throw new Error(`${stage} needs a proxy on the link ${disturbance.link}`);
  const { limits } = target;
  const budgetMs =
    (disturbance.link === "limiter" ? limits?.limiter_budget_ms : limits?.key_service_budget_ms) ?? 1_000;
  const broken = {
    toxiproxy: faults.toxiproxy,
    proxy: link.proxy,
    fault: makeFault(disturbance.fault, { budgetMs }),
    probe: httpProbe(link.listen, "/health", budgetMs + PROBE_OVER_BUDGET_MS),
    mayReset: faults.mayReset,
    ...(faults.restart === undefined ? {} : { restart: faults.restart }),
  };
  let healedUs = Number.POSITIVE_INFINITY;
  const beganUs = context.nowUs();
  const { outcome } = await runExperiment(
    {
      ...{ stage, experiment: disturbance.name, link: disturbance.link, fault: disturbance.fault },
      stream: broken.fault.stream,
      undo: undoOf(broken),
      steps: {
        ...linkSteps(broken),
        isSteady: async () => recent.allAnswered(beganUs, 10),
        hasRecovered: async () => recent.allAnswered(healedUs, 5),
      },
      ...{ steadyMs: 10_000, injectMs: 5_000, effectMs: 5_000, holdMs: disturbance.holdMs },
      ...{ healMs: 15_000, recoveryMs: RECOVERY_DEADLINE_MS },
    },
    {
      nowUs: context.nowUs,
      journal: context.journal,
      signal: context.signal,
      keepUndo: (name, undo) => context.supervisor.registerUndo(name, undo),
      onLine: (line) => {
        if (line.phase === "healed") healedUs = line.at_us;
        onLine(line);
      },
    },
  );
  const leftMs = (healedUs - context.nowUs()) / 1000 + RECOVERY_DEADLINE_MS + AFTER_MS;
  if (Number.isFinite(leftMs) && leftMs > 0) await pause(leftMs, context.signal);

  const problems: Problem[] = [];
  const doubt = (reason: string): void => void problems.push({ verdict: "inconclusive", reason });
  if (!outcome.steady) doubt("no steady state before the fault");
  else if (!outcome.tookEffect) doubt("the fault took no effect");
  if (!outcome.healed) doubt("the fault could not be healed");
  if (outcome.recovered === false) problems.push({ verdict: "fail", reason: "no recovery by the deadline" });
  return { problems, notes: outcome.notes };
};

/** The faults of a stage as the run document reports them. */
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
