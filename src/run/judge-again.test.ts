import { execFileSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import type { LedgerLine } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { measureStage } from "../history/measure-stage.fixture.ts";
import { bareFacts, type Claim, decidedByBoth, type StageFacts, secondOf } from "../history/run-document.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { judgeStage } from "../invariants/invariant.ts";
import { createIsolation } from "../shedding/isolation.ts";
import { openRunFolder } from "../supervision/run-folder.ts";
import { UsageError } from "../supervision/user-file.ts";
import { judgeAgain, judgeSecrets } from "./read-run.ts";
import { createRecorder } from "./recorder.ts";
import { commitOf, composeDocument, writeReports } from "./run-reports.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

const call = (n: number, outcome: string): CallLine => ({
  type: "call",
  id: `r.s.c-${n}`,
  stage: "s",
  driver: "open-loop",
  org: "-",
  route: "design.styles",
  intended_us: n * 1_000,
  started_us: n * 1_000,
  connect_us: 0,
  sent_us: n * 1_000,
  first_us: n * 1_000 + 300,
  done_us: n * 1_000 + 400,
  outcome,
  attempt: 0,
  clock_error_us: 50,
  envelope: "none",
  facts: { credential: "none", origin: "none", body: "none" },
});

const JUDGES = ["first-failing-check-decides", "envelope-fits-subcode", "recovers"];

const documentOf = (recorder: ReturnType<typeof createRecorder>, claims: Claim[]) => ({
  id: "r",
  profile: "smoke",
  seed: 1,
  commit: null,
  started: new Date(0),
  finished: new Date(1_000),
  deployments: [],
  stages: recorder.stages,
  outcomesSeen: recorder.outcomesSeen(),
  standIns: [],
  measurements: [],
  calibration: [],
  claims,
  required: [],
  exitCode: null,
  tools: { k6: null, toxiproxy: null },
});

/** A run folder as a run leaves it, from lines that a judge has something to say about. */
const recordRun = async (
  outcomes: string[],
  {
    as = (claim) => [claim],
    faults = false,
    ledger = [],
    log = "",
  }: { as?: (claim: Claim) => Claim[]; faults?: boolean; ledger?: LedgerLine[]; log?: string } = {},
): Promise<string> => {
  const path = mkdtempSync(join(tmpdir(), "floodgate-again-"));
  folders.push(path);
  const folder = openRunFolder(path);
  const lines = outcomes.map((outcome, n) => call(n, outcome));
  const facts: StageFacts = { ...bareFacts("s"), ledger, faults };
  const judges = INVARIANTS.filter(({ id }) => JUDGES.includes(id));
  const { summary, measurements } = measureStage(lines, { stage: "s" });
  const claims = judgeStage(judges, facts, lines, "npx floodgate run smoke --seed 1").flatMap(as);
  const outcome = { summary, facts, claims, measurements, faults: [], notes: [] };
  const recorder = createRecorder(folder);
  for (const line of lines) recorder.line(line);
  await recorder.addStage(outcome);
  await recorder.close();
  await folder.writeText("logs/fixtures-reset.log", "");
  // Appended here, it passes no redaction.
  appendFileSync(join(path, "logs/fixtures-reset.log"), log);
  const all = [...claims, ...judgeSecrets(path, "npx floodgate run smoke --seed 1")];
  await writeReports(folder, composeDocument(documentOf(recorder, all)), recorder.series());
  return path;
};

test("what quiet organizations lose is judged again from its two stages, as it was and by lines that were changed", async () => {
  const path = mkdtempSync(join(tmpdir(), "floodgate-again-"));
  folders.push(path);
  const folder = openRunFolder(path);
  const recorder = createRecorder(folder);
  const isolation = createIsolation();
  const tenants = { org_n: { tier: "Pro", noisy: true } } as const;
  const limits = { org_in_flight: 8, global_in_flight: 24 };
  for (const [at, stage] of ["noisy-neighbour", "noisy-neighbour-alone"].entries()) {
    const lines = Array.from({ length: 400 }, (_, n): CallLine => {
      const [org, outcome] = n % 4 === 0 ? ["org_n", "429 org_overloaded"] : ["org_q", "200"];
      const line = call(n, outcome as string);
      return { ...line, org: org as string, stage, id: `r.${stage}.c-${n}` };
    });
    const facts: StageFacts = { ...bareFacts(stage), exclusive: true, tenants, limits };
    isolation.see(at === 0 ? "beside" : "alone", lines, facts);
    const { summary, measurements } = measureStage(lines, { stage });
    for (const line of lines) recorder.line(line);
    await recorder.addStage({ summary, facts, claims: [], measurements, faults: [], notes: [] });
  }
  await recorder.close();
  const { claims } = isolation.judged("again");
  expect(claims).toMatchObject([{ id: "curve/isolation", verdict: "pass" }]);
  await writeReports(folder, composeDocument(documentOf(recorder, claims)), recorder.series());
  expect(judgeAgain(path).changed).toEqual([]);
  const history = readFileSync(join(path, "history.ndjson"), "utf8").split("\n");
  const spoilt = history.map((text, n) =>
    n < 400 && n % 40 === 1 ? text.replace('"outcome":"200"', '"outcome":"429 org_overloaded"') : text,
  );
  await folder.writeText("history.ndjson", spoilt.join("\n"));
  expect(judgeAgain(path).changed).toMatchObject([{ id: "curve/isolation", is: { verdict: "inconclusive" } }]);
});

test("the same history gets the same verdict, byte for byte", async () => {
  const folder = await recordRun(["401", "401", "401"]);
  const written = readFileSync(join(folder, "series.json"), "utf8");
  const { document, series, changed } = judgeAgain(folder);
  expect(changed).toEqual([]);
  await writeReports(openRunFolder(folder), document, series);
  expect(readFileSync(join(folder, "series.json"), "utf8")).toBe(written);
  expect(JSON.stringify(judgeAgain(folder).document)).toBe(JSON.stringify(document));
  expect(document.verdict).toBe("pass");
});

test("members of a claim in another order are no difference, and stay in it", async () => {
  const folder = await recordRun(["401"]);
  const run = JSON.parse(readFileSync(join(folder, "run.json"), "utf8")) as { claims: object[] };
  run.claims = run.claims.map((claim) => Object.fromEntries(Object.entries(claim).reverse()));
  await openRunFolder(folder).writeJson("run.json", run);
  const { changed, document, series } = judgeAgain(folder);
  expect(changed).toEqual([]);
  const written = readFileSync(join(folder, "run.json"), "utf8");
  await writeReports(openRunFolder(folder), document, series);
  expect(readFileSync(join(folder, "run.json"), "utf8")).toBe(written);
});

test("claims of an older run, which have no codes, get those of the judges; that is no difference", async () => {
  const folder = await recordRun(["401", "200"]);
  const run = JSON.parse(readFileSync(join(folder, "run.json"), "utf8")) as { claims: Claim[] };
  const older = run.claims.map(({ code: _, ...claim }) => claim);
  await openRunFolder(folder).writeJson("run.json", { ...run, claims: older });
  const { changed, document, series } = judgeAgain(folder);
  expect(changed).toEqual([]);
  expect(document.claims.map(({ code }) => code)).toEqual(run.claims.map(({ code }) => code));
  expect(document.claims.map(({ code }) => code)).toContain("broken");
  // Claims that are not judged again stay without one, and are rendered all the same.
  const uncoded = { ...document, claims: older as Claim[] };
  await writeReports(openRunFolder(folder), uncoded, series);
  expect(readFileSync(join(folder, "junit.xml"), "utf8")).toContain('type="fail"');
});

test("a wrong answer in the history is condemned again", async () => {
  const { document, changed } = judgeAgain(await recordRun(["401", "200"]));
  expect(changed).toEqual([]);
  expect([document.verdict, document.exit_code]).toEqual(["fail", 1]);
});

test.each([2, 3, 5, 130, 143])("a run that ended with %d, which no claim says, keeps that code", async (exit_code) => {
  const folder = await recordRun(["401", "200"]);
  const run = JSON.parse(readFileSync(join(folder, "run.json"), "utf8")) as object;
  await openRunFolder(folder).writeJson("run.json", { ...run, exit_code });
  expect(judgeAgain(folder).document.exit_code).toBe(exit_code);
  await openRunFolder(folder).writeJson("run.json", { ...run, exit_code: 0 });
  expect(judgeAgain(folder).document.exit_code).toBe(1);
});

test("a credential that was written down fails a run whose keys were all refused, also by a document without its mark", async () => {
  const path = await recordRun(["401", "401"], { log: `key svc_sk_live_${"4b".repeat(16)}\n` });
  const run = JSON.parse(readFileSync(join(path, "run.json"), "utf8")) as { exit_code: number; claims: Claim[] };
  expect(run.exit_code).toBe(1);
  expect(run.claims.filter(({ verdict }) => verdict === "fail").map(({ id }) => id)).toEqual([
    "secrets-stay-secret/run",
  ]);
  const older = run.claims.map(({ stands_alone: _, ...claim }) => claim);
  for (const claims of [run.claims, older]) {
    await openRunFolder(path).writeJson("run.json", { ...run, claims });
    const { changed, document } = judgeAgain(path);
    expect([changed, document.exit_code]).toEqual([[], 1]);
  }
});

test("a history that was changed afterwards gets another verdict, and is told", async () => {
  const folder = await recordRun(["401", "503"]);
  const lines = [call(0, "200"), call(1, "503")].map((line) => `${JSON.stringify(line)}\n`);
  await openRunFolder(folder).writeText("history.ndjson", lines.join(""));
  const { document, changed } = judgeAgain(folder);
  expect(document.verdict).toBe("fail");
  expect(changed.map(({ id }) => id)).toContain("first-failing-check-decides/s");
});

test("a history that was cut short is refused, and accuses nobody", async () => {
  const folder = await recordRun(["401", "401", "401"]);
  const history = readFileSync(join(folder, "history.ndjson"), "utf8");
  await openRunFolder(folder).writeText("history.ndjson", history.slice(0, history.length * 0.7));
  expect(() => judgeAgain(folder)).toThrow(UsageError);
  expect(() => judgeAgain(folder)).toThrow(/its history.ndjson holds 2 of the 3 calls of s/);
  await openRunFolder(folder).writeText("history.ndjson", "");
  expect(() => judgeAgain(folder)).toThrow(/holds 0 of the 3 calls of s/);
});

test("a ledger that was cut short is refused", async () => {
  const charge = (n: number): LedgerLine => ({
    ...{ charge_id: `c${n}`, request_id: `r.s.c-${n}`, org: "a", key: "k", window: "2026-11" },
    ...{ meter: "map_loads", kind: "charge", amount: 1, at: n },
  });
  const folder = await recordRun(["401"], { ledger: [charge(0), charge(1)] });
  expect(judgeAgain(folder).changed).toEqual([]);
  const ledger = readFileSync(join(folder, "ledger.ndjson"), "utf8");
  await openRunFolder(folder).writeText("ledger.ndjson", ledger.slice(0, -10));
  expect(() => judgeAgain(folder)).toThrow(/its ledger.ndjson holds 1 of the 2 lines of s/);
});

test("what was played again has the verdict of the second playing as long as the lines leave it open", async () => {
  const decided = (claim: Claim): Claim[] =>
    claim.id === "recovers/s"
      ? decidedByBoth([
          claim,
          { ...claim, id: secondOf(claim.id), stage: secondOf("s"), verdict: "pass", code: "held" },
        ])
      : [claim];
  const { document, changed } = judgeAgain(await recordRun(["401"], { as: decided, faults: true }));
  const claims = new Map(document.claims.map(({ id, verdict, judged_in }) => [id, [verdict, judged_in]]));
  expect(claims.get("recovers/s")).toEqual(["pass", "recovers/s-again"]);
  expect(changed).toEqual([]);
});

test("a folder that is no run's is refused by name", () => {
  const path = mkdtempSync(join(tmpdir(), "floodgate-again-"));
  folders.push(path);
  expect(() => judgeAgain(path)).toThrow(UsageError);
  expect(() => judgeAgain(path)).toThrow(/run.json, history.ndjson/);
});

test("the commit of a checkout that belongs to another user is known", async () => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-checkout-"));
  const git = (...args: string[]): string =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", "-C", folder, ...args], { encoding: "utf8" });
  try {
    git("init", "-q");
    git("commit", "-q", "--allow-empty", "-m", "first");
    const commit = git("rev-parse", "--short=12", "HEAD").trim();
    // A variable of git's own tests.
    vi.stubEnv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    expect(() => git("rev-parse", "HEAD")).toThrow(/dubious ownership/);
    expect(await commitOf(folder)).toBe(commit);
  } finally {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true, force: true });
  }
});
