/**
 * A slot that is not given back is lost capacity: after thousands of clients that left, an idle replica sheds everybody (item
 * 180). Read from gauges after all calls have ended, where nobody else calls.
 */
import { skippedWhenShared } from "./evidence/deployment.ts";
import { isAdmitted } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped } from "./invariant.ts";

export const slotsAreGivenBack: Invariant = {
  id: "slots-are-given-back",
  level: "must",
  folded: true,
  spec: [180, 220],
  statement: "after the drain no replica holds a slot, in all or for any organization",
  judge({ gauges, drained, exclusive }) {
    if (gauges === undefined || gauges.length === 0) {
      return skipped("gauges of the API replicas (control.api in the target file)");
    }
    if (!exclusive) return skippedWhenShared("others may hold the slots that are held");
    const evidence = new Evidence();
    gauges.forEach(({ in_flight, in_flight_by_org }, at) => {
      const name = `replica ${at + 1}`;
      if (in_flight !== 0) evidence.breach(name, `${name} still has ${in_flight} calls in flight`);
      for (const [org, calls] of Object.entries(in_flight_by_org)) {
        if (calls !== 0) evidence.breach(name, `${name} still has ${calls} calls of ${org} in flight`);
      }
    });
    let admitted = 0;
    return {
      see(line, alike = 1) {
        if (line.type === "call" && isAdmitted(line)) admitted += alike;
      },
      end() {
        if (!drained) return inconclusive("the stage was not drained before the gauges were read");
        if (evidence.count > 0) return failed("slots were not given back", evidence);
        if (admitted === 0) return inconclusive("no call was admitted, so no slot was taken");
        return passed(`after ${admitted} admitted calls every slot was given back`);
      },
    };
  },
};
