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
])("%s in required is said to mean %s", (name, meant) => {
  expect(said(name)).toEqual([`required: no claim is known as ${name}; did you mean ${meant}?`]);
});

test.each([
  "verify",
  "verify/exchange-mints",
  "load/steady-mix",
  "sheds-above-the-cap/chat-past-capacity",
  "reached/deployment-states",
  "slo/chat-ttfe-p99",
  "steady-mix",
  ...[...EXPERIMENTS.keys()].map((name) => `reached/${name}`),
])("%s in required is left alone", (name) => {
  expect(said(name)).toEqual([]);
});
