import { expect, test } from "vitest";
import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import type { Target } from "../../target/target.ts";
import { chosenExperiments, lackedFor } from "./run-chaos.ts";

const target = (more: Partial<Target>): Target => ({
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:1/v1",
  ...more,
});
const names = (more: Partial<Target> | null, asked: string[] = [], short = false): string[] =>
  chosenExperiments(more === null ? null : target(more), { names: asked, short }).map(({ name }) => name);
const toxiproxy = { api_url: "http://127.0.0.1:1", proxies: { limiter: "l" } };

test("without names it is all that the deployment can have", () => {
  const all = [...EXPERIMENTS.values()];
  expect(names(null)).toEqual(all.filter(({ store }) => store !== "redis").map(({ name }) => name));
  const onItsLink = all.filter(({ faults }) =>
    faults.every(({ by, component }) => by === "link" && component === "limiter"),
  );
  const caps = { global_in_flight: 10 };
  expect(names({ toxiproxy, limits: caps })).toEqual(onItsLink.map(({ name }) => name));
  expect(names({ toxiproxy })).toEqual(onItsLink.flatMap(({ name, pastTheCap }) => (pastTheCap ? [] : name)));
  const none = { inject: [], heal: [] };
  const faults = { "keys.refused": none, "limiter.stopped": none, "service.slowed": none };
  expect(names({ faults })).toEqual(["keys-refused", "limiter-stopped"]);
});

test("--short is each dependency gone, and silent afterwards; names win over it", () => {
  const few = ["limiter-refused", "limiter-reply-lost", "keys-refused", "keys-reply-lost"];
  expect(names(null, [], true)).toEqual(few);
  expect(names(null, ["keys-trickle", "keys-trickle"], true)).toEqual(["keys-trickle"]);
});

test("what cannot be meant is answered with a sentence", () => {
  expect(() => names(null, ["limiter-refused", "down"])).toThrow(/"down"; there are:\n {2}limiter-refused/);
  expect(() => names(null, ["limiter-oom"])).toThrow("expected --limiter redis");
  expect(() => names({})).toThrow("no way to break a dependency");
  expect(() => names({ faults: { "the limiter": { inject: [], heal: [] } } })).toThrow('got "the limiter"');
});

test("what the file lacks for an experiment is named, each part of it", () => {
  const lacked = (more: Partial<Target>, name: string) =>
    lackedFor(target(more), EXPERIMENTS.get(name) as Experiment).join("; ");
  expect(lacked({ toxiproxy }, "limiter-refused")).toBe("");
  expect(lacked({ toxiproxy }, "both-refused")).toBe("`toxiproxy.proxies.keys`");
  expect(lacked({}, "limiter-oom")).toContain('`faults["limiter.oom"]`');
  expect(lacked({ faults: { "limiter.oom": { inject: [], heal: [] } } }, "limiter-oom")).toBe("");
  expect(lacked({ toxiproxy }, "limiter-reply-lost-past-the-cap")).toBe("`limits.global_in_flight`");
});
