/**
 * Shedding by calls in flight (items 210, 220): over any coming and going, under any change of caps, a replica and an
 * organization admit whoever fits and nobody else, and every slot comes back. For both ways to shed.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { adaptiveShedder, fixedShedder } from "../src/core/shedding.ts";
import { law } from "./laws/law.ts";
import { admitsExactlyWhoFits, capsArb, play, stepArb } from "./laws/shedding-law.ts";

const RUNS = { quick: 500, nightly: 50_000 };

law("fixed caps admit exactly who fits, and every slot comes back", () => admitsExactlyWhoFits(fixedShedder), RUNS);

law(
  "adaptive limits never admit more than the caps, and every slot comes back",
  () =>
    fc.property(capsArb, fc.array(stepArb, { maxLength: 120 }), (caps, steps) => {
      const shedder = adaptiveShedder({ ...caps, toleratedWaitMs: 10 });
      play(shedder, caps, steps, ({ room, orgRoom, entered, orgEntered }) => {
        if (entered) expect(room).toBe(true);
        if (orgEntered === true) expect(orgRoom).toBe(true);
        expect(Number.isFinite(shedder.limit())).toBe(true);
      });
    }),
  RUNS,
);
