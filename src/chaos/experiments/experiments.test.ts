import { expect, test } from "vitest";
import { FAULT_NAMES } from "../catalogue.ts";
import { EXPERIMENTS } from "./catalogue.ts";

test("every fault of a link is an experiment on the limiter and on the key service, and nothing else is", () => {
  const wanted = ["limiter", "keys"].flatMap((link) => FAULT_NAMES.map((fault) => `${link}-${fault}`));
  expect([...EXPERIMENTS.keys()]).toEqual(wanted);
});

test("an experiment is called by what it breaks", () => {
  for (const [name, { link, fault }] of EXPERIMENTS) expect(name).toBe(`${link}-${fault}`);
});
