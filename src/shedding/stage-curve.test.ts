import { expect, test } from "vitest";
import { bareFacts, type StageFacts } from "../history/run-document.ts";
import { upAndDown } from "../workload/load-profiles.ts";
import { playRamp, queueing, START_US } from "./simulated-servers.fixture.ts";
import { openStageCurve } from "./stage-curve.ts";

const profile = upAndDown(120, 60, 700);
const lines = playRamp(queueing({ slots: 24, inFlight: 24, serviceMs: 200, service: "constant" }), profile, 3, {
  stage: "curve",
});

const facts: StageFacts = {
  ...bareFacts("curve"),
  ...{ shedding: "fixed", exclusive: true, limits: { replicas: 1, slots: 24, service_ms: 200 } },
  offered: { start_us: START_US, pieces: profile.pieces },
  curve: { not_played: [10], slots: 24 },
};

const judged = (given: StageFacts) => {
  const curve = openStageCurve(given);
  for (const line of lines) curve?.see(line);
  return curve?.end("npx floodgate load shedding-curve");
};

/** With the values that are computed on demand. */
const whole = (ended: ReturnType<typeof judged>) => {
  return { ...ended, curve: { ...ended?.curve, patient: ended?.curve?.patient?.() } };
};

test("a stage is judged by its curve out of its facts and lines alone, each time the same", () => {
  const first = judged(facts);
  expect(first?.curve?.levels.length).toBe(profile.pieces.length);
  expect(first?.curve?.closedForm).toEqual({ slots: 24, replicas: 1 });
  expect(first?.claims.filter(({ verdict }) => verdict === "fail")).toEqual([]);
  expect(first?.claims.find(({ id }) => id === "curve/goodput_retention")).toMatchObject({ verdict: "pass" });
  expect(whole(first).curve.patient?.levels.length).toBe(profile.pieces.length);
  expect(whole(judged(facts))).toEqual(whole(first));
});

test("what is carried of the closed form is measured with its interval where fixed slots are stated, and only there", () => {
  const measured = (given: StageFacts) => judged(given)?.measurements.find(({ name }) => name === "closed_form");
  const [own, doubled] = [measured(facts), measured({ ...facts, curve: { not_played: [], slots: 48 } })];
  expect(own?.high).toBeGreaterThan(0.95);
  expect(doubled?.high).toBeLessThan(0.7);
  expect(measured({ ...facts, shedding: "adaptive" })).toBeUndefined();
});

test("a stage that played no curve has none; one without enough answers says so and passes nothing", () => {
  expect(openStageCurve(bareFacts("curve"))).toBeNull();
  const silent = openStageCurve({ ...facts, stage: "another" })?.end("-");
  expect(silent?.curve).toBeNull();
  expect(silent?.claims).toMatchObject([{ id: "curve/goodput_retention", verdict: "inconclusive", stage: "another" }]);
});

test("a deployment that sheds every call after the ramp has not come back from it", () => {
  const ramp = [{ rate_per_s: 60, stay_ms: { value: 200, low: 190, high: 210 } }];
  const outage = (given: StageFacts, outcome = "429 b2b_overloaded") => {
    const curve = openStageCurve(given);
    for (const line of lines) curve?.see({ ...line, outcome, ended: undefined });
    return curve?.end("-").claims.map(({ id, verdict }) => `${id} ${verdict}`);
  };
  const open = "curve/goodput_retention inconclusive";
  const served: StageFacts = { ...facts, curve: { not_played: [], ramp } };
  expect(outage(served)).toEqual([open, "curve/metastability fail"]);
  // Another caller, a ramp that was not served either, or a gateway may explain it.
  expect(outage({ ...served, exclusive: false })).toEqual([open]);
  expect(outage(facts)).toEqual([open]);
  expect(outage(served, "edge 503")).toEqual([open]);
});
