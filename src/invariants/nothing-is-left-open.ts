/**
 * A deployment must close what it opened for a fault: pools, connections, timers (item 180). Compares the replicas' gauges before
 * the stage and after its drain. A small increase is a pool's. A foreign pool may keep one connection for each call that may be
 * in flight.
 */
import type { Gauges, StageFacts } from "../history/stage-facts.ts";
import { isReference, skippedWhenShared } from "./evidence/deployment.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped } from "./invariant.ts";

/** Increase that a pool, a batch or an idle process may show. */
const SPARE = 16;
/** Limiter and key service have a pool each. */
const DEPENDENCIES = 2;

const WATCHED: readonly [string, (gauges: Gauges) => number | null | undefined][] = [
  ["connections to its dependencies", ({ link_sockets }) => link_sockets],
  ["timers", ({ timers }) => timers],
  ["open files", ({ open_files }) => open_files],
  ["connections of callers", ({ sockets }) => sockets],
];

const isShown = (value: number | null | undefined): value is number => typeof value === "number";

type Held = { replica: number; what: string; was: number; is: number };

/** Gauges shown by both readings. */
const shownBy = (before: readonly Gauges[], now: readonly Gauges[]): Held[] =>
  now.flatMap((gauges, at) =>
    WATCHED.flatMap(([what, of]) => {
      const then = before[at];
      const [was, is] = [then === undefined ? undefined : of(then), of(gauges)];
      return isShown(was) && isShown(is) ? [{ replica: at + 1, what, was, is }] : [];
    }),
  );

const isMore = ({ was, is }: Held, spare: number): boolean => is > was + spare;

const spareFor = ({ what }: Held, facts: Pick<StageFacts, "reference" | "limits">): number =>
  isReference(facts) || what === "timers"
    ? SPARE
    : SPARE + DEPENDENCIES * (facts.limits.global_in_flight ?? Number.POSITIVE_INFINITY);

/** Whether a replica holds more than a pool at rest. */
export const holdsMore = (before: readonly Gauges[], now: readonly Gauges[]): boolean =>
  shownBy(before, now).some((held) => isMore(held, SPARE));

export const nothingIsLeftOpen: Invariant = {
  id: "nothing-is-left-open",
  level: "must",
  spec: [180],
  statement: "after a fault and the drain a replica holds as many connections, files and timers as before",
  judge(facts) {
    const { faults, gauges, gauges_before: before, drained, exclusive } = facts;
    if (!faults) return skipped("a fault that was healed in this stage");
    if (gauges === undefined || before === undefined || gauges.length === 0) {
      const missing = "gauges of the API replicas before and after the stage (control.api in the target file)";
      return skipped(missing);
    }
    if (!exclusive) return skippedWhenShared("others open and close connections as well");
    return {
      see: () => {},
      end() {
        const evidence = new Evidence();
        const shown = shownBy(before, gauges).map((held) => ({ ...held, spare: spareFor(held, facts) }));
        const bounded = shown.filter(({ spare }) => Number.isFinite(spare));
        for (const held of bounded.filter((each) => isMore(each, each.spare))) {
          evidence.breach(`replica ${held.replica}`, `${held.is} ${held.what}, and ${held.was} before the stage`);
        }
        if (shown.length === 0) return skipped("`sockets`, `timers` or `open_files` among the gauges");
        if (bounded.length === 0) return skipped("limits.global_in_flight, which bounds what a pool may keep");
        if (!drained) return inconclusive("the stage was not drained before the gauges were read");
        if (evidence.count > 0) return failed("something that was opened was not closed", evidence);
        const each = new Map(bounded.map(({ what, spare }) => [what, `${what}: at most ${spare} more than before`]));
        return passed([...each.values()].join("; "));
      },
    };
  },
};
