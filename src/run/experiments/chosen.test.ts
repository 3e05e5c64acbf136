import { expect, test } from "vitest";
import { EXPERIMENTS } from "../../chaos/experiments/catalogue.ts";
import type { Target } from "../../target/target.ts";
import { chosenExperiments } from "./chosen.ts";

const target = (more: Partial<Target>): Target => ({
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:1/v1",
  ...more,
});
const names = (more: Partial<Target> | null, asked: string[] = [], short = false): string[] =>
  chosenExperiments(more === null ? null : target(more), asked, short).map(({ name }) => name);
const toxiproxy = { api_url: "http://127.0.0.1:1", proxies: { limiter: "l" } };

test("without names it is all that the deployment can have", () => {
  expect(names(null)).toEqual([...EXPERIMENTS.keys()]);
  expect(names({ toxiproxy })).toEqual([...EXPERIMENTS.keys()].filter((name) => name.startsWith("limiter-")));
  const faults = { "keys.refused": { inject: [], heal: [] }, "limiter.stopped": { inject: [], heal: [] } };
  expect(names({ faults })).toEqual(["keys-refused", "limiter-stopped"]);
});

test("--short is each dependency gone, and silent afterwards; names win over it", () => {
  const few = ["limiter-refused", "limiter-reply-lost", "keys-refused", "keys-reply-lost"];
  expect(names(null, [], true)).toEqual(few);
  expect(names(null, ["keys-trickle", "keys-trickle"], true)).toEqual(["keys-trickle"]);
});

test("what cannot be meant is answered with a sentence", () => {
  expect(() => names(null, ["limiter-refused", "down"])).toThrow(/"down"; there are:\n {2}limiter-refused/);
  expect(() => names({})).toThrow("no way to break a dependency");
  expect(() => names({ faults: { "the limiter": { inject: [], heal: [] } } })).toThrow('got "the limiter"');
});
