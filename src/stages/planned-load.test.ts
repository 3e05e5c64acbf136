import { expect, test } from "vitest";
import { scenarioStage } from "../run/suites/suites.ts";
import type { Target } from "../target/target.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { plannedFor } from "./stage-plan.ts";

const target: Target = {
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:1/v1",
  credentials: { server: { key: "env:NOT_READ_HERE" } },
  limits: { global_in_flight: 24 },
};

const view = { ...viewOf(target), capacity: { chat: { perS: 20, by: "429 b2b_overloaded" } } };

const planned = (wish: Parameters<typeof scenarioStage>[1], maxPerS?: number) => {
  const permitted = { ...target, permits: { load_max_rps: maxPerS } };
  const deployment = { target: permitted, embedded: false, found: {} };
  return plannedFor(scenarioStage("chat-past-capacity", wish)!, deployment, view);
};
const reachWith = (wish: Parameters<typeof scenarioStage>[1]) => planned(wish)?.reach;

test("a replayed access log that is busier than is permitted is slowed down, and that is known", () => {
  const of = (maxPerS: number | undefined) => planned({ replayOfMs: [0, 1, 2, 3, 4_000] }, maxPerS);
  expect(of(undefined)?.slowedTo).toBeUndefined();
  expect(of(10)?.slowedTo).toBeUndefined();
  expect(of(2)?.slowedTo).toBeCloseTo(0.45);
  expect(of(2)?.profile.momentsUs?.at(-1)).toBeCloseTo(4e6 / 0.45, 0);
});

test("a replayed access log owes no shed, and the report says which outcome was not to be expected", () => {
  expect(reachWith({ ratePerS: 60, durationS: 5 })).toMatchObject({ beyond: [] });
  expect(reachWith({ replayOfMs: [0, 400, 1_200] })).toMatchObject({
    all: ["200"],
    oneOf: [],
    beyond: [{ outcome: "429 b2b_overloaded", reason: "the replayed log sets the load" }],
  });
});
