import { expect, test } from "vitest";
import { FAULT_STATES } from "../history/run-document.ts";
import { LETS_NOTHING_THROUGH } from "../invariants/evidence/fault-windows.ts";
import { EXPERIMENTS, PAST_THE_CAP } from "./experiments.ts";
import { LINK_FAULTS } from "./link-faults.ts";

/** Called by when they come and not only by what they break. */
const AT_A_MOMENT = ["last-unit-reply-lost", "month-edge-reply-lost", "api-restarted-unsettled"];

const names = [...EXPERIMENTS.keys()];

test("every fault of a link is an experiment on the limiter and on the key service", () => {
  for (const link of ["limiter", "keys"]) for (const fault of LINK_FAULTS) expect(names).toContain(`${link}-${fault}`);
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
      faults: EXPERIMENTS.get(name)?.faults,
      pastTheCap: true,
    });
  }
});

test("an experiment on one dependency is called by what it breaks, and a link only by faults that there are", () => {
  for (const [name, { faults, pastTheCap }] of EXPERIMENTS) {
    for (const { by, fault } of faults) if (by === "link") expect(LINK_FAULTS).toContain(fault);
    const [{ component, fault }, second] = faults;
    if (second !== undefined || component === "edge" || AT_A_MOMENT.includes(name)) continue;
    expect(name).toBe(`${component}-${fault}${pastTheCap === true ? "-past-the-cap" : ""}`);
  }
});

test("while a fault lets nothing through, the calls that need its component are refused, all of them", () => {
  const certain = [...EXPERIMENTS.values()].filter(({ faults: [{ component, fault }, second] }) => {
    const isDependency = component === "limiter" || component === "keys";
    return isDependency && second === undefined && LETS_NOTHING_THROUGH.has(fault);
  });
  expect(certain.length).toBeGreaterThan(20);
  expect(certain.filter(({ refuses }) => refuses !== "all")).toEqual([]);
});

test("every situation that costs somebody something is met by an experiment", () => {
  const met = new Set([...EXPERIMENTS.values()].flatMap(({ requiredStates = [] }) => requiredStates));
  expect(FAULT_STATES.filter((state) => !met.has(state))).toEqual([]);
});

test("past the cap a fault has to meet what it meets below it, and calls that are shed", () => {
  for (const name of PAST_THE_CAP) {
    const below = EXPERIMENTS.get(name)?.requiredStates ?? [];
    expect(EXPERIMENTS.get(`${name}-past-the-cap`)?.requiredStates).toEqual([...below, "shedding"]);
  }
});
