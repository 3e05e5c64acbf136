import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { claimOf } from "../history/claim.fixture.ts";
import { bareFacts, type Claim } from "../history/run-document.ts";
import { invariantsFor } from "../invariants/catalogue.ts";
import { judgeStage } from "../invariants/invariant.ts";
import { call, many } from "../invariants/specimens/specimen.fixture.ts";
import { growthOf } from "../stages/stage-claims.ts";
import { QUIET } from "./play-quietly.fixture.ts";
import { recordRun } from "./recorded-run.ts";
import { commitOf, ifReached, REACHED_API } from "./run-reports.ts";

test("the commit under test is read without writing to the user's repository", async () => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-commit-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const git = (...args: string[]) => execFileSync("git", ["-C", folder, ...args], { encoding: "utf8" }).trim();
  const file = join(folder, "file");
  git("init", "--quiet");
  writeFileSync(file, "as committed");
  git("add", "file");
  git("-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "--quiet", "--message", "one");
  // The index holds another time of this file, and `git status` alone would correct it there.
  utimesSync(file, 1, 1);
  const index = readFileSync(join(folder, ".git/index"));
  const commit = git("rev-parse", "--short=12", "HEAD");
  expect(await commitOf(folder)).toBe(commit);
  expect(readFileSync(join(folder, ".git/index"))).toEqual(index);
  writeFileSync(file, "otherwise");
  expect(await commitOf(folder)).toBe(`${commit}+`);
});

test.each([86_400_000, -3_600_000])("a wall clock that is set by %d ms meanwhile changes no duration", async (byMs) => {
  const reports = mkdtempSync(join(tmpdir(), "floodgate-clock-"));
  onTestFinished(() => {
    vi.useRealTimers();
    rmSync(reports, { recursive: true, force: true });
  });
  vi.useFakeTimers({ toFake: ["Date"] });
  const request = { profile: "test", seed: 1, reports, replay: "-", targets: [], events: QUIET };
  const { document } = await recordRun(request, async () => void vi.setSystemTime(Date.now() + byMs));
  expect(document.duration_ms).toBeGreaterThanOrEqual(0);
  expect(document.duration_ms).toBeLessThan(600_000);
});

const LEAKED = { name: "api.log", text: `got svc_sess_live_${"a1".repeat(20)}\n` };
const STUCK = { in_flight: 1, in_flight_by_org: {} };
const stranger = claimOf(REACHED_API, { stage: "run", verdict: "inconclusive" });

test.each([
  ["every call is answered 401", "401", []],
  ["a gateway alone answers", "edge 403", []],
  ["another server serves every call", "200", [stranger]],
] as const)("where %s, what answers show is open, and what is seen without them still fails", (_, outcome, said) => {
  const lines = many(40, (at) => call(`${at}`, { atMs: at, outcome, envelope: "other" }));
  const facts = { ...bareFacts("s"), exclusive: true, drained: true, gauges: [STUCK], texts: [LEAKED] };
  const judges = invariantsFor(["secrets-stay-secret", "slots-are-given-back", "first-failing-check-decides"]);
  const readings = Array.from({ length: 200 }, (_, at) => ({ atMs: at * 5_000, value: 2e8 + at * 1e6 }));
  const growth = growthOf(new Map([["heap", readings]]), "again", true).claims;
  const slo = claimOf("slo/catalog/s", { stage: "s", verdict: "fail" });
  const claims: Claim[] = [...said, ...judgeStage(judges, facts, lines, "again"), ...growth, slo];
  const failing = (of: readonly Claim[]) => of.filter(({ verdict }) => verdict === "fail").map(({ id }) => id);
  const alone = ["slots-are-given-back/s", "secrets-stay-secret/s", "growth/heap"];
  expect(failing(claims)).toEqual(expect.arrayContaining([...alone, "slo/catalog/s"]));
  const judged = ifReached(claims, [{ by_outcome: { [outcome]: 40 } }]).claims;
  expect(failing(judged)).toEqual(alone);
  // One answer of the API is enough for all of them.
  expect(
    failing(ifReached(claims.slice(said.length), [{ by_outcome: { [outcome]: 40, "200": 1, "403": 1 } }]).claims),
  ).toEqual(failing(claims));
});
