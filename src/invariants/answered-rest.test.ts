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
  expect([answered?.code, envelope?.code, secrets?.code]).toEqual(["edge-answered", "not-seen", "not-stated"]);
  expect(answered?.reason).toMatch(/did not answer 30 of 40 calls \(75 %, 95 % interval 58\.8 % to 87\.3 %\)/);
  expect(answered?.reason).toMatch(/; a gateway says so of the API behind it: was that restarted/);
  expect(envelope?.reason).toMatch(/judged on 10 of 40 calls, which the API answered$/);
  expect(secrets).toMatchObject({ verdict: "skipped", reason: expect.not.stringContaining("judged on") });
});

test("a limit outside the envelopes may be a gateway's or the API's own, and a page of a failure is a gateway's", () => {
  for (const [status, whose] of [
    [429, true],
    [503, true],
    [502, false],
  ] as const) {
    const lines = [
      ...many(30, (at) => call(`${at}`, { atMs: at })),
      ...many(30, (at) => call(`edge${at}`, { atMs: 100 + at, outcome: `edge ${status}` })),
    ];
    const [answered] = judgeStage(invariantsFor(["envelope-fits-subcode"]), facts, lines, "again");
    expect(answered?.verdict).toBe(whose ? "inconclusive" : "fail");
    expect(/the API itself refuse in its framework's words.*curl -i/.test(answered?.reason ?? "")).toBe(whose);
  }
});

test("a limit in front hides no failure beside it, and no pass comes of either", () => {
  const of = (outcome: string) => {
    const lines = [
      ...many(100, (at) => call(`${at}`, { atMs: at })),
      ...many(30, (at) => call(`edge${at}`, { atMs: 100 + at, outcome: "edge 429" })),
      ...many(30, (at) => call(`other${at}`, { atMs: 200 + at, outcome })),
    ];
    return judgeStage(invariantsFor([]), facts, lines, "again")[0]?.verdict;
  };
  expect(["edge 502", "500 internal", "indeterminate", "200", "503"].map(of)).toEqual([
    ...["fail", "fail", "fail", "inconclusive", "inconclusive"],
  ]);
});

test("an outage that nobody made leaves a stage open, and a few lost moments of the key service do not", () => {
  const of = (down: number) => {
    const lines = [
      ...many(300, (at) => call(`${at}`, { atMs: at })),
      ...many(down, (at) => call(`down${at}`, { atMs: 300 + at, outcome: "503", envelope: "none" })),
    ];
    return judgeStage(invariantsFor(["envelope-fits-subcode"]), facts, lines, "again");
  };
  expect(of(3)[0]?.verdict).toBe("pass");
  const [answered, envelope] = of(60);
  expect(answered).toMatchObject({ verdict: "inconclusive", reason: expect.stringMatching(/^60 of 360 calls were/) });
  expect(envelope?.reason).not.toContain("judged on");
});

test("calls that nobody answered are told from those that something in front answered, also by a program", () => {
  const of = (outcome: string, n: number) => {
    const lines = [
      ...many(30, (at) => call(`${at}`, { atMs: at })),
      ...many(n, (at) => call(`other${at}`, { atMs: 100 + at, outcome })),
    ];
    return judgeStage(invariantsFor([]), facts, lines, "again")[0]?.code;
  };
  expect([of("edge 502", 30), of("indeterminate", 30), of("indeterminate", 2), of("200", 1)]).toEqual([
    ...["edge-answered", "not-answered", "too-few-calls", "held"],
  ]);
});

test("nothing in front is asked about where a call got no answer at all, or the API's own 500", () => {
  for (const outcome of ["indeterminate", "500"]) {
    const lines = [
      ...many(10, (at) => call(`${at}`, { atMs: at })),
      ...many(20, (at) => call(`edge${at}`, { atMs: 100 + at, outcome: "edge 502" })),
      ...many(10, (at) => call(`other${at}`, { atMs: 200 + at, outcome })),
    ];
    const [answered] = judgeStage(invariantsFor(["envelope-fits-subcode"]), facts, lines, "again");
    expect(answered).toMatchObject({ verdict: "fail", reason: expect.not.stringContaining("envelopes") });
  }
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
