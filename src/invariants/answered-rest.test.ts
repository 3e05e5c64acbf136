import { expect, test } from "vitest";
import { invariantsFor } from "./catalogue.ts";
import { judgeStage } from "./invariant.ts";
import { call, many, stageOf } from "./specimens/specimen.fixture.ts";

const facts = stageOf({ counts: { "200": { a: 10 } } });

test("a stage of which most calls ended at a gateway fails, and its other claims say of how many calls they speak", () => {
  const lines = [
    ...many(10, (at) => call(`${at}`, { atMs: at })),
    ...many(30, (at) => call(`edge${at}`, { atMs: 100 + at, outcome: "edge 502" })),
  ];
  const claims = judgeStage(invariantsFor(["envelope-fits-subcode", "secrets-stay-secret"]), facts, lines, "again");
  const [answered, envelope, secrets] = claims;
  expect(answered).toMatchObject({ id: "answered/s", level: "must", verdict: "fail", got: "30 x edge 502" });
  expect(answered?.reason).toMatch(/did not answer 30 of 40 calls \(75 %, 95 % interval 58\.8 % to 87\.3 %\)/);
  expect(envelope?.reason).toMatch(/judged on 10 of 40 calls, which the API answered$/);
  expect(secrets).toMatchObject({ verdict: "skipped", reason: expect.not.stringContaining("judged on") });
});

test("a stage that was answered is judged by that as well, and its other claims have nothing to add", () => {
  const claims = judgeStage(
    invariantsFor(["envelope-fits-subcode"]),
    facts,
    many(10, (at) => call(`${at}`)),
    "again",
  );
  expect(claims.map(({ id, verdict }) => [id, verdict])).toContainEqual(["answered/s", "pass"]);
  for (const { reason } of claims) expect(reason).not.toContain("judged on");
});
