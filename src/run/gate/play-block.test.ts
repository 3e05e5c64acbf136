/** One block on a real deployment over real sockets, healthy and spoilt. */
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { describe, expect, test } from "vitest";
import { measureBlock } from "../../gate/block.ts";
import { type BlockLoad, partsOfBlock, profileOfBlock } from "../../gate/block-plan.ts";
import { mutantNamed } from "../../mutants/catalogue.ts";
import { HEALTHY, type Parts } from "../../platform/parts.ts";
import { wallUs } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import { startSmallDeployment } from "../../trials/stage-bench.ts";
import { paid } from "../../trials/stages/calls.ts";
import { STORIES } from "../../workload/catalogue.ts";
import type { Story } from "../../workload/story.ts";
import { bareDeployment } from "./bare-deployment.fixture.ts";
import { type GateRoom, type GateSide, gateSideOf, type PlayedBlock, playBlock } from "./run-gate.ts";

const SERVICE_MS = 100;
/** Longer than a machine stalls: every whole answer is a good one. */
const STALLED_MS = 60_000;
const LOAD: BlockLoad = { lowPerS: 56, overloadPerS: 160, settleS: 0.3, lowS: 1, overloadS: 0.8 };

const played = async (
  name: string,
  parts: Parts,
  more: Partial<Target> = {},
): Promise<PlayedBlock & Pick<GateSide, "noisy" | "seen">> => {
  const limits = { global_in_flight: 8, org_in_flight: 4, service_ms: SERVICE_MS };
  const deployment = await startSmallDeployment(name, parts, { tenants: paid(6), limits, tokens: 5 });
  try {
    const target = { ...(deployment.targets[0] as Target), ...more };
    const story = STORIES.get("chat-beside-noisy") as Story;
    const bare = bareDeployment(target, { reference: true, exclusive: true });
    const side = await gateSideOf("head", bare, story);
    const room: GateRoom = {
      run: "abc123",
      seed: 1,
      epochUs: wallUs(),
      replay: "again",
      signal: new AbortController().signal,
      supervisor: { adopt: () => () => undefined } as unknown as GateRoom["supervisor"],
      line: () => undefined,
    };
    return { ...side, ...(await playBlock(side, story.name, profileOfBlock(LOAD), "p01.head", room)) };
  } finally {
    await deployment.close();
  }
};

describe("a block on a deployment", { concurrent: true }, () => {
  test("is measured, drained and judged by the invariants that fit", async () => {
    const { noisy, seen, ...block } = await played("gate-healthy", HEALTHY);
    // Whether this machine was busy meanwhile decides nothing here.
    expect(block.problems.filter((reason) => !/one call in a hundred|^other programs used/.test(reason))).toEqual([]);
    expect(seen.lastFacts?.drained).toBe(true);
    expect(block.claims.filter(({ verdict }) => verdict === "fail")).toEqual([]);
    expect(block.claims.filter(({ verdict }) => verdict === "pass").map(({ id }) => id)).toEqual(
      expect.arrayContaining(["streams-end-once/gate.head", "slots-are-given-back/gate.head"]),
    );
    expect([...noisy]).toHaveLength(1);
    const values = measureBlock(block.lines, { ...partsOfBlock(LOAD, block.startUs), sloMs: STALLED_MS, noisy });
    expect(values.latency_ms_p50).toBeGreaterThanOrEqual(SERVICE_MS);
    expect(values.error_share).toBe(0);
    expect(values.goodput).toBeGreaterThan(0);
    for (const value of [values.ttfe_ms_p50, values.event_gap_ms_p50]) expect(value).toBeGreaterThan(0);
    expect(values.event_gap_ms_p50).toBeLessThan(values.latency_ms_p50 as number);
  });

  test("fails the invariant that a spoilt one breaks, and says that its control plane is away", async () => {
    const control = { api: ["http://127.0.0.1:9"] };
    const block = await played("gate-spoilt", mutantNamed("drops-the-last-event").spoil(HEALTHY), { control });
    expect([...block.seen.unread].map((note) => note.replace(/ could not be read: .*/s, ""))).toEqual([
      "gate.head: counts of control.api",
      "gate.head: gauges of control.api",
    ]);
    const broken = block.claims.filter(({ level, verdict }) => level === "must" && verdict === "fail");
    expect(broken.map(({ id }) => id)).toEqual(["streams-end-once/gate.head", "streams-cut/gate.head"]);
  });
});

test.skipIf(process.platform !== "linux")(
  "a block beside other programs that take the machine is not compared",
  async () => {
    const burning = "exec node -e 'const until = Date.now() + 60_000; while (Date.now() < until);' >/dev/null";
    using atEnd = new DisposableStack();
    for (let core = 0; core < availableParallelism(); core += 1) {
      // A shell that ends at once leaves it to nobody.
      const shell = spawn("sh", ["-c", `${burning} & echo $!`], { stdio: ["ignore", "pipe", "ignore"] });
      const pid = Number((await shell.stdout.toArray()).join(""));
      atEnd.defer(() => process.kill(pid, "SIGKILL"));
    }
    const block = await played("gate-beside-others", HEALTHY);
    expect(block.problems.filter((reason) => /^other programs used [\d.]+ of \d+ cores$/.test(reason))).toHaveLength(1);
    expect(block.claims.filter(({ verdict }) => verdict === "fail")).toEqual([]);
  },
);
