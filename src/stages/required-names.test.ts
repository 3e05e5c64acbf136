import { expect, test } from "vitest";
import { EXPERIMENTS } from "../faults/experiments.ts";
import { misspeltRequired } from "./stage-plan.ts";

const said = (name: string): string[] => misspeltRequired({ required: [name] });

test.each([
  ["reached/stedy-mix", "reached/steady-mix"],
  ["reachd/steady-mix", "reached/steady-mix"],
  ["verify/exchange-mint", "verify/exchange-mints"],
  ["chaos/limiter-refusd", "chaos/limiter-refused"],
  ["load/chat-past-capacty", "load/chat-past-capacity"],
  ["verfy", "verify"],
  ["load/chat-past-capcity", "load/chat-past-capacity"],
  ["curve/goodput_retenton", "curve/goodput_retention"],
  ["verify/steady-mix-of-calls", null],
  ["steady-mix/steady-mix", null],
  ["the-moon", null],
])("%s in required is said to mean %s", (name, meant) => {
  const hint = meant === null ? expect.stringMatching(/^required: [^?]*explain lists/) : null;
  expect(said(name)).toEqual([hint ?? `required: no claim is known as ${name}; did you mean ${meant}?`]);
});

test.each([
  "verify",
  "verify/exchange-mints",
  "load/steady-mix",
  "sheds-above-the-cap/chat-past-capacity",
  "reached/deployment-states",
  "slo/chat-ttfe-p99",
  "steady-mix",
  "verify/budget",
  "curve/goodput_retention_5",
  "capacity/refusals",
  "gate/latency_ms_p99",
  "answered/capacity",
  "thresholds/script",
  "soak-mix-3",
  "reached/leaving-readers-6",
  ...[...EXPERIMENTS.keys()].map((name) => `reached/${name}`),
])("%s in required is left alone", (name) => {
  expect(said(name)).toEqual([]);
});
