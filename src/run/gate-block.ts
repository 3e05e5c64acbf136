/**
 * One block of the gate on one target: the open-loop driver plays it from a process of its own, then the target is drained, its
 * witnesses are read and the invariants that fit are folded over it.
 */
import type { ChildProcess } from "node:child_process";
import { startOpenLoop } from "../drivers/open-loop/open-loop.ts";
import type { Side } from "../gate/block-plan.ts";
import type { CallLine } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { inOrder, judgeStage } from "../invariants/judge-stage.ts";
import { pause } from "../supervision/waiting.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { viewOf } from "../target/view-of-target.ts";
import type { Lease, Spent } from "../workload/lease.ts";
import type { Profile } from "../workload/load-profiles.ts";
import type { Story } from "../workload/story.ts";
import type { TargetView } from "../workload/target-view.ts";
import { readTenants, readWitnesses } from "./witnesses.ts";

/** Those that a few seconds of overload can break. *Shoulds* about time are the comparison's business. */
const JUDGES = new Set([
  ...["first-failing-check-decides", "envelope-fits-subcode", "tells-when-to-retry", "counts-agree"],
  ...["sheds-only-over-the-cap", "sheds-above-the-cap", "organizations-do-not-share"],
  ...["streams-end-once", "stream-vocabularies-differ", "slots-are-given-back"],
]);

export const stageOf = (side: Side): string => `gate.${side}`;

export type GateTarget = {
  side: Side;
  target: Target;
  secrets: Secrets;
  view: TargetView;
  tenants: StageFacts["tenants"];
  noisy: ReadonlySet<string>;
};

export const gateTargetOf = async (side: Side, target: Target, secrets: Secrets, story: Story): Promise<GateTarget> => {
  const tenants = await readTenants(target);
  const view = viewOf(target);
  const noisy = new Set(story.noisy(view));
  for (const org of noisy) if (tenants[org] !== undefined) tenants[org].noisy = true;
  return { side, target, secrets, view, tenants, noisy };
};

/** What blocks have in common. */
export type BlockRoom = {
  /** Hex digits that are new in each run. */
  run: string;
  story: string;
  seed: number;
  epochUs: number;
  nowUs(): number;
  replay: string;
  signal: AbortSignal;
  /** What may still be spent on a side, asked for before each block; afterwards what it spent is handed back. */
  lease?(side: Side): Lease;
  spent?(side: Side, spent: Spent, stopped: string | null): void;
  /** Supervision of the driver's process; returns how to forget it. */
  adopt(name: string, child: ChildProcess): () => void;
};

export type PlayedBlock = {
  side: Side;
  lines: CallLine[];
  /** When it began, microseconds of the run. */
  startUs: number;
  facts: StageFacts;
  claims: Claim[];
  /** Why it shows nothing about the target, as sentences: the generator could not do it. */
  problems: string[];
};

/** From `go` to the first call: the process has to have heard of it. */
const LEAD_US = 100_000;
const REST_MS = 150;

/** `name` is new for each block of a run, and part of its calls' ids. */
export const playBlock = async (
  { side, target, secrets, view, tenants }: GateTarget,
  profile: Profile,
  name: string,
  room: BlockRoom,
): Promise<PlayedBlock> => {
  const stage = stageOf(side);
  const idRun = `${room.run}.${name}`;
  const lines: CallLine[] = [];
  const lease = room.lease?.(side);
  let forget = (): void => undefined;
  const loop = startOpenLoop({
    job: {
      ...{ stage, idPrefix: `${idRun}.c`, story: room.story, seed: room.seed, profile, arrivals: "uniform" },
      ...{ target, view, epochUs: room.epochUs, ...(lease === undefined ? {} : { lease }) },
    },
    secrets,
    onLine: (line) => void lines.push(line),
    onSpawn: (child) => {
      forget = room.adopt(`the driver of ${name}`, child);
    },
  });
  const stop = (): void => loop.stop();
  room.signal.addEventListener("abort", stop, { once: true });
  let startUs = 0;
  try {
    await loop.ready.then(
      () => {
        startUs = Math.round(room.nowUs() + LEAD_US);
        loop.go(startUs);
      },
      // `result` says why it was not ready.
      () => undefined,
    );
    const { problems, spent, stopped } = await loop.result;
    room.spent?.(side, spent, stopped);
    await pause(REST_MS);
    const facts: StageFacts = {
      ...{ stage, started_at_ms: room.epochUs / 1000, limits: target.limits ?? {}, tenants, faults: false },
      shedding: target.shedding ?? "unknown",
      ...(await readWitnesses(target, idRun)),
    };
    const judges = INVARIANTS.filter(({ id }) => JUDGES.has(id));
    const claims = judgeStage(judges, facts, inOrder(lines), room.replay);
    return { side, lines, startUs, facts, claims, problems: problems.map(({ reason }) => reason) };
  } finally {
    room.signal.removeEventListener("abort", stop);
    forget();
  }
};
