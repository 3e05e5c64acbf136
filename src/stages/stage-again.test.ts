import { expect, test } from "vitest";
import { claimOf } from "../history/claim.fixture.ts";
import { CALM, LATE } from "../history/machines.fixture.ts";
import { bareFacts, type Claim, type StageHost, type StageOutcome } from "../history/run-document.ts";
import { stageAgain } from "./play-stages.ts";
import type { LoadStage } from "./stage-plan.ts";

const fault = {
  kind: "faults",
  name: "x",
  faults: [{ by: "link", component: "limiter", fault: "reset" }],
  holdMs: 3_000,
} as const;
const plan: LoadStage = {
  kind: "load",
  name: "x",
  driver: "open-loop",
  story: "broken-dependency",
  judges: [],
  disturbance: fault,
};
const claim = (id: string, verdict: Claim["verdict"], over: Partial<Claim> = {}): Claim =>
  claimOf(id, { verdict, ...over });
const OPEN = claim("recovers/x", "inconclusive");
const PLAYED = claim("reached/x", "pass");

const came = (claims: Claim[], host: StageHost | undefined = LATE): StageOutcome => ({
  summary: {
    name: "x",
    driver: "open-loop",
    duration_ms: 1,
    by_outcome: {},
    calls: { sent: 0, answered: 0, refused: 0, indeterminate: 0 },
  },
  facts: { ...bareFacts("x"), ...(host === undefined ? {} : { host }) },
  claims,
  measurements: [],
  faults: [],
  notes: [],
});

test("an experiment that a disturbed machine left undecided is played again, with the same fault", () => {
  expect(stageAgain(plan, came([PLAYED, OPEN]))).toEqual({ ...plan, name: "x-again" });
});

test.each([
  ["everything was decided", came([PLAYED]), plan],
  ["something failed", came([OPEN, claim("fails-closed/x", "fail")]), plan],
  ["the machine was calm", came([OPEN], CALM), plan],
  ["nothing is known of the machine", { ...came([OPEN]), facts: bareFacts("x") }, plan],
  ["only what is no must is open", came([claim("recovers/x", "inconclusive", { level: "should" })]), plan],
  ["a fault may still be in", { ...came([OPEN]), isLeftBroken: true }, plan],
  ["nothing was broken", came([OPEN]), { ...plan, disturbance: undefined }],
  ["it used up what it is about", came([OPEN]), { ...plan, tenants: "last-units" }],
] as const)("it is not where %s", (_, outcome, stage) => {
  expect(stageAgain(stage as LoadStage, outcome)).toBeNull();
});
