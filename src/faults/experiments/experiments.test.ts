import { expect, test } from "vitest";
import { FAULT_STATES } from "../../history/states-reached.ts";
import { FAULT_NAMES } from "../faults/catalogue.ts";
import { EXPERIMENTS } from "./catalogue.ts";
import { PAST_THE_CAP } from "./past-the-cap.ts";
import { WHERE_IT_HURTS } from "./where-it-hurts.ts";

/** Called by when they come and not only by what they break. */
const AT_A_MOMENT = WHERE_IT_HURTS.map(({ name }) => name);

const names = [...EXPERIMENTS.keys()];

test("every fault of a link is an experiment on the limiter and on the key service", () => {
  for (const link of ["limiter", "keys"]) for (const fault of FAULT_NAMES) expect(names).toContain(`${link}-${fault}`);
});

test("every process can be killed, stopped and ended in order", () => {
  for (const part of ["limiter", "keys", "api"]) {
    for (const fault of ["killed", "stopped", "restarted"]) expect(names).toContain(`${part}-${fault}`);
  }
});

test("five are played again past the cap", () => {
  expect(PAST_THE_CAP).toHaveLength(5);
  for (const name of PAST_THE_CAP) {
    expect(EXPERIMENTS.get(`${name}-past-the-cap`)).toMatchObject({
      breaks: EXPERIMENTS.get(name)?.breaks,
      pastTheCap: true,
    });
  }
});

test("an experiment on one dependency is called by what it breaks, and a link only by faults that there are", () => {
  for (const [name, { breaks, pastTheCap }] of EXPERIMENTS) {
    for (const { by, fault } of breaks) if (by === "link") expect(FAULT_NAMES).toContain(fault);
    const [{ link, fault }, second] = breaks;
    if (second !== undefined || link === "edge" || AT_A_MOMENT.includes(name)) continue;
    expect(name).toBe(`${link}-${fault}${pastTheCap === true ? "-past-the-cap" : ""}`);
  }
});

test("every situation that costs somebody something is met by an experiment", () => {
  const met = new Set([...EXPERIMENTS.values()].flatMap(({ meets = [] }) => meets));
  expect(FAULT_STATES.filter((state) => !met.has(state))).toEqual([]);
});

test("past the cap a fault has to meet what it meets below it, and calls that are shed", () => {
  for (const name of PAST_THE_CAP) {
    const below = EXPERIMENTS.get(name)?.meets ?? [];
    expect(EXPERIMENTS.get(`${name}-past-the-cap`)?.meets).toEqual([...below, "shedding"]);
  }
});
