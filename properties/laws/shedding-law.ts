/**
 * Shedding by calls in flight as a function of the shedder: for the tests of fixed and adaptive shedding, and for mutants
 * (mutant-laws.ts).
 */
import fc from "fast-check";
import { expect } from "vitest";
import type { Caps, Shedder } from "../../src/core/shedding.ts";

export const capsArb = fc.record({ globalInFlight: fc.nat({ max: 8 }), orgInFlight: fc.nat({ max: 4 }) });
type Step =
  | { does: "call"; org: string; cap: number | null }
  | { does: "end"; which: number }
  | { does: "sample"; waitMs: number }
  | { does: "caps"; caps: Caps };
export const stepArb: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      does: fc.constant("call" as const),
      org: fc.constantFrom("a", "b", "c"),
      cap: fc.constantFrom(null, null, 0, 2),
    }),
  },
  { weight: 3, arbitrary: fc.record({ does: fc.constant("end" as const), which: fc.nat() }) },
  fc.record({ does: fc.constant("sample" as const), waitMs: fc.nat({ max: 500 }) }),
  fc.record({ does: fc.constant("caps" as const), caps: capsArb }),
);

/** Plays the steps; `each` gets every call, with the room that the model's own counts leave for it. */
export const play = (
  shedder: Shedder,
  caps: Caps,
  steps: Step[],
  each: (seen: { room: boolean; orgRoom: boolean; entered: boolean; orgEntered: boolean | null }) => void,
): void => {
  let now = caps;
  let nowMs = 0;
  const flying: string[] = [];
  const of = (org: string): number => flying.filter((other) => other === org).length;
  for (const step of steps) {
    nowMs += 20;
    if (step.does === "sample") shedder.sample(step.waitMs, nowMs);
    if (step.does === "caps") {
      now = step.caps;
      shedder.setCaps(step.caps);
    }
    if (step.does === "end" && flying.length > 0) {
      const [org] = flying.splice(step.which % flying.length, 1) as [string];
      shedder.leaveOrganization(org);
      shedder.leave();
    }
    if (step.does === "call") {
      const room = flying.length < now.globalInFlight;
      const orgRoom = of(step.org) < (step.cap ?? now.orgInFlight);
      const entered = shedder.enter();
      const orgEntered = entered ? shedder.enterOrganization(step.org, step.cap) : null;
      each({ room, orgRoom, entered, orgEntered });
      if (orgEntered === true) flying.push(step.org);
      else if (entered) shedder.leave();
    }
    expect(shedder.inFlight()).toBe(flying.length);
    expect(shedder.inFlightByOrganization()).toEqual(
      Object.fromEntries([...new Set(flying)].map((org) => [org, of(org)])),
    );
  }
  for (const org of flying.splice(0)) {
    shedder.leaveOrganization(org);
    shedder.leave();
  }
  expect([shedder.inFlight(), shedder.inFlightByOrganization()]).toEqual([0, {}]);
};

export const admitsExactlyWhoFits = (shedder: (caps: Caps) => Shedder) =>
  fc.property(capsArb, fc.array(stepArb, { maxLength: 60 }), (caps, steps) => {
    play(shedder(caps), caps, steps, ({ room, orgRoom, entered, orgEntered }) => {
      const said = (fits: boolean): string => (fits ? "admitted" : "shed");
      if (entered !== room) throw new Error(`expected a call ${said(room)} by its replica, got ${said(entered)}`);
      if (entered && orgEntered !== orgRoom) {
        throw new Error(`expected a call ${said(orgRoom)} by its organization, got ${said(orgEntered === true)}`);
      }
    });
  });
