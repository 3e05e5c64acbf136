/**
 * `capacity` on a server whose capacity is known, over real sockets. A slow host can make the server slower than it is meant
 * to be, never faster; so what is asked is that no more is found than can be, and that the run says what it rests on.
 */
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startCommand } from "../../cli/command.fixture.ts";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import { GuardError } from "../../stages/stage-plan.ts";
import { openEffects, readJournal } from "../../supervision/journal.ts";
import { UsageError } from "../../supervision/user-file.ts";
import { waitUntil } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import { QUIET } from "../play-quietly.fixture.ts";
import { type CapacityRun, type CapacityWishes, findCapacity, type PlayedProbe, planCapacity } from "./capacity.ts";

const SLOTS = 4;
const SERVICE_MS = 50;
const MOST_PER_S = (SLOTS * 1000) / SERVICE_MS;

type Rig = { stub: StubApi; folder: string };

/** Where `scale` of a target file writes each number that it sets; one replica runs before. */
const numbersSet = ({ folder }: Pick<Rig, "folder">): string[] =>
  existsSync(join(folder, "set")) ? readFileSync(join(folder, "set"), "utf8").trim().split("\n") : [];
const replicasOf = (rig: Pick<Rig, "folder">): number => Number(numbersSet(rig).at(-1) ?? 1);

/** A deployment of its own for each, whose slots are few. */
const withRig = async (body: (rig: Rig) => Promise<void>): Promise<void> => {
  const stub = await startStubApi();
  const folder = await mkdtemp(join(tmpdir(), "floodgate-capacity-"));
  let running = 0;
  stub.instead = ({ headers }, res) => {
    if ((headers.authorization ?? headers["x-api-key"]) === undefined) {
      res.writeHead(401, { "content-type": "application/json" }).end('{"error":"missing_credential"}');
      return true;
    }
    if (running >= SLOTS * replicasOf({ folder })) {
      res.writeHead(429, { "content-type": "application/json", "retry-after": "1" });
      res.end('{"error":"b2b_overloaded"}');
      return true;
    }
    running += 1;
    setTimeout(() => {
      running -= 1;
      res.setHeader("content-type", "application/json");
      res.end('{"ok":true}');
    }, SERVICE_MS);
    return true;
  };
  try {
    await body({ stub, folder });
  } finally {
    await stub.close();
    await rm(folder, { recursive: true, force: true });
  }
};

const targetWith = async ({ stub, folder }: Rig, permits = {}, more: Partial<Target> = {}): Promise<string> => {
  const path = join(folder, "target.json");
  await writeFile(path, JSON.stringify(stub.target({ limits: { replicas: 1 }, permits, ...more })), { mode: 0o600 });
  return path;
};

const SCALE = { set: ["echo {replicas} >> set"], ready: '[ "$(tail -n 1 set 2>/dev/null || echo 1)" = {replicas} ]' };

const wishesOf = async (rig: Rig, more: Partial<CapacityWishes> = {}): Promise<CapacityWishes> => ({
  ...{ replicas: [], withoutOneReplica: false },
  targetFile: more.targetFile ?? (await targetWith(rig)),
  owned: [],
  story: "catalog-reads",
  arrivals: "uniform",
  slo: "refusals<=1%",
  demandFile: undefined,
  short: true,
  policy: { startPerS: 20, tolerance: 0.2, playS: 12, warmUpS: 0.5, bracketS: 1, narrowS: 2, confirmS: 2 },
  ...more,
});

const runOf = async (rig: Rig, more: Partial<CapacityWishes> = {}): Promise<CapacityRun> => ({
  ...(await wishesOf(rig, more)),
  seed: 1,
  reports: rig.folder,
  out: join(rig.folder, "run"),
  replay: "npx floodgate capacity",
  onProbe: () => undefined,
  // The tests run beside others.
  othersOnIdle: async () => 0,
  events: QUIET,
});

// Most of a search is waiting.
describe.concurrent("capacity", () => {
  test("finds no more than there is, the limit met first, and fails a demand beyond it", () =>
    withRig(async (rig) => {
      const { stub, folder } = rig;
      const demandFile = join(folder, "demand.json");
      await writeFile(demandFile, JSON.stringify({ peak_rps: 4 * MOST_PER_S }));
      const { document, found } = await findCapacity(await runOf(rig, { demandFile }));
      expect(found?.answer.kind).not.toBe("at-least");
      // Above C/S regular arrivals on constant service lose a share at once.
      expect(found?.answer.low).toBeLessThanOrEqual(1.05 * MOST_PER_S);
      const ids = document.claims.map(({ id }) => id);
      expect(ids).toEqual(expect.arrayContaining(["capacity/refusals<=1%", "capacity/errors<=1%", "capacity/demand"]));
      const demand = document.claims.find(({ id }) => id === "capacity/demand");
      if (found?.answer.kind === "found") {
        expect(found.limit).toMatchObject({ owner: "deployment", outcome: "429 b2b_overloaded" });
        expect(demand).toMatchObject({ verdict: "fail", expected: expect.stringContaining("320/s") });
        expect(demand?.reason).toMatch(/Replicas needed: \d+ \(1 now\)/);
        expect(document.exit_code).toBe(1);
      } else expect(document.exit_code).toBe(4);
      const history = readFileSync(join(folder, "run/history.ndjson"), "utf8").trim().split("\n");
      expect(history.length).toBe(stub.asked.length);
      const kept = JSON.parse(readFileSync(join(folder, "run/capacity.json"), "utf8"));
      expect(kept.probes.length).toBeGreaterThan(2);
    }));

  test("a permitted rate is not passed, and is said to be the limit", () =>
    withRig(async (rig) => {
      const targetFile = await targetWith(rig, { load_max_rps: 200 });
      // Nothing is refused: what is permitted is all that bounds it.
      rig.stub.instead = () => false;
      const rates: number[] = [];
      const onProbe = ({ plan }: PlayedProbe): void => void rates.push(plan.ratePerS);
      const { document, found } = await findCapacity({ ...(await runOf(rig, { targetFile })), onProbe });
      expect(Math.max(...rates)).toBeLessThanOrEqual(180.001);
      // On a host that is disturbed all the time the search ends before it is that far.
      if (/load_max_rps/.test(found?.answer.reason ?? "")) expect(found?.answer.low).toBeCloseTo(180);
      expect(found?.answer).toMatchObject({ high: null, reason: expect.stringMatching(/load_max_rps|disturbed/) });
      expect(document.exit_code).toBe(4);
    }));

  test("a machine that other programs fill is said, and nothing is found on it", () =>
    withRig(async (rig) => {
      const othersOnIdle = async (): Promise<number> => 0.9;
      const policy = {
        startPerS: 200,
        tolerance: 0.2,
        playS: 3,
        warmUpS: 0.1,
        bracketS: 0.5,
        narrowS: 0.5,
        confirmS: 0.5,
      };
      const { document } = await findCapacity({ ...(await runOf(rig, { policy })), othersOnIdle });
      expect(document.exit_code).toBe(4);
      const claims = document.claims.filter(({ id }) => id.startsWith("capacity/"));
      expect(claims.map(({ verdict }) => verdict)).toEqual(["inconclusive", "inconclusive"]);
      for (const { reason } of claims) {
        expect(reason).toMatch(/other programs used 90 % of this machine while no call was under way; end them/);
      }
    }));

  test("a plan sends nothing", () =>
    withRig(async (rig) => {
      const plan = await planCapacity(
        await wishesOf(rig, { targetFile: await targetWith(rig, { load_max_rps: 100 }) }),
      );
      expect(plan).toMatchObject({ max_per_s: 90, rates: [20, 40, 80, 90], lacks: [], refused_by_guard: [] });
      // 34 s of probes of half a second or more, each between two looks of a quarter of a second.
      expect(plan.seconds_at_most).toBe(68);
      expect(rig.stub.asked).toEqual([]);
    }));

  test.each<[Partial<CapacityWishes>, RegExp]>([
    [{ slo: "refusal<=1%" }, /objective "refusal<=1%": expected/],
    [{ slo: undefined }, /--slo/],
    [{ story: "nothing" }, /there is no scenario "nothing"; expected one of smoke/],
    [{ demandFile: "/nowhere/demand.json" }, /--demand \/nowhere\/demand.json/],
  ])("%j is a user's to mend", (more, message) =>
    withRig(async (rig) => {
      const wishes = await wishesOf(rig, more);
      await expect(planCapacity(wishes)).rejects.toThrow(message);
      await expect(planCapacity(wishes)).rejects.toThrow(UsageError);
    }),
  );
});

describe.concurrent("replicas", () => {
  const scaled = (rig: Rig, scale = SCALE): Promise<string> => targetWith(rig, { chaos: true }, { scale });
  const openFaults = ({ folder }: Rig) =>
    openEffects(readJournal(join(folder, "run/journal.ndjson")).entries).filter(({ kind }) => kind === "fault");

  test("each number is measured in a stage of its own, compared, and the number before is set again", () =>
    withRig(async (rig) => {
      const demandFile = join(rig.folder, "demand.json");
      await writeFile(demandFile, JSON.stringify({ peak_rps: 20 * MOST_PER_S }));
      const wishes = { targetFile: await scaled(rig), replicas: [1, 2], demandFile };
      const { document, found, lines } = await findCapacity(await runOf(rig, wishes));
      expect(found).toBeNull();
      expect(numbersSet(rig)).toEqual(["1", "2", "1"]);
      expect(openFaults(rig)).toEqual([]);
      expect(document.stages.map(({ name }) => name)).toEqual(["capacity-of-1", "capacity-of-2"]);
      const { replicas } = JSON.parse(readFileSync(join(rig.folder, "run/capacity.json"), "utf8"));
      for (const { replicas: count, answer } of replicas) expect(answer.low).toBeLessThan(1.05 * count * MOST_PER_S);
      const claims = new Map(document.claims.map((claim) => [claim.id, claim]));
      expect(claims.get("capacity/refusals<=1%/capacity-of-2")).toMatchObject({ level: "info" });
      expect(claims.get("capacity/demand")?.verdict).not.toBe("pass");
      const [one, two] = replicas;
      if (one.answer.kind !== "found" || two.answer.kind !== "found") return;
      expect(two.answer.ratePerS).toBeGreaterThan(1.3 * one.answer.ratePerS);
      expect(claims.get("capacity/demand")?.verdict).toBe("fail");
      expect(lines.join("\n")).toMatch(/2 replicas carry/);
    }));

  test("a number that something else changed during the search is said to be unknown", () =>
    withRig(async (rig) => {
      const ready = "if [ {replicas} = 1 ]; then exit 0; fi; [ ! -e asked ] && touch asked";
      const policy = { startPerS: 20, tolerance: 0.2, playS: 2, warmUpS: 0.2, bracketS: 0.5, narrowS: 1, confirmS: 1 };
      const wishes = { targetFile: await scaled(rig, { ...SCALE, ready }), replicas: [2], policy };
      const { document } = await findCapacity(await runOf(rig, wishes));
      const claims = document.claims.filter(({ id }) => id.startsWith("capacity/"));
      expect(new Set(claims.map(({ verdict }) => verdict))).toEqual(new Set(["inconclusive"]));
      expect(document.exit_code).toBe(4);
      expect(document.measurements.map(({ name }) => name)).not.toContain("capacity_rps");
      expect(numbersSet(rig)).toEqual(["2", "1"]);
    }));

  test("a number that cannot be set leaves its claims open, sends nothing, and ends the series", () =>
    withRig(async (rig) => {
      const set = ["[ {replicas} = 3 ] && exit 1; echo {replicas} >> set"];
      const wishes = { targetFile: await scaled(rig, { ...SCALE, set }), replicas: [3, 2] };
      const { document } = await findCapacity(await runOf(rig, wishes));
      expect(document.claims.find(({ id }) => id === "capacity/replicas")?.verdict).toBe("inconclusive");
      expect(document.exit_code).toBe(4);
      expect(document.stages).toMatchObject([{ name: "capacity-of-3", calls: { sent: 0 } }]);
      expect(numbersSet(rig)).toEqual(["1"]);
    }));

  test("kill -9 in the middle of a search: the watchdog sets the number again", () =>
    withRig(async (rig) => {
      const out = join(rig.folder, "run");
      const words = ["--scenario", "catalog-reads", "--slo", "refusals<=1%", "--replicas", "2", "--out", out];
      const command = startCommand(["capacity", "--target", await scaled(rig), ...words]);
      await waitUntil(async () => rig.stub.asked.length > 0, { forMs: 60_000, pollMs: 20 });
      expect(numbersSet(rig)).toEqual(["2"]);
      command.child.kill("SIGKILL");
      await waitUntil(async () => numbersSet(rig).length > 1, { forMs: 30_000, pollMs: 20 });
      expect(numbersSet(rig)).toEqual(["2", "1"]);
      await waitUntil(async () => openFaults(rig).length === 0, { forMs: 10_000, pollMs: 20 });
      expect(openFaults(rig)).toEqual([]);
    }));

  test("without a target file the reference platform gets replicas behind its load balancer", () =>
    withRig(async (rig) => {
      const policy = { startPerS: 20, tolerance: 0.5, playS: 1, warmUpS: 0.2, bracketS: 0.5, narrowS: 1, confirmS: 1 };
      const request = await runOf(rig, { replicas: [2], policy });
      const { document } = await findCapacity({ ...request, targetFile: undefined });
      expect(document.target.embedded).toBe(true);
      expect(document.stages).toMatchObject([{ name: "capacity-of-2" }]);
      expect(document.stages[0]?.calls.answered).toBeGreaterThan(0);
      expect(document.claims.find(({ id }) => id === "run/cleaned-up")).toBeUndefined();
    }));

  test("a plan lists the commands, and the guard wants permits.chaos", () =>
    withRig(async (rig) => {
      const allowed = await wishesOf(rig, { targetFile: await scaled(rig), replicas: [2] });
      const commands = ["echo 2 >> set", SCALE.ready.replace("{replicas}", "2")];
      expect(await planCapacity(allowed)).toMatchObject({ replicas: [2], commands, refused_by_guard: [] });
      const targetFile = await targetWith(rig, { writes: true }, { scale: SCALE });
      const refused = { ...(await runOf(rig, { targetFile })), replicas: [2] };
      expect((await planCapacity(refused)).refused_by_guard).toHaveLength(1);
      await expect(findCapacity(refused)).rejects.toThrow(GuardError);
      expect(numbersSet(rig)).toEqual([]);
    }));

  test.each<[number[], number | undefined, number[]]>([
    [[], 3, [2, 3]],
    [[1, 2], 3, [1, 2]],
    [[4], 3, [4, 3]],
  ])("--replicas %j without one, where there are %s: %j is measured", (replicas, before, expected) =>
    withRig(async (rig) => {
      const limits = { replicas: before };
      const targetFile = await targetWith(rig, { chaos: true }, { scale: SCALE, limits });
      const wishes = await wishesOf(rig, { targetFile, replicas, withoutOneReplica: true });
      expect((await planCapacity(wishes)).replicas).toEqual(expected);
    }),
  );

  test.each<[string, Partial<Target>, RegExp]>([
    ["the number is not known", { limits: {} }, /expected limits.replicas/],
    ["of one replica none is left", { limits: { replicas: 1 } }, /2 or more; got 1/],
  ])("--without-one-replica where %s", (_, more, expected) =>
    withRig(async (rig) => {
      const targetFile = await targetWith(rig, { chaos: true }, { scale: SCALE, ...more });
      const wishes = await wishesOf(rig, { targetFile, withoutOneReplica: true });
      await expect(planCapacity(wishes)).rejects.toThrow(expected);
    }),
  );

  test("a target file without scale lacks it", () =>
    withRig(async (rig) => {
      const wishes = await runOf(rig, { targetFile: await targetWith(rig, { chaos: true }), replicas: [2] });
      expect((await planCapacity(wishes)).lacks.join()).toContain("`scale`");
      await expect(findCapacity(wishes)).rejects.toThrow(UsageError);
    }));
});
