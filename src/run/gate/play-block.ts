/** One block of the gate on one target: played by the open-loop driver, drained, witnessed and judged. */
import type { Deployment } from "../../deployments/deployment.ts";
import type { RunContext } from "../../deployments/run-context.ts";
import { hostDoubts } from "../../drivers/host-notes.ts";
import type { Side } from "../../gate/block-plan.ts";
import type { CallLine } from "../../history/line.ts";
import type { Claim, Protocol } from "../../history/run-document.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { invariantsFor } from "../../invariants/catalogue.ts";
import { inOrder, judgeStage } from "../../invariants/judge-stage.ts";
import { type LevelRoom, playLevel } from "../../stages/play.ts";
import { readTenants, readWitnesses, statedFacts } from "../../stages/witnesses.ts";
import { pause } from "../../supervision/waiting.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import type { Profile } from "../../workload/load-profiles.ts";
import type { Story } from "../../workload/story.ts";

/** Invariants that a few seconds of overload can break. Times are the comparison's business. */
const JUDGES = [
  "first-failing-check-decides",
  "envelope-fits-subcode",
  "tells-when-to-retry",
  "counts-agree",
  "sheds-only-over-the-cap",
  "sheds-above-the-cap",
  "organizations-do-not-share",
  "streams-end-once",
  "streams-cut",
  "stream-vocabularies-differ",
  "slots-are-given-back",
];

export const stageOf = (side: Side): string => `gate.${side}`;

export type GateSide = {
  side: Side;
  deployment: Deployment;
  view: TargetView;
  tenants: StageFacts["tenants"];
  /** Organizations that the story has run into their own caps. */
  noisy: ReadonlySet<string>;
};

export const gateSideOf = async (side: Side, deployment: Deployment, story: Story): Promise<GateSide> => {
  const tenants = await readTenants(deployment.target);
  const view = viewOf(deployment.target);
  const noisy = new Set(story.noisy(view));
  for (const org of noisy) if (tenants[org] !== undefined) tenants[org].noisy = true;
  return { side, deployment, view, tenants, noisy };
};

export type PlayedBlock = {
  lines: CallLine[];
  /** When its first call was due, microseconds of the run. */
  startUs: number;
  facts: StageFacts;
  claims: Claim[];
  protocols: readonly Protocol[];
  /** What the generator could not do, as sentences: then the block shows nothing about the target. */
  problems: string[];
  notes: string[];
};

/** Time to drain where no control plane says when the last call has ended. */
const REST_MS = 200;

export type GateRoom = LevelRoom & Pick<RunContext, "run" | "seed" | "replay">;

/** `name` is new for each block of a run, and part of its calls' ids. */
export const playBlock = async (
  { side, deployment, view, tenants }: GateSide,
  story: string,
  profile: Profile,
  name: string,
  room: GateRoom,
): Promise<PlayedBlock> => {
  const stage = stageOf(side);
  const idRun = `${room.run}.${name}`;
  const job = { stage, idPrefix: `${idRun}.c`, story, seed: room.seed, profile, arrivals: "uniform" as const, view };
  const { lines, problems, notes, host, startUs = 0, protocols = [] } = await playLevel(room, deployment, job);
  await pause(REST_MS);
  const facts: StageFacts = {
    ...statedFacts(stage, deployment),
    started_at_ms: room.epochUs / 1000,
    tenants,
    ...(await readWitnesses(deployment, idRun, room.signal)),
  };
  return {
    // Preparing a session is no call of the block.
    lines: lines.filter(({ route }) => route !== "sdk.sessions"),
    startUs,
    facts,
    claims: judgeStage(invariantsFor(JUDGES), facts, inOrder(lines), room.replay),
    protocols,
    problems: problems.map(({ reason }) => reason),
    notes: [...notes, ...hostDoubts(stage, host)],
  };
};
