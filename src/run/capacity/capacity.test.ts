/**
 * `capacity` on a server whose capacity is known, over real sockets. A slow host can make the server slower than it is meant
 * to be, never faster; so what is asked is that no more is found than can be, and that the run says what it rests on.
 */
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import { UsageError } from "../../supervision/user-file.ts";
import { QUIET } from "../play-quietly.fixture.ts";
import { type CapacityRun, type CapacityWishes, findCapacity, type PlayedProbe, planCapacity } from "./capacity.ts";

const SLOTS = 4;
const SERVICE_MS = 50;
const MOST_PER_S = (SLOTS * 1000) / SERVICE_MS;

type Rig = { stub: StubApi; folder: string };

/** A deployment of its own for each, whose slots are few. */
const withRig = async (body: (rig: Rig) => Promise<void>): Promise<void> => {
  const stub = await startStubApi();
  const folder = await mkdtemp(join(tmpdir(), "floodgate-capacity-"));
  let running = 0;
  stub.instead = (_, res) => {
    if (running >= SLOTS) {
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

const targetWith = async ({ stub, folder }: Rig, permits = {}): Promise<string> => {
  const path = join(folder, "target.json");
  await writeFile(path, JSON.stringify(stub.target({ limits: { replicas: 1 }, permits })), { mode: 0o600 });
  return path;
};

const wishesOf = async (rig: Rig, more: Partial<CapacityWishes> = {}): Promise<CapacityWishes> => ({
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
