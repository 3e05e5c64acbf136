/**
 * What a fault makes a deployment open, it must close again: a pool, a connection or a timer for each call that failed, and
 * the tenth outage is the last (item 180 speaks of slots; this is the same for what calls are made of). Read from the
 * replicas' own gauges before the stage and after its drain. Pools keep some connections for a while, so a few more are none.
 */
import type { Gauges } from "../history/stage-facts.ts";
import { Evidence, failed, type Invariant, inconclusive, knownBeforehand, passed, skipped } from "./invariant.ts";
import { skippedWhenShared } from "./shared-deployment.ts";

const EXPECTED = "after a fault and the drain a replica holds as many connections, files and timers as before";

/** What a pool, a batch and a process at rest may have more than in another moment of rest. */
const SPARE = 16;

const WATCHED: readonly [string, (gauges: Gauges) => number | null | undefined][] = [
  ["connections to its dependencies", ({ link_sockets }) => link_sockets],
  ["timers", ({ timers }) => timers],
  ["open files", ({ open_files }) => open_files],
  ["connections of callers", ({ sockets }) => sockets],
];

const isShown = (value: number | null | undefined): value is number => typeof value === "number";

type Held = { replica: number; what: string; was: number; is: number };

/** Each thing that both readings show of a replica. */
const shownBy = (before: readonly Gauges[], now: readonly Gauges[]): Held[] =>
  now.flatMap((gauges, at) =>
    WATCHED.flatMap(([what, of]) => {
      const then = before[at];
      const [was, is] = [then === undefined ? undefined : of(then), of(gauges)];
      return isShown(was) && isShown(is) ? [{ replica: at + 1, what, was, is }] : [];
    }),
  );

const isMore = ({ was, is }: Held): boolean => is > was + SPARE;

/** Whether a replica holds more of anything than it may. */
export const holdsMore = (before: readonly Gauges[], now: readonly Gauges[]): boolean =>
  shownBy(before, now).some(isMore);

export const nothingIsLeftOpen: Invariant = {
  id: "nothing-is-left-open",
  level: "must",
  spec: [180],
  statement: EXPECTED,
  judge({ faults, gauges, gauges_before: before, drained, exclusive }) {
    if (!faults) return knownBeforehand(skipped("a fault that was healed in this stage", EXPECTED));
    if (gauges === undefined || before === undefined || gauges.length === 0) {
      const missing = "gauges of the API replicas before and after the stage (control.api in the target file)";
      return knownBeforehand(skipped(missing, EXPECTED));
    }
    if (!exclusive) return knownBeforehand(skippedWhenShared("others open and close connections as well", EXPECTED));
    return {
      see: () => {},
      end() {
        const evidence = new Evidence();
        const shown = shownBy(before, gauges);
        const judged = new Set(shown.map(({ what }) => what));
        for (const held of shown.filter(isMore)) {
          evidence.breach(`replica ${held.replica}`, `${held.is} ${held.what}, and ${held.was} before the stage`);
        }
        if (judged.size === 0) return skipped("`sockets`, `timers` or `open_files` among the gauges", EXPECTED);
        if (!drained) return inconclusive("the stage was not drained before the gauges were read", EXPECTED);
        if (evidence.count > 0) return failed("something that was opened was not closed", EXPECTED, evidence);
        return passed(`${[...judged].join(", ")}: at most ${SPARE} more than before`, EXPECTED);
      },
    };
  },
};
